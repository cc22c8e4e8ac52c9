"""What a Google client library raises, as one line; what a refusal means is each service's own."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from whichdevice.errors import StudyError

REQUEST_LINE = re.compile(r"^[A-Z]+ https?://\S+: ")  # which the client library puts in front
SIGN_IN = "sign in: gcloud auth application-default login"


class RefusedError(StudyError):
    """The API answered with an error."""


class UnreachableError(StudyError):
    """No answer came, so that a request may or may not have been carried out."""


def told(error: Any) -> str:
    """The service's own words, on one line."""
    return REQUEST_LINE.sub("", " ".join(str(error.message or error).split()))


@contextmanager
def one_line(what: str, service: str, refusal: Callable[[str, Any], StudyError]) -> Iterator[None]:
    """Turn the client library's exceptions into a StudyError that begins with `what` was tried.

    `refusal` makes one of an answer that is an error.
    """
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    try:
        yield
    except auth.DefaultCredentialsError:
        raise RefusedError(f"{what}: no Google credentials on this machine; {SIGN_IN}") from None
    except auth.RefreshError as error:
        raise RefusedError(f"{what}: the Google credentials have expired or were revoked; {SIGN_IN}") from error
    except (auth.TransportError, requests.exceptions.RequestException, api.RetryError) as error:
        raise UnreachableError(
            f"{what}: no answer from {service} ({type(error).__name__}); is the network up?"
        ) from error
    except api.GoogleAPICallError as error:
        raise refusal(what, error) from error

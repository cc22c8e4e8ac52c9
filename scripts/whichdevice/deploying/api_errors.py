"""What Vertex AI refuses, as the one line that a person can act on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whichdevice.errors import StudyError

REQUEST_LINE = re.compile(r"^[A-Z]+ https?://\S+: ")  # which the client library puts in front
SIGN_IN = "sign in: gcloud auth application-default login"
ENABLE = "the project has no Vertex AI yet: gcloud services enable aiplatform.googleapis.com"
ROLE = "the account needs the role Vertex AI User (roles/aiplatform.user) in this project"
QUOTA = "ask for quota at console.cloud.google.com/iam-admin/quotas, or take another --machine-type or --region"


class UnreachableError(StudyError):
    """No answer came, so that a request may or may not have been carried out."""


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn the client library's exceptions into a StudyError that begins with what was tried."""
    import requests
    from google.api_core import exceptions as api
    from google.auth import exceptions as auth

    try:
        yield
    except auth.DefaultCredentialsError:
        raise StudyError(f"{what}: no Google credentials on this machine; {SIGN_IN}") from None
    except auth.RefreshError as error:
        raise StudyError(f"{what}: the Google credentials have expired or were revoked; {SIGN_IN}") from error
    except (auth.TransportError, requests.exceptions.RequestException, api.RetryError) as error:
        raise UnreachableError(
            f"{what}: no answer from Vertex AI ({type(error).__name__}); is the network up?"
        ) from error
    except api.ServerError as error:
        raise UnreachableError(f"{what}: {_told(error)}; Vertex AI is in trouble, try again later") from error
    except api.GoogleAPICallError as error:
        raise StudyError(refusal(what, error)) from error


def refusal(what: str, error: Any) -> str:
    """One line for an API error, whether a request's or an operation's."""
    return f"{what}: {_told(error)}{_advice(error)}"


def _told(error: Any) -> str:
    return REQUEST_LINE.sub("", " ".join(str(error.message or error).split()))


def _advice(error: Any) -> str:
    from google.api_core import exceptions as api

    code = getattr(getattr(error, "grpc_status_code", None), "name", "")
    if "has not been used in project" in str(error) or "SERVICE_DISABLED" in str(error):
        return f"; {ENABLE}"
    if isinstance(error, api.TooManyRequests) or code == "RESOURCE_EXHAUSTED":
        return f"; {QUOTA}"
    if isinstance(error, api.Unauthorized | api.Unauthenticated):
        return f"; {SIGN_IN}"
    if isinstance(error, api.Forbidden) or code == "PERMISSION_DENIED":
        return f"; {ROLE}"
    return ""

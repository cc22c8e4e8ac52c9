"""What Google's API refuses, as the one line that a person can act on."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from whichdevice.errors import StudyError

NO_CAPACITY = re.compile(r"no more capacity|stockout|insufficient (reserved )?capacity|resource_pool_exhausted", re.I)
REQUEST_LINE = re.compile(r"^[A-Z]+ https?://\S+: ")  # which the client library puts in front
SIGN_IN = "sign in: gcloud auth application-default login"
RESOURCE_EXHAUSTED, PERMISSION_DENIED = 8, 7  # google.rpc.Code


class NoCapacityError(StudyError):
    """The zone has none left now, or none within the quota; another zone may."""


class RefusedError(StudyError):
    """The API answered with an error."""


class UnreachableError(StudyError):
    """No answer came, so that a request may or may not have been carried out."""


@contextmanager
def one_line(what: str) -> Iterator[None]:
    """Turn the client library's exceptions into a StudyError that begins with `what` was tried."""
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
            f"{what}: no answer from the TPU API ({type(error).__name__}); is the network up?"
        ) from error
    except api.GoogleAPICallError as error:
        raise refusal(what, error) from error


def refusal(what: str, error: Any) -> StudyError:
    """The StudyError for an API error, whether a request's or an operation's."""
    from google.api_core import exceptions as api

    told = REQUEST_LINE.sub("", " ".join(str(error.message or error).split()))
    number = _rpc_code(error)
    if NO_CAPACITY.search(told):
        return NoCapacityError(
            f"{what}: {told}; later, another zone under tpu_vm.zone, or tpu_vm.queued: true may help"
        )
    if isinstance(error, api.TooManyRequests) or number == RESOURCE_EXHAUSTED:
        return NoCapacityError(
            f"{what}: {told}; ask for quota at console.cloud.google.com/iam-admin/quotas (docs/cloud.md)"
        )
    if "has not been used in project" in told or "SERVICE_DISABLED" in told:
        return RefusedError(f"{what}: the project has no TPU API yet: gcloud services enable tpu.googleapis.com")
    if isinstance(error, api.Unauthorized | api.Unauthenticated):
        return RefusedError(f"{what}: the credentials were refused; {SIGN_IN}")
    if isinstance(error, api.Forbidden) or number == PERMISSION_DENIED:
        return RefusedError(f"{what}: {told}; the account needs the role TPU Admin (roles/tpu.admin) in this project")
    if isinstance(error, api.NotFound):
        return RefusedError(f"{what}: {told}; is tpu_vm.project right, and does tpu_vm.zone have this type?")
    if isinstance(error, api.ServerError):
        return UnreachableError(f"{what}: {told}; the TPU API is in trouble, try again later")
    return RefusedError(f"{what}: {told}")


def _rpc_code(error: Any) -> int | None:
    """The google.rpc code of an operation's error, which the client library wraps by its gRPC code."""
    code = getattr(error, "grpc_status_code", None)
    return code.value[0] if code is not None else None

"""What Vertex AI refuses, as the one line that a person can act on."""

from contextlib import AbstractContextManager
from typing import Any

from whichdevice import google_api_errors
from whichdevice.errors import StudyError
from whichdevice.google_api_errors import SIGN_IN, RefusedError, UnreachableError, told

ENABLE = "the project has no Vertex AI yet: gcloud services enable aiplatform.googleapis.com"
ROLE = "the account needs the role Vertex AI User (roles/aiplatform.user) in this project"
QUOTA = "ask for quota at console.cloud.google.com/iam-admin/quotas, or take another --machine-type or --region"


def one_line(what: str) -> AbstractContextManager[None]:
    """Turn the client library's exceptions into a StudyError that begins with what was tried."""
    return google_api_errors.one_line(what, "Vertex AI", refusal)


def refusal(what: str, error: Any) -> StudyError:
    """The StudyError for an API error, whether a request's or an operation's."""
    from google.api_core import exceptions as api

    if isinstance(error, api.ServerError):
        return UnreachableError(f"{what}: {told(error)}; Vertex AI is in trouble, try again later")
    return RefusedError(f"{what}: {told(error)}{_advice(error)}")


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

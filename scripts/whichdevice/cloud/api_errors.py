"""What the TPU API refuses, as the one line that a person can act on."""

import re
from contextlib import AbstractContextManager
from typing import Any

from whichdevice import google_api_errors
from whichdevice.errors import StudyError
from whichdevice.google_api_errors import SIGN_IN, RefusedError, UnreachableError, told

NO_CAPACITY = re.compile(r"no more capacity|stockout|insufficient (reserved )?capacity|resource_pool_exhausted", re.I)
RESOURCE_EXHAUSTED, PERMISSION_DENIED = 8, 7  # google.rpc.Code


class NoCapacityError(StudyError):
    """The zone has none left now, or none within the quota; another zone may."""


def one_line(what: str) -> AbstractContextManager[None]:
    """Turn the client library's exceptions into a StudyError that begins with `what` was tried."""
    return google_api_errors.one_line(what, "the TPU API", refusal)


def refusal(what: str, error: Any) -> StudyError:
    """The StudyError for an API error, whether a request's or an operation's."""
    from google.api_core import exceptions as api

    words, number = told(error), _rpc_code(error)
    if NO_CAPACITY.search(words):
        return NoCapacityError(
            f"{what}: {words}; later, another zone under tpu_vm.zone, or tpu_vm.queued: true may help"
        )
    if isinstance(error, api.TooManyRequests) or number == RESOURCE_EXHAUSTED:
        return NoCapacityError(
            f"{what}: {words}; ask for quota at console.cloud.google.com/iam-admin/quotas (docs/cloud.md)"
        )
    if "has not been used in project" in words or "SERVICE_DISABLED" in words:
        return RefusedError(f"{what}: the project has no TPU API yet: gcloud services enable tpu.googleapis.com")
    if isinstance(error, api.Unauthorized | api.Unauthenticated):
        return RefusedError(f"{what}: the credentials were refused; {SIGN_IN}")
    if isinstance(error, api.Forbidden) or number == PERMISSION_DENIED:
        return RefusedError(f"{what}: {words}; the account needs the role TPU Admin (roles/tpu.admin) in this project")
    if isinstance(error, api.NotFound):
        return RefusedError(f"{what}: {words}; is tpu_vm.project right, and does tpu_vm.zone have this type?")
    if isinstance(error, api.ServerError):
        return UnreachableError(f"{what}: {words}; the TPU API is in trouble, try again later")
    return RefusedError(f"{what}: {words}")


def _rpc_code(error: Any) -> int | None:
    """The google.rpc code of an operation's error, which the client library wraps by its gRPC code."""
    code = getattr(error, "grpc_status_code", None)
    return code.value[0] if code is not None else None

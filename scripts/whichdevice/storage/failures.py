"""What goes wrong with a bucket, as one line: what, where, what to do. The server's own words may name accounts."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from whichdevice.errors import StudyError

LOGIN = "run `gcloud auth application-default login`, or set GOOGLE_APPLICATION_CREDENTIALS to a key file"
ROLE = "ask the bucket's owner for the role Storage Object User (roles/storage.objectUser)"
KEPT = "nothing is lost; run again to go on"


@contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn every failure to reach `address` into a StudyError."""
    try:
        yield
    except StudyError:
        raise
    except Exception as error:
        if (line := explanation(error, address)) is None:
            raise
        raise StudyError(line) from None


def explanation(error: Exception, address: str) -> str | None:
    """The line for one failure, or None where it is a fault of the program."""
    modules, name = type(error).__module__, type(error).__name__
    if modules.startswith("google.auth"):
        if name == "RefreshError":
            return f"{address}: Google refuses these credentials (expired, withdrawn or of another project); {LOGIN}"
        return f"{address}: no usable Google credentials on this machine; {LOGIN}"
    if isinstance(error, FileNotFoundError | NotADirectoryError):
        return (
            f"{address}: no such bucket or object; make it: python -m whichdevice bucket make, or correct the address"
        )
    if name == "HttpError":
        return f"{address}: {_by_code(getattr(error, 'code', None))}"
    if isinstance(error, PermissionError) or (isinstance(error, OSError) and str(error).startswith("Forbidden")):
        return f"{address}: no permission for this account; {ROLE}"
    if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"no room left on the disk ({error.filename or address}): make some and run again"
    if name == "ChecksumError":
        return f"{address}: arrived damaged and was not kept; run again"
    if name in ("NoCredentialsError", "ClientAuthenticationError"):  # of S3 and Azure
        return f"{address}: no usable credentials on this machine; log in as its storage asks for"
    if _is_network(error, modules):
        return f"{address}: cannot be reached or the connection broke ({name}); check the network; {KEPT}"
    if isinstance(error, OSError) and error.errno is not None:
        return f"{address}: {error.strerror or name}"
    return f"{address}: is no readable zip file" if name == "BadZipFile" else None


def _by_code(code: object) -> str:
    number = int(str(code)) if str(code).isdigit() else 0
    if number == 401:
        return f"the credentials are missing, wrong or expired (HTTP 401); {LOGIN}"
    if number == 403:
        return f"no permission for this account (HTTP 403); {ROLE}"
    if number == 404:
        return "no such bucket or object (HTTP 404); correct the address, or make it: python -m whichdevice bucket make"
    if number == 409:
        return "the name is taken (HTTP 409): bucket names are shared by all of Google Cloud; choose another"
    return f"the server answered HTTP {number or 'error'}; {KEPT}"


def _is_network(error: Exception, modules: str) -> bool:
    libraries = ("aiohttp", "requests", "urllib3")
    others = ("EndpointConnectionError", "ConnectTimeoutError", "ReadTimeoutError", "ServiceRequestError")  # S3, Azure
    return (
        modules.split(".")[0] in libraries
        or isinstance(error, ConnectionError | TimeoutError)
        or type(error).__name__ in others
    )

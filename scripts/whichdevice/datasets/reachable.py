"""Whether a dataset can be downloaded, found out in seconds: TensorFlow Datasets alone retries for minutes."""

import threading
import urllib.error
import urllib.request
from http.client import HTTPException
from urllib.parse import urlsplit

from whichdevice.datasets.base import Recipe
from whichdevice.errors import StudyError

TIMEOUT = 3.0  # seconds per address, name look-up and redirects included


def reachable(url: str, timeout: float = TIMEOUT) -> bool:
    """Whether the address answers a HEAD request in time, by the proxies that the environment names."""
    answers: list[bool] = []
    # A daemon thread, because name look-up knows no timeout and must not hold up the exit either.
    thread = threading.Thread(target=lambda: answers.append(_head(url, timeout)), daemon=True)
    thread.start()
    thread.join(timeout)
    return answers == [True]


def unreachable_host(recipe: Recipe, timeout: float = TIMEOUT) -> str | None:
    """The first host that the dataset's archives need and that does not answer; None when all do."""
    first_of_host = {urlsplit(archive.url).netloc: archive.url for archive in reversed(recipe.archives)}
    return next((host for host, url in first_of_host.items() if not reachable(url, timeout)), None)


def require_network(recipe: Recipe, folder: str) -> None:
    """Raise StudyError at once when the dataset cannot be downloaded; `folder` is where archives could be put."""
    host = unreachable_host(recipe)
    if host is not None:
        raise StudyError(
            f"{recipe.name}: no network: cannot reach {host}; use 'data={{source: standin}}' or put the archives into "
            f"{folder} and use 'data={{source: files}}'"
        )


def _head(url: str, timeout: float) -> bool:
    try:
        opener = urllib.request.build_opener()  # urlopen would keep the proxies of its first call
        with opener.open(urllib.request.Request(url, method="HEAD"), timeout=timeout):
            return True
    except urllib.error.HTTPError as error:
        return error.code == 405  # the host is there and only refuses HEAD
    except (OSError, ValueError, HTTPException):
        return False

"""Buckets made, emptied and removed. Only Google's buckets have a class and a location; other places are folders."""

from typing import Any

from whichdevice.config.storage import Storage
from whichdevice.errors import StudyError
from whichdevice.storage.failures import explained
from whichdevice.storage.place import GOOGLE, Place
from whichdevice.storage.upload import UNFINISHED


def make_bucket(place: Place, storage: Storage) -> bool:
    """Make the bucket of a place, with uniform access and closed to the public; False where it was there already."""
    with explained(place.address):
        if place.protocol not in GOOGLE:
            there = bool(place.fs.exists(place.root))
            place.fs.makedirs(place.root, exist_ok=True)
            return not there
        if described(place) is not None:
            return False
        if not (project := storage.project or place.fs.project):
            raise StudyError(f"{place.address}: in which project? set storage.project, or --project")
        body = {
            "name": place.bucket,
            "location": storage.location,
            "storageClass": storage.storage_class,
            "iamConfiguration": {
                "uniformBucketLevelAccess": {"enabled": True},
                "publicAccessPrevention": "enforced",
            },
        }
        place.fs.call("POST", "b", project=project, json=body, json_out=True)
        place.fs.invalidate_cache()
        return True


def described(place: Place) -> dict[str, Any] | None:
    """Google's own description of the bucket; None where there is no such bucket."""
    with explained(place.address):
        try:
            return place.fs.call("GET", "b/{}", place.bucket, json_out=True)
        except FileNotFoundError:
            return None


def sizes(place: Place) -> dict[str, tuple[int, int]]:
    """Files and bytes by the first folder below a place; `.parts` are uploads that were cut."""
    found: dict[str, tuple[int, int]] = {}
    for name, facts in place.listing().items():
        first = UNFINISHED if UNFINISHED in name.split("/") else name.partition("/")[0]
        files, nbytes = found.get(first, (0, 0))
        found[first] = files + 1, nbytes + int(facts["size"])
    return found


def empty(place: Place, unfinished_only: bool = False) -> int:
    """Delete everything below a place, or only what cut uploads left; how many objects that was."""
    names = [name for name in place.listing() if not unfinished_only or UNFINISHED in name.split("/")]
    with explained(place.address):
        if names:
            place.fs.rm([place.path(name) for name in names])
            place.fs.invalidate_cache()
    return len(names)


def whole(place: Place) -> Place:
    """The bucket that a place is in; any other place is itself the whole."""
    return Place(place.fs, place.bucket, f"gs://{place.bucket}") if place.protocol in GOOGLE else place


def remove_bucket(place: Place) -> int:
    """Delete a whole bucket, or folder, and everything in it; how many objects that was."""
    bucket = whole(place)
    count = empty(bucket)
    with explained(bucket.address):
        if bucket.protocol in GOOGLE:
            bucket.fs.call("DELETE", "b/{}", bucket.bucket)
        elif bucket.fs.exists(bucket.root):
            bucket.fs.rm(bucket.root, recursive=True)
        bucket.fs.invalidate_cache()
    return count

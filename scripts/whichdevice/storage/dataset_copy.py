"""Prepared datasets in a bucket: uploaded once with their checksums, fetched and verified on another machine."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from whichdevice.datasets.info import DatasetInfo
from whichdevice.datasets.store import INFO, adopt_dataset, load_dataset, read_info
from whichdevice.errors import StudyError
from whichdevice.storage.download import download
from whichdevice.storage.place import Place
from whichdevice.storage.upload import Sent, upload

DATASETS = "datasets"  # as below results/


def upload_dataset(folder: Path, bucket: Place, name: str, source: str) -> Sent:
    """Upload a prepared dataset; dataset.json last, so that who finds it finds all of it. Raises StudyError."""
    info = load_dataset(folder).info
    *arrays, described = _files(info)
    place = bucket.below(f"{DATASETS}/{name}/{source}")
    return upload(place, {file: folder / file for file in arrays}, {described: folder / described})


def forget_uploads(marks: Path) -> None:
    """Remove the marks of uploads in that folder, so that the next call looks again which datasets the bucket has."""
    for mark in marks.glob("*.json"):
        mark.unlink(missing_ok=True)


def datasets_there(bucket: Place) -> dict[str, set[str]]:
    """The sources of each dataset that lies whole in the bucket."""
    found: dict[str, set[str]] = {}
    for path in bucket.listing(DATASETS):
        _, *parts = path.split("/")
        if len(parts) == 3 and parts[2] == INFO:
            found.setdefault(parts[0], set()).add(parts[1])
    return found


def fetch_dataset(
    bucket: Place, name: str, source: str, folder: Path, made_of: Mapping[str, str]
) -> DatasetInfo | None:
    """Fetch a dataset to `folder` and verify it; None where the bucket has none made of `made_of`.

    A cut fetch goes on where it stopped. Raises StudyError where what is there is incomplete or damaged; `folder` is
    then as it was.
    """
    place = bucket.below(f"{DATASETS}/{name}/{source}")
    listing = place.listing()
    if INFO not in listing:
        return None
    aside = folder.with_name(f".{folder.name}.fetched")
    download(place, {INFO: aside / INFO}, listing)
    info = read_info(aside)
    made = {"code": info.code, **{archive.name: archive.sha256 for archive in info.archives}}
    if (info.name, info.source) != (name, source) or not made_of.items() <= made.items():
        shutil.rmtree(aside, ignore_errors=True)
        return None
    if _is_here(info, folder):
        shutil.rmtree(aside)
        return info
    if missing := [file for file in _files(info) if file not in listing]:
        raise StudyError(
            f"{place.told(missing[0])} is gone from the bucket; publish again from a machine that has the dataset, or "
            f"prepare it here: --config 'storage={{bucket: }}'"
        )
    download(place, {file: aside / file for file in _files(info)}, listing)
    for stray in set(aside.iterdir()) - {aside / file for file in _files(info)}:
        stray.unlink()
    try:
        return adopt_dataset(aside, folder)
    except StudyError:
        shutil.rmtree(aside, ignore_errors=True)
        raise StudyError(
            f"{place.address} is damaged: its content differs from its checksums; upload it again"
        ) from None


def _is_here(info: DatasetInfo, folder: Path) -> bool:
    """Whether the very same dataset lies in `folder` already, undamaged."""
    try:
        return (folder / INFO).is_file() and load_dataset(folder, verify=True).info == info
    except StudyError:
        return False


def _files(info: DatasetInfo) -> list[str]:
    for array in info.arrays:
        if not array.replace("_", "").isalnum():
            raise StudyError(f"{info.name}: {INFO} names an array {array[:40]!r}, which is no file name")
    return [*(f"{array}.npy" for array in info.arrays), INFO]

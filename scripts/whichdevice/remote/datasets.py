"""Prepared datasets in a bucket: sent once with their checksums, fetched and verified on another machine."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from whichdevice.datasets.base import DatasetInfo
from whichdevice.datasets.store import INFO, adopt_dataset, load_dataset, read_info
from whichdevice.errors import StudyError
from whichdevice.remote.place import Place
from whichdevice.remote.transfer import Moved, download, upload

DATASETS = "datasets"  # as below results/


def upload_dataset(folder: Path, bucket: Place, name: str, source: str) -> Moved:
    """Send a prepared dataset; dataset.json last, so that who finds it finds all of it. Raises StudyError."""
    *arrays, described = _files(load_dataset(folder).info)
    place = bucket.below(f"{DATASETS}/{name}/{source}")
    sent = upload(place, {file: folder / file for file in arrays})
    return sent + upload(place, {described: folder / described})


def fetch_dataset(
    bucket: Place, name: str, source: str, folder: Path, made_of: Mapping[str, str]
) -> DatasetInfo | None:
    """Fetch a dataset to `folder` and verify it; None where the bucket has none made of `made_of`.

    `source`: the name of the dataset's folder, `<source>-<recipe>`. `made_of`: hashes that dataset.json must have. A
    fetch that was stopped keeps the files that had arrived. Raises StudyError where the bucket's copy is incomplete or
    damaged; `folder` is then as it was.
    """
    place = bucket.below(f"{DATASETS}/{name}/{source}")
    listing = place.listing()
    if INFO not in listing:
        return None
    aside = folder.with_name(f".{folder.name}.fetched")
    download(place, {INFO: aside / INFO}, listing)
    info = read_info(aside)
    made = {"code": info.code, **{archive.name: archive.sha256 for archive in info.archives}}
    other = (info.name, info.source) != (name, source.partition("-")[0]) or not made_of.items() <= made.items()
    if other or _is_here(info, folder):
        shutil.rmtree(aside)
        return None if other else info
    files = {file: aside / file for file in _files(info)}
    download(place, files, listing)
    for stray in set(aside.iterdir()) - set(files.values()):
        stray.unlink()
    try:
        return adopt_dataset(aside, folder)
    except StudyError:
        shutil.rmtree(aside, ignore_errors=True)
        raise StudyError(f"{place.address} is damaged: its content differs from its checksums; send it again") from None


def _is_here(info: DatasetInfo, folder: Path) -> bool:
    """Whether the same dataset is in `folder` already, undamaged."""
    try:
        return (folder / INFO).is_file() and load_dataset(folder, verify=True).info == info
    except StudyError:
        return False


def _files(info: DatasetInfo) -> list[str]:
    for array in info.arrays:
        if not array.replace("_", "").isalnum():
            raise StudyError(f"{info.name}: {INFO} names an array {array[:40]!r}, which is no file name")
    return [*(f"{array}.npy" for array in info.arrays), INFO]

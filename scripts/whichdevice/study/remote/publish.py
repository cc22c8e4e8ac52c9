"""Send a study and its prepared datasets to a bucket, and fetch datasets, verified, on another machine.

The bucket is laid out as results/ is: records with artefacts, tables, figures, report, exported models.
"""

import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Record
from whichdevice.models.datasets.base import DatasetInfo
from whichdevice.models.datasets.store import INFO, adopt_dataset, load_dataset, read_info
from whichdevice.study.records.store import (
    CONFIG,
    KEYS,
    MERGED,
    OWN,
    RECORD,
    SOURCE,
    artefact_path,
    describe_machine,
    foreign_record,
    foreign_run,
    read_record,
    same_machine,
)
from whichdevice.study.remote.transfer import Listing, Moved, Place, download, explained, is_same, upload

DATASETS = "datasets"  # as below results/


def upload_dataset(folder: Path, bucket: Place, name: str, source: str) -> Moved:
    """Send a prepared dataset; dataset.json last, so that who finds it finds all of it. Raises StudyError."""
    *arrays, described = _dataset_files(load_dataset(folder).info)
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
    files = {file: aside / file for file in _dataset_files(info)}
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


def _dataset_files(info: DatasetInfo) -> list[str]:
    for array in info.arrays:
        if not array.replace("_", "").isalnum():
            raise StudyError(f"{info.name}: {INFO} names an array {array[:40]!r}, which is no file name")
    return [*(f"{array}.npy" for array in info.arrays), INFO]


RESULTS = ("compiled/**/*.json", "tables/*.csv", "figures/*.svg", "figures/*.png", "models/**/*", "report.html")


def publish(root: Path, bucket: Place) -> str:
    """Send what differs of `results/<study>`, config.yaml last, and return the line to print.

    Raises StudyError, before anything is sent, where the bucket has a record under the same name that is of another
    machine, of a newer version or later than the one here.
    """
    place = bucket.below(root.name)
    listing = place.listing()
    records = _files(root, [f"{OWN}/**/{RECORD}", f"{MERGED}/*/{OWN}/**/{RECORD}"])
    sources = _files(root, [f"{MERGED}/*/{SOURCE}"])
    sound = {name: path for name, path in records.items() if _may_replace(place, name, path, listing)}
    artefacts = {path.relative_to(root).as_posix(): path for record in sound.values() for path in _artefacts(record)}
    sent = Moved()
    for files in (artefacts, sound, _files(root, RESULTS), sources, _files(root, [KEYS, CONFIG])):
        sent += upload(place, files, listing)
    with explained(place.address):  # records there of sources that count here no more
        for name in listing:
            if _source_of(name) not in {None, *sources}:
                place.fs.rm_file(place.path(name))
    unknown = sum(name.startswith(f"{OWN}/") and foreign_run(name) is not None for name in listing.keys() - records)
    unbrought = f"; {unknown} more records there are not here, so in no table or figure sent: bring them (--records)"
    return f"{place.address}: {sent}" + unbrought * bool(unknown)


def _files(root: Path, patterns: Sequence[str]) -> dict[str, Path]:
    paths = (path for pattern in patterns for path in sorted(root.glob(pattern)))
    return {path.relative_to(root).as_posix(): path for path in paths if path.is_file() and path.name[0] != "."}


def _source_of(name: str) -> str | None:
    """Return the source.json of a merged file; None for any other file."""
    return "/".join([*name.split("/")[:2], SOURCE]) if name.startswith(f"{MERGED}/") else None


def _artefacts(record: Path) -> list[Path]:
    """Return the files that a record declares and that exist; an unreadable record, which tables explain, has none."""
    try:
        declared = read_record(record).artefacts.values()
    except StudyError:
        return []
    return [path for artefact in declared if (path := artefact_path(record, artefact.file)) is not None]


def _may_replace(place: Place, name: str, path: Path, listing: Listing) -> bool:
    """Whether our record is sound, or is there already; raises StudyError where the one in the bucket must stay."""
    facts = listing.get(name)
    with explained(place.address):
        if facts is None or is_same(path, place, name, facts):
            return True
    where, way_out = f"{place.address}/{name}", "publish under another study name (study=<name>)"
    ours, other = _readable(path.read_bytes(), name), _readable(place.read(name), name)
    if ours is None:
        return False
    if other is None:
        raise StudyError(f"{where} cannot be read here; update this project, delete that record, or {way_out}")
    if not same_machine(ours.machine, other.machine):
        device = ours.asked.device
        there, here = describe_machine(other.machine), describe_machine(ours.machine)
        bring = f"and bring those: --records {place.address} --rename {device}={device}_2"
        raise StudyError(f"{where} was measured on another machine ({there}; here: {here}): {way_out}, {bring}")
    if other.ended > ours.ended:
        raise StudyError(f"{where} is newer than the record here: measure that run here again, or {way_out}")
    return True


def _readable(content: bytes, name: str) -> Record | None:
    run = foreign_run(name)
    try:
        return None if run is None else foreign_record(content, run, name)
    except StudyError:
        return None

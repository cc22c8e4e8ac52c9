"""Records that Snakemake took no note of: they say themselves whether the same would be measured once more."""

import os
from pathlib import Path

from whichdevice.config.model import Study
from whichdevice.datasets.store import read_info
from whichdevice.errors import StudyError
from whichdevice.measuring.attempt import run_code_hash
from whichdevice.measuring.request import dataset_folder
from whichdevice.records.request import Request
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record

CUT = "WHICHDEVICE_CUT"  # records that lie there although Snakemake takes their jobs for unfinished


def tell_cut(records: list[str]) -> None:
    """Tell the jobs that this process starts which records are such."""
    os.environ[CUT] = os.pathsep.join(records)


def whole_record(study: Study, request: Request, path: Path) -> Record | None:
    """The record at `path` if its job was cut, and the same would be measured once more: request, code and data."""
    if str(path) not in os.environ.get(CUT, "").split(os.pathsep):
        return None
    try:
        record = read_record(path)
        same = _same_request_and_code(record, request) and _recorded(record) == _checksum_here(study, request)
    except StudyError:
        return None
    return record if same else None


def is_outdated(study: Study, request: Request, path: Path) -> bool:
    """Whether there is a record at `path` of another request, other code or other data than its run would have now.

    Data that are not prepared here count as the same. Of a record that cannot be read, the tables say what to do.
    """
    try:
        record = read_record(path)
    except StudyError:
        return False
    if not _same_request_and_code(record, request):
        return True
    try:
        return record.data is not None and _recorded(record) != _checksum_here(study, request)
    except StudyError:
        return False


def _same_request_and_code(record: Record, request: Request) -> bool:
    asked = record.asked.model_copy(update={"timeout": request.timeout})  # changes no number
    code = run_code_hash(request.module, request.backend)
    return (asked, record.software.code_hash) == (request, code)


def _recorded(record: Record) -> str | None:
    """The prepared dataset's checksum; data that a run makes itself follow from its request and code."""
    return record.data.checksum if record.data and record.asked.dataset is not None else None


def _checksum_here(study: Study, request: Request) -> str | None:
    return None if request.dataset is None else read_info(dataset_folder(study, request.dataset)).checksum

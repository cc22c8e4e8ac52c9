"""A record that was whole when its job failed or was killed, before Snakemake took note: it counts and stays."""

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
        data = None if request.dataset is None else read_info(dataset_folder(study, request.dataset)).checksum
    except StudyError:
        return None
    asked = record.asked.model_copy(update={"timeout": request.timeout})  # changes no number
    known = (asked, record.software.code_hash, record.data.checksum if record.data else None)
    return record if known == (request, run_code_hash(request.module, request.backend, request.model), data) else None

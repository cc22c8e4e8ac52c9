"""Steps of names that everybody knows, counted before: `tools/known_steps.py` makes known_steps.zip anew.

    known_record(request)      # of resnet50 on a T4, say; None where no such step is kept

Kept are the records of the question that has a name alone: usual devices, the name's own batch and number format. They
have no time of this machine's host: a forecast takes a typical one, so no framework is needed.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from whichdevice.forecast.products import CompiledRecord, ProgramRequest

FILE = Path(__file__).with_name("known_steps.zip")


def known_record(request: ProgramRequest) -> CompiledRecord | None:
    """Return the record of a step; None where none is kept."""
    record = known_records(request.module).get(_key(request))
    return None if record is None else record.model_copy(update={"asked": request})


@cache
def known_records(module: str) -> Mapping[str, CompiledRecord]:
    """Return the records of a name by what was asked."""
    with ZipFile(FILE) as file:
        if _member(module) not in file.namelist():
            return {}
        records = map(CompiledRecord.model_validate, json.loads(file.read(_member(module))))
        return {_key(record.asked): record for record in records}


def write_known(records: Mapping[str, Iterable[CompiledRecord]]) -> None:
    """Replace the records of these modules; those of others stay."""
    texts: dict[str, bytes] = {}
    if FILE.is_file():
        with ZipFile(FILE) as file:
            texts = {name: file.read(name) for name in file.namelist()}
    for module, made in records.items():
        plain = [record.model_dump(mode="json", exclude_defaults=True) for record in made]
        texts[_member(module)] = json.dumps(plain, separators=(",", ":")).encode()
    with ZipFile(FILE, "w", ZIP_DEFLATED, compresslevel=9) as file:
        for name in sorted(texts):
            file.writestr(ZipInfo(name), texts[name], ZIP_DEFLATED, 9)  # without a date: the same steps, the same file


def _member(module: str) -> str:
    return f"{module.replace('/', ' ')}.json"


def _key(request: ProgramRequest) -> str:
    return request.model_dump_json(exclude={"workload", "timeout"})

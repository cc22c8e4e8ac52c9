"""Steps of names that everybody knows, counted before: `tools/known_steps.py` makes known_steps.zip anew.

    known_record(request)      # of resnet50 on a T4, say; None where no such step is kept

Kept is the question that has a name alone: its own batch and number format. A count of JAX and Keras serves every
device; of PyTorch there are records of usual devices. They have no time of this machine's host: a forecast takes a
typical one, so no framework is needed.
"""

import json
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from whichdevice.forecast.count.kept import StepCount, counted_step, record_on
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.models.address import known_on_hub

FILE = Path(__file__).with_name("known_steps.zip")


class KnownSteps(NamedTuple):
    """What is kept of a name: counts by step, and records by request."""

    counts: Mapping[str, StepCount]
    records: Mapping[str, CompiledRecord]


def known_record(request: ProgramRequest) -> CompiledRecord | None:
    """Return the record of a step; None where none is kept."""
    known = known_steps(request.module)
    if (record := known.records.get(_asked(request))) is not None:
        return record.model_copy(update={"asked": request})
    count = known_count(request)
    if count is None or find_target(request.device, request.devices).refusal(request.precision):
        return None
    return record_on(count, request, CompiledRecord(asked=request, status="failed", code_hash=""))


def known_count(request: ProgramRequest) -> StepCount | None:
    """Return the count of a step of JAX, Keras or TensorFlow; None where none is kept."""
    return known_steps(request.module).counts.get(_text(counted_step(request)))


@cache
def known_steps(module: str) -> KnownSteps:
    """Return what is kept of a name, maybe nothing."""
    with ZipFile(FILE) as file:
        if _member(module) not in file.namelist():
            return KnownSteps({}, {})
        kept = json.loads(file.read(_member(module)))
    records = map(CompiledRecord.model_validate, kept["records"])
    counts = {_text(step): StepCount.model_validate(count) for step, count in kept["counts"]}
    return KnownSteps(counts, {_asked(record.asked): record for record in records})


def write_known(
    module: str, records: Iterable[CompiledRecord], counts: Iterable[tuple[ProgramRequest, StepCount]]
) -> None:
    """Replace what is kept of a name; that of others stays."""
    texts: dict[str, bytes] = {}
    if FILE.is_file():
        with ZipFile(FILE) as file:
            texts = {name: file.read(name) for name in file.namelist()}
    kept = {
        "records": [record.model_dump(mode="json", exclude_defaults=True) for record in records],
        "counts": [(counted_step(asked), count.model_dump(mode="json", exclude_defaults=True))
                   for asked, count in counts],
    }  # fmt: skip
    texts[_member(module)] = json.dumps(kept, separators=(",", ":")).encode()
    with ZipFile(FILE, "w", ZIP_DEFLATED) as file:
        for name in sorted(texts):  # without dates: the same steps are the same file
            file.writestr(ZipInfo(name), texts[name], ZIP_DEFLATED, 9)


def _member(module: str) -> str:
    """The file of a name: hf:gpt2 is hf:openai-community/gpt2."""
    library, colon, name = module.rpartition(":")
    return f"{library}{colon}{known_on_hub(name) or name}.json".replace("/", " ")


def _asked(request: ProgramRequest) -> str:
    return request.model_dump_json(exclude={"module", "workload", "timeout"})


def _text(step: Mapping[str, Any]) -> str:
    return json.dumps(step, sort_keys=True)

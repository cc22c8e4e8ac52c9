"""Steps of names that everybody knows, counted before: `tools/known_steps.py` makes known_steps.zip anew.

    known_record(request)      # of resnet50 on a T4, say; None where no such step is kept

Kept is the question that has a name alone: its own batch and number format. A count of JAX and Keras serves every
device; of PyTorch there are records of usual devices. They have no time of this machine's host: a forecast takes a
typical one, so no framework is needed.
"""

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import ZipFile

from whichdevice.forecast.count.kept import StepCount, counted_step, record_on
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.models.address import known_on_hub

FILE = Path(__file__).with_name("known_steps.zip")


class KnownSteps(NamedTuple):
    """Facts that are kept of a name: counts by step, and records by request."""

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
        if member(module) not in file.namelist():
            return KnownSteps({}, {})
        kept = json.loads(file.read(member(module)))
    records = map(CompiledRecord.model_validate, kept["records"])
    counts = {_text(step): StepCount.model_validate(count) for step, count in kept["counts"]}
    return KnownSteps(counts, {_asked(record.asked): record for record in records})


def member(module: str) -> str:
    """The file of a name: hf:gpt2 is hf:openai-community/gpt2."""
    library, colon, name = module.rpartition(":")
    return f"{library}{colon}{known_on_hub(name) or name}.json".replace("/", " ")


def _asked(request: ProgramRequest) -> str:
    return request.model_dump_json(exclude={"module", "workload", "timeout"})


def _text(step: Mapping[str, Any]) -> str:
    return json.dumps(step, sort_keys=True)

"""Count the steps of well-known names anew: scripts/whichdevice/forecast/known_steps.zip.

    PYTHONPATH=scripts:. python -m tools.known_steps [NAME ...]     these names, in this order, or all

A maintainer's act of half an hour: it needs PyTorch, transformers, JAX and Keras. What is counted is what
`whichdevice ask NAME` asks for; the file is written after each name.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import chdir
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from whichdevice.apps.commands.ask import targets_of, with_more_gpus
from whichdevice.apps.explorer.steps import known_models
from whichdevice.apps.questions.one_model import OneModel
from whichdevice.apps.questions.question import Question
from whichdevice.decide import Wants
from whichdevice.forecast.count.kept import StepCount, counted_step
from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.known import FILE, member
from whichdevice.forecast.products import CompiledRecord, ProgramRequest
from whichdevice.forecast.targets import software_of
from whichdevice.models.address import built_in_names
from whichdevice.models.hugging_face import PREFIX
from whichdevice.models.loading import Model

MANY = Wants(examples=1e12)  # that one device is too slow for: several are counted, too

OFTEN = (
    "Qwen/Qwen3-30B-A3B", "openai/whisper-large-v3", "google/vit-base-patch16-224",
    "stabilityai/stable-diffusion-xl-base-1.0", "black-forest-labs/FLUX.1-dev",  # which need diffusers
)  # fmt: skip


def main() -> None:
    """Count the steps of these names, or of all."""
    for name in sys.argv[1:] or names():
        began = time.monotonic()
        question = Question(Model.read(name), MANY, measuring=False)
        records, counts = list[CompiledRecord](), list[tuple[ProgramRequest, StepCount]]()
        if software_of(question.model.text) == "eager":
            records = list(traced(question))
        else:
            counts = list(counted(question))
        write_known(question.model.text, records, counts)
        print(f"{name}: {len(records)} records, {len(counts)} counts, {time.monotonic() - began:.0f} s", flush=True)


def names() -> Iterator[str]:
    """Yield built-in workloads, and models of Hugging Face, the explorer's and others that are often named."""
    yield from built_in_names()
    yield from (f"{PREFIX}{name}" for name in OFTEN)
    yield from (f"{PREFIX}{name}" for name, model in known_models().items() if model.library == "hf")


def counted(question: Question) -> Iterator[tuple[ProgramRequest, StepCount]]:
    """Yield the count of each step that the usual devices have, also in float32."""
    asked = OneModel(question, targets_of(None)).requests
    asked += [request.model_copy(update={"precision": "float32"}) for request in asked]
    steps = {str(counted_step(request)): request for request in asked}
    for request in steps.values():
        yield request, count_step(request)


def traced(question: Question) -> Iterator[CompiledRecord]:
    """Yield the record of a PyTorch step on each usual device, alone and several together, without this host's time."""
    with tempfile.TemporaryDirectory() as folder, chdir(folder):
        asked = OneModel(question, targets_of(None, (1,), "eager"), known=False)
        asked.forecast()
        several = with_more_gpus(asked, "eager")
    records = [*asked.records.values(), *(several.records.values() if several is not asked else ())]
    assert any(record.status == "ok" for record in records), records[0].reason
    for record in records:
        facts = record.facts and record.facts.model_copy(update={"host_time": None})
        yield record.model_copy(update={"facts": facts, "code_hash": ""})


def write_known(
    module: str, records: Iterable[CompiledRecord], counts: Iterable[tuple[ProgramRequest, StepCount]]
) -> None:
    """Replace what is kept of a name, and of no other."""
    texts: dict[str, bytes] = {}
    if FILE.is_file():
        with ZipFile(FILE) as file:
            texts = {name: file.read(name) for name in file.namelist()}
    kept = {
        "records": [record.model_dump(mode="json", exclude_defaults=True) for record in records],
        "counts": [(counted_step(asked), count.model_dump(mode="json", exclude_defaults=True))
                   for asked, count in counts],
    }  # fmt: skip
    texts[member(module)] = json.dumps(kept, separators=(",", ":")).encode()
    with ZipFile(FILE, "w", ZIP_DEFLATED) as file:
        for name in sorted(texts):  # without dates: the same steps are the same file
            file.writestr(ZipInfo(name), texts[name], ZIP_DEFLATED, 9)


if __name__ == "__main__":
    main()

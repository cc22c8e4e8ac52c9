"""Count the steps of well-known names anew: scripts/whichdevice/forecast/known_steps.zip.

    PYTHONPATH=scripts:. python -m tools.known_steps [NAME ...]     these names, in this order, or all

A maintainer's act of half an hour: it needs PyTorch, transformers, JAX and Keras. Each name is asked about as
`whichdevice ask NAME --no-measuring` does it, in an empty folder; the file is written after each.
"""

import os
import sys
import tempfile
import time
from collections.abc import Iterator

from whichdevice.apps.commands.ask import targets_of, with_more_gpus
from whichdevice.apps.explorer.steps import known_models
from whichdevice.apps.questions.one_model import OneModel
from whichdevice.apps.questions.question import Question
from whichdevice.decide import Wants
from whichdevice.forecast.known import write_known
from whichdevice.forecast.products import CompiledRecord
from whichdevice.forecast.targets import software_of
from whichdevice.models.address import built_in_names
from whichdevice.models.hugging_face import PREFIX
from whichdevice.models.loading import Model

MANY = Wants(examples=1e12)  # that one device is too slow for: several are counted, too


def main() -> None:
    """Count the steps of these names, or of all."""
    for name in sys.argv[1:] or names():
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            module, records = counted(name)
            os.chdir("/")
        if all(record.status in ("ok", "does_not_fit", "refused") for record in records):
            write_known({module: records})
        print(name, len(records), "records,", *{record.status for record in records},
              f"{time.monotonic() - began:.0f} s", flush=True)  # fmt: skip


def names() -> Iterator[str]:
    """Yield built-in workloads, and language models of Hugging Face by the names of the explorer."""
    yield from built_in_names()
    yield from (f"{PREFIX}{name}" for name, model in known_models().items() if model.library == "hf")


def counted(name: str) -> tuple[str, list[CompiledRecord]]:
    """Return the module of a name, and records of all steps that its question has counted."""
    question = Question(Model.read(name), MANY, measuring=False)
    software = software_of(question.model.text)
    asked = OneModel(question, targets_of(None, (1,), software), known=False)
    asked.forecast()
    records = list(asked.records.values())
    if software == "eager" and (more := with_more_gpus(asked, software)) is not asked:
        records += more.records.values()
    return question.model.text, [
        record.model_copy(update={"code_hash": "", "facts": record.facts and record.facts.model_copy(
            update={"host_time": None, "compile_seconds": None})})
        for record in records
    ]  # fmt: skip


if __name__ == "__main__":
    main()

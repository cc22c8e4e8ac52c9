"""Published training steps of whole systems, TPUs and GPUs, and the work of their programs: `python -m fit.steps`.

fit/data/steps.csv has a row for each: MLPerf Training 0.5 to 0.7, DAWNBench, tables of JAX libraries; `batch` is of all
devices together. fit/data/step_programs.json.gz has the counted work of one device, for a few
batches; at another batch each kernel does so many times as much. Devices that train together exchange their gradients.
"""

import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

from fit.counts import count_of, request
from fit.fitting import DATA, Row, read_gzip
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.base.sheets.tpus import devices_of
from whichdevice.forecast import tpu
from whichdevice.forecast.time_model import Peaks
from whichdevice.forecast.work import Item, Work
from whichdevice.study.tables.base import read_rows

STEPS, PROGRAMS = DATA / "steps.csv", DATA / "step_programs.json.gz"
GRADIENT = 4  # bytes of a parameter's


@dataclass(frozen=True)
class Program:
    """A step's program: a workload or file of fit/, and at which batches it is counted."""

    module: str
    batches: tuple[int, ...]
    length: int | None = None
    precision: str = "mixed_bfloat16"
    options: Mapping[str, Any] | None = None


BASE = {"width": 768, "heads": 12, "feedforward": 3072, "head": "span"}
MODELS: Mapping[str, Program] = {
    "resnet": Program("resnet50", (32, 128)),
    "resnet float32": Program("resnet50", (32,), precision="float32"),
    "ssd": Program("compiled/ssd.py", (4, 16, 64)),
    "gnmt": Program("compiled/gnmt.py", (16, 128), 32),
    "transformer": Program("compiled/transformer.py", (2, 16), 256, options={"layers": 6}),
    "bert": Program("compiled/bert.py", (4, 32), 512, options={"masked": 76, "layers": 24}),
    "bert base": Program("compiled/bert.py", (4,), 128, "float32", BASE | {"layers": 12}),
    "mnist_cnn": Program("mnist_cnn", (32, 1024), precision="float32"),
    "fashion_cnn": Program("fashion_cnn", (64, 512), precision="float32"),
    "weather_gru": Program("weather_gru", (32, 256), precision="float32"),
}
# Sources whose times hold more than steps on the device: TPUs that are fed over a network; start, compilation and input
# of a script of minutes. They say nothing of the chip, but which system to take.
NOT_ALONE = ("colab", "hugging face")


@dataclass(frozen=True)
class Step:
    """One row of fit/data/steps.csv."""

    source_group: str
    question: str
    program: str
    products: str
    device: str
    chips: int
    batch: float
    seconds: float

    @property
    def devices(self) -> int:
        """Devices that share the batch: two of an older TPU's chip."""
        return self.chips * devices_of(self.device)

    @property
    def is_tpu(self) -> bool:
        """Return whether it ran on TPUs."""
        return self.device.startswith("TPU")

    @property
    def is_evidence(self) -> bool:
        """Return whether it says how long a TPU takes."""
        return self.is_tpu and self.source_group not in NOT_ALONE

    @property
    def work(self) -> Work:
        """The work of one device."""
        work = work_of(self.program, "tpu" if self.is_tpu else "gpu", self.batch / self.devices, self.devices)
        if self.products:  # of float32 arrays, by default in bfloat16
            work = replace(work, items=tuple(replace(item, precision="half") for item in work.items))
        return tpu.of_program(work, self.device) if self.is_tpu else work

    def row(self) -> Row:
        """The row of a fit."""
        question = f"{self.question}, {self.chips} chips" if self.chips > 1 else self.question
        model, peaks = self.program.partition(" ")[0], Peaks.of(sheet()[self.device])
        return Row(self.source_group, self.device, self.seconds, self.batch, model, question, "train", self.work, peaks)


@cache
def sheet() -> Mapping[str, HardwareRow]:
    """The rows of the hardware sheet."""
    return hardware_rows()


def read_steps() -> list[Step]:
    """Every published step."""
    return [
        Step(
            line["source_group"], line["question"], line["program"], line["products"], line["device"],
            int(line["chips"]), float(line["batch"]), float(line["step_ms"]) / 1e3,
        )
        for line in read_rows(STEPS)
    ]  # fmt: skip


def work_of(program: str, side: str, batch: float, devices: int) -> Work:
    """The work of a step on one of so many devices, `batch` examples each: between two batches, a share of each."""
    known = read_programs()[program]
    works = {float(size): Work.from_dict(sides[side]) for size, sides in known["batches"].items()}
    below, above = (
        max((s for s in works if s <= batch), default=None),
        min((s for s in works if s > batch), default=None),
    )
    if below and above:
        work = works[below].deepened(works[above], 1 + (batch - below) / (above - below))
    else:
        work = _times(works[below or above or batch], batch / (below or above or batch))
    if devices == 1:
        return work
    gradients = Item("collective", "", 0.0, GRADIENT * known["parameters"], 1, None, devices)
    return replace(work, items=(*work.items, gradients))


def _times(work: Work, times: float) -> Work:
    items = (replace(item, operations=item.operations * times, bytes=item.bytes * times) for item in work.items)
    return replace(work, items=tuple(items))


@cache
def read_programs() -> dict[str, Any]:
    """The committed work of the programs."""
    return dict(read_gzip(PROGRAMS))


def main() -> None:
    """Count the steps that are missing; `--rebuild` counts all anew."""
    made: dict[str, Any] = {} if "--rebuild" in sys.argv or not PROGRAMS.exists() else dict(read_programs())
    for name, program in MODELS.items():
        for batch in program.batches:
            known = made.setdefault(name, {"parameters": 0, "batches": {}})
            if str(batch) not in known["batches"]:
                print(name, batch, flush=True)
                asked = request(program.module, program.precision, batch, "train", program.options, program.length)
                count = count_of(asked)
                known["parameters"] = round(count.gradients / GRADIENT)
                known["batches"][str(batch)] = {"gpu": count.sizes[0].gpu, "tpu": count.sizes[0].tpu}
                PROGRAMS.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()

"""Published training steps of whole systems, TPUs and GPUs, and the work of their programs: `python -m fit.steps`.

fit/data/steps.csv has a row for each: MLPerf Training 0.5 to 0.7, DAWNBench, tables of JAX libraries; `batch` is of all
devices together. step_programs.csv names their programs, step_programs.json.gz has the counted work of one device, for
a few batches; at another batch each kernel does so many times as much. Devices that train together exchange gradients.
"""

import gzip
import json
import sys
from dataclasses import replace
from functools import cache
from typing import Any

from pydantic.dataclasses import dataclass

from fit.counts import count_of, request
from fit.fitting import DATA, Row, read_gzip, read_lines, sheet
from whichdevice.base.sheets.tpus import devices_of
from whichdevice.forecast import tpu
from whichdevice.forecast.time_model import Peaks
from whichdevice.forecast.work import Item, Work
from whichdevice.study.tables.base import read_rows

STEPS, NAMED, PROGRAMS = (DATA / name for name in ("steps.csv", "step_programs.csv", "step_programs.json.gz"))
GRADIENT = 4  # bytes of a parameter's
# Sources whose times hold more than steps on the device: TPUs that are fed over a network; start, compilation and input
# of a script of minutes. They say nothing of the chip, but which system to take.
NOT_ALONE = ("colab", "hugging face")


@dataclass(frozen=True)
class Step:
    """One row of fit/data/steps.csv."""

    source_group: str
    question: str
    program: str
    device: str
    chips: int
    batch: float
    step_ms: float
    products: str = ""

    @property
    def seconds(self) -> float:
        """The time of a step."""
        return self.step_ms / 1e3

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


def read_steps() -> list[Step]:
    """Every published step."""
    return read_lines(Step, STEPS)


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
    for line in read_rows(NAMED):
        name, length, options = line["name"], int(line["length"] or 0) or None, json.loads(line["options"] or "{}")
        for batch in line["batches"].split():
            known = made.setdefault(name, {"parameters": 0, "batches": {}})
            if batch not in known["batches"]:
                print(name, batch, flush=True)
                count = count_of(request(line["module"], line["precision"], int(batch), "train", options, length))
                known["parameters"] = round(count.gradients / GRADIENT)
                known["batches"][batch] = {"gpu": count.sizes[0].gpu, "tpu": count.sizes[0].tpu}
                PROGRAMS.write_bytes(gzip.compress(json.dumps(made, separators=(",", ":")).encode(), mtime=0))


if __name__ == "__main__":
    main()

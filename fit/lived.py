"""Trainings as people lived them, beside the clean forecast of their steps: `python -m fit.lived`.

fit/data/lived.csv has what people report of whole trainings, epochs or steps, each with its source;
fit/data/lived_traces.json.gz the work of one GPU's pass of each, so that this runs on a bare machine. `python -m
fit.lived trace` traces what is missing; it needs PyTorch and Transformers, and without dependencies of their own
`pip install --no-deps timm diffusers` and torchvision's build for a CPU.
"""

import csv
import gzip
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from fit.fitting import DATA
from fit.traces import sums

PUBLISHED = DATA / "lived.csv"
TRACES = DATA / "lived_traces.json.gz"


@dataclass(frozen=True)
class Lived:
    """One report: a training, an epoch or some steps, of so many optimiser's steps."""

    id: str
    source: str
    where: str
    year: int
    framework: str
    model: str
    size: str
    batch: int  # of one GPU's pass
    accumulation: int
    precision: str
    software: str
    optimizer: str
    device: str
    gpus: int
    reported: str
    seconds: float
    steps: int
    loader: str
    each_step: str
    includes: str
    notes: str

    @property
    def program(self) -> str:
        """The name of what is traced: rows of one program differ in devices."""
        return f"{self.model}, {self.batch} x {self.size}, {self.precision}, {self.optimizer}"

    @property
    def step(self) -> float:
        """Seconds of an optimiser's step."""
        return self.seconds / self.steps

    @property
    def group(self) -> str:
        """What it is left out with: the repository of its report."""
        return self.where.split()[0]


def published(path: Path = PUBLISHED) -> list[Lived]:
    """Every line of the table."""
    whole = ("year", "batch", "accumulation", "gpus", "steps")
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Lived(**{**row, **{name: int(row[name]) for name in whole}, "seconds": float(row["seconds"])})  # type: ignore[arg-type]
            for row in csv.DictReader(file)
        ]


@cache
def read_traces(path: Path = TRACES) -> Mapping[str, Any]:
    """The committed work by program."""
    return dict(json.loads(gzip.decompress(path.read_bytes()))) if path.is_file() else {}


def trace(line: Lived) -> dict[str, Any]:
    """Return the work of one pass on one GPU, and the bytes of its gradients."""
    import torch

    from fit.lived_models import lived_model
    from whichdevice.forecast.torch.trace import Step, trace_step

    model = lived_model(line.model, tuple(map(int, line.size.split("x"))))
    fast = {"SGD": {"momentum": 0.9}}.get(line.optimizer, {})

    def optimizer(module: Any) -> Any:
        trained = [each for each in module.parameters() if each.requires_grad]
        return getattr(torch.optim, line.optimizer)(trained, lr=0.1, **fast)

    found = trace_step(Step(model.build, model.batch, model.loss, optimizer, line.precision), line.batch)
    works = {"eager": found.work, "fused": found.fused}
    return {
        "gradients": found.memory["gradients"],
        "weights": found.trained,
        "untested": list(found.work.untested),
        **{name: sums(work) for name, work in works.items()},
    }


def write_traces(path: Path = TRACES) -> None:
    """Trace what is missing, one line a program, and keep what is done after each."""
    wanted = {line.program: line for line in published()}
    known = {name: each for name, each in read_traces(path).items() if name in wanted}
    for name, line in wanted.items():
        if name in known:
            continue
        try:
            known[name] = trace(line)
            print(name, flush=True)
        except Exception as error:
            print(f"{name}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
            continue
        lines = (f"{json.dumps(key)}:{json.dumps(known[key], separators=(',', ':'))}" for key in sorted(known))
        path.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


if __name__ == "__main__":
    write_traces()

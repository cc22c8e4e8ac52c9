"""Trainings as people lived them, beside the clean forecast of their steps: `python -m fit.lived`.

fit/data/lived.csv has what people report of whole trainings, epochs or steps, each with its source;
fit/data/lived_traces.json.gz the work of one GPU's pass of each, so that this runs on a bare machine. It fits how much
longer a lived step takes, tests that with each source left out, and writes scripts/whichdevice/forecast/lived.json and
the tables of docs/reference/lived-trainings.md. `python -m fit.lived trace` traces what is missing of timm's models,
and needs what traces.py needs.
"""

import gzip
import json
import math
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import numpy as np
from pydantic.dataclasses import dataclass

from fit.fitting import DATA, read_gzip, read_lines, sheet, summed_work
from fit.generated import DOCS, SCORES, put_lines, score_cells, table
from fit.scores import each_left_out, quantile, score, spread_of, spread_of_others, weights_of
from whichdevice.forecast.lived import FEW_IMAGES, HABITS, KERNEL, Habits, shows
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Item

PUBLISHED = DATA / "lived.csv"
TRACES = DATA / "lived_traces.json.gz"
PAGE = DOCS / "reference" / "lived-trainings.md"
WORKS = {"torch.compile": "fused", "jax": "tpu"}  # of a row's software; the others run operation by operation
FUSED_ATTENTION = 2023  # from when on PyTorch has its own kernel for attention
HELD_TO_NONE = 0.02  # how strongly a constant is held to no effect, that few rows decide
NEAR = 0.05  # of a log, below which a miss counts no less
TURNS = 60
FORWARD = 1 / 3  # of a step, that an evaluated example takes beside a trained one


@dataclass(frozen=True)
class Lived:
    """One report: a training, an epoch or some steps, of so many optimiser's steps."""

    id: str
    where: str
    year: int
    model: str
    size: str
    batch: int  # of one GPU's pass
    accumulation: int
    precision: str
    software: str
    optimizer: str
    device: str
    gpus: int
    seconds: float
    steps: int
    loader: str = ""
    views: int = 0  # of an image, each made by the loader
    includes: str = ""
    evaluated: float = 0.0  # examples for each one trained, by sizes that data sets and settings are known to have

    @property
    def program(self) -> str:
        """The name of what is traced: rows of one program differ in devices."""
        era = ", plain attention" if self.year < FUSED_ATTENTION else ""
        return f"{self.model}, {self.batch} x {self.size}, {self.precision}, {self.optimizer}{era}"

    @property
    def step(self) -> float:
        """Seconds of an optimiser's step, without forward passes of evaluations whose sizes are known."""
        return self.seconds / self.steps / (1 + FORWARD * self.evaluated)

    @property
    def work(self) -> str:
        """The name of the work that ran; empty where it is not traced: JAX on a GPU."""
        name = WORKS.get(self.software, "eager")
        return "" if name == "tpu" and not self.device.startswith("TPU") else name

    @property
    def images(self) -> float:
        """Images of files that one GPU's step needs; small ones are kept in memory."""
        return self.batch * self.accumulation * self.views if self.loader == "images" else 0.0

    @property
    def group(self) -> str:
        """The group that it is left out with: the repository or paper that the report is in."""
        return self.where.split()[0]


@dataclass(frozen=True)
class Beside:
    """A report beside the clean forecast of its step, in seconds."""

    line: Lived
    clean: float
    kernels: float


def published() -> list[Lived]:
    """Every line of the table."""
    return read_lines(Lived, PUBLISHED)


# Traces


def trace(line: Lived) -> dict[str, Any]:
    """Return the work of one pass of a model of timm on one GPU, and the bytes of its gradients."""
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from fit.traces import step, sums
    from whichdevice.forecast.torch.trace import trace_step
    from whichdevice.forecast.tpu import of_trace

    name, size = line.model.partition(":")[2], int(line.size.partition("x")[0])
    asked = step(name, size, "train", line.precision, optimizer=line.optimizer)
    with sdpa_kernel(SDPBackend.MATH) if line.year < FUSED_ATTENTION else nullcontext():
        traced = trace_step(asked, line.batch)
    works = {"eager": traced.work, "fused": traced.fused, "tpu": of_trace(traced.fused)}
    facts = {"gradients": traced.memory["gradients"], "trained": traced.trained, "untested": list(traced.work.untested)}
    return facts | {line.work: sums(works[line.work])}


def write_traces() -> None:
    """Trace what is missing, and write one line a program."""
    known = {name: dict(digest) for name, digest in read_gzip(TRACES).items()}
    for line in published():
        if line.model.startswith("timm:") and line.work and line.work not in known.get(line.program, {}):
            print(line.program, flush=True)
            known[line.program] = known.get(line.program, {}) | trace(line)
    lines = (f"{json.dumps(key)}:{json.dumps(known[key], separators=(',', ':'))}" for key in sorted(known))
    TRACES.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


def beside() -> list[Beside]:
    """Each report whose step is traced, with its clean forecast on its device."""
    traces = read_gzip(TRACES)
    return [_beside(line, traces[line.program]) for line in published() if line.work in traces.get(line.program, {})]


def _beside(line: Lived, digest: Mapping[str, Any]) -> Beside:
    tpu = line.work == "tpu"  # XLA multiplies float32 as bfloat16 there, unless told otherwise
    software: Any = {"tpu": "PyTorch", "fused": "torch.compile"}.get(line.work, "eager")
    work = summed_work(digest[line.work], software)
    items = [
        replace(
            item, precision="half" if tpu and item.precision else item.precision,
            count=item.count * (1 if item.kind == "optimizer" else line.accumulation),
        )
        for item in work.items
    ]  # fmt: skip
    if line.gpus > 1:  # gradients are added up
        items.append(Item("collective", "", 0.0, digest["gradients"], 1, None, line.gpus))
    platform: Any = "tpu" if tpu else "gpu"
    work = replace(work, platform=platform, items=tuple(items), untested=tuple(digest["untested"]))
    step = forecast_step(work, sheet()[line.device], "train", line.gpus)
    return Beside(line, step.seconds, work.kernels)


# The fit


@dataclass(frozen=True)
class Reports:
    """Rows as arrays, so that a fit without some of them takes milliseconds."""

    logs: Any  # [rows]: of lived over clean seconds
    shows: Any  # [rows, 3]
    weight: Any  # [rows]: n rows of a source weigh as much as √n

    @classmethod
    def of(cls, rows: Sequence[Beside]) -> "Reports":
        """The figures of the rows."""
        logs = np.log([row.line.step / row.clean for row in rows])
        shown = np.array([shows(row.clean, row.kernels, row.line.images) for row in rows])
        return cls(logs, shown, weights_of(row.line.group for row in rows) ** 0.5)


def fitted(reports: Reports, chosen: np.ndarray) -> np.ndarray:
    """Return the constants of least absolute logs of the chosen rows; n rows of a source weigh as much as √n.

    By least squares that weigh each row by its miss before (Schlossmacher 1973), held a little to no effect.
    """
    logs, weight = reports.logs[chosen], reports.weight[chosen] / reports.weight[chosen].sum()
    shown, held = reports.shows[chosen], np.diag([0.0, HELD_TO_NONE, HELD_TO_NONE])
    constants, misses = np.zeros(len(held)), np.ones(len(logs))
    for _ in range(TURNS):
        trust = weight / np.maximum(np.abs(misses), NEAR)
        weighted = shown.T * trust
        constants = np.linalg.solve(weighted @ shown + held, weighted @ logs)
        misses = logs - shown @ constants
    return np.asarray(constants)


Model = Callable[[Reports, np.ndarray], np.ndarray]  # logs of forecast over clean [rows], of reports and chosen rows


def by_habits(reports: Reports, chosen: np.ndarray) -> np.ndarray:
    """The rule: by the time of its kernels and its images of files; never less than the clean step."""
    return np.maximum(reports.shows @ fitted(reports, chosen), 0.0)


def by_one_factor(reports: Reports, chosen: np.ndarray) -> np.ndarray:
    """A naive rule: the clean step, times the median of the chosen rows."""
    return np.full(len(reports.logs), quantile(reports.logs[chosen], 0.5, reports.weight[chosen]))


MODELS: Mapping[str, Model] = {
    "kernels and images": by_habits,
    "naive: one factor for all": by_one_factor,
    "naive: the clean step": lambda reports, _: np.zeros(len(reports.logs)),
}


def left_out(reports: Reports, groups: Sequence[str], model: Model) -> np.ndarray:
    """Return logs of lived over forecast time where the source was left out [rows]."""
    return each_left_out(groups, lambda out: reports.logs - model(reports, ~out))


def scored(reports: Reports, groups: Sequence[str]) -> dict[str, dict[str, float]]:
    """How well each rule forecasts the sources that it does not know; the others' misses state its interval."""
    found = {}
    for name, model in MODELS.items():
        logs = left_out(reports, groups, model)
        found[name] = score(logs, spread_of_others(logs, groups, reports.weight), groups, weighs=True)
    return found


def main() -> None:
    """Fit, test, and write the constants and the page."""
    rows = beside()
    reports, groups = Reports.of(rows), [row.line.group for row in rows]
    logs, constants = left_out(reports, groups, by_habits), fitted(reports, np.ones(len(rows), dtype=bool))
    numbers = math.exp(constants[0]), *constants[1:], spread_of(logs, reports.weight)
    factor, kernel, images, log_sd = (float(f"{value:.4g}") for value in numbers)
    habits = Habits(factor, kernel, images, log_sd, len(rows), len(set(groups)))
    HABITS.write_text(json.dumps(habits.to_dict(), indent=1) + "\n", encoding="utf-8")
    put_lines(PAGE, "python -m fit.lived", (line.rstrip() for line in _page(rows, logs, habits)))


def _page(rows: Sequence[Beside], missed: np.ndarray, habits: Habits) -> Iterator[str]:
    lines, reports, groups = published(), Reports.of(rows), np.array([row.line.group for row in rows])
    yield f"{len(lines)} reports of {len({line.group for line in lines})} sources. Of {len(rows)} of them, of "
    yield f"{len(set(groups))} sources, the step is traced, and forecast on its device in its number format."
    yield ""
    yield f"A lived step takes {habits.factor:.2f} times the clean one where its kernels take {KERNEL * 1e6:.0f} µs on "
    yield "the mean and it needs no images of files. Where they take twice as long, fewer are sent off: "
    yield f"{2**habits.kernel:.2f} times that. Where each device needs 300 or 1,000 images a second that are decoded "
    yield f"from files: {_images(habits, 300):.2f} or {_images(habits, 1000):.2f} times that."
    yield ""
    scores = scored(reports, groups.tolist())
    yield from table(("each source left out", *SCORES), ([name, *score_cells(its)] for name, its in scores.items()))
    yield ""
    cells = []
    for group in sorted(set(groups), key=str.lower):
        its = groups == group
        cells.append([group, its.sum(), *(f"{np.exp(np.median(logs[its])):.2f}" for logs in (reports.logs, missed))])
    yield from table(("source", "reports", "lived / clean", "lived / forecast, left out"), cells)
    yield ""
    clean = {row.line.id: _milliseconds(row.clean) for row in rows}
    cells = []
    for line in lines:
        device = f"{line.gpus} × {line.device}" if line.gpus > 1 else line.device
        batch = f"{line.accumulation} × {line.batch}" if line.accumulation > 1 else str(line.batch)
        model = f"{line.model.partition(':')[2]}, {line.size}"
        ends = [_milliseconds(line.step), clean.get(line.id, "not traced")]
        cells.append([line.id, line.where, model, batch, device, *ends])
    yield from table(("report", "where", "model", "batch", "device", "lived step", "clean step"), cells, words=5)


def _images(habits: Habits, rate: float) -> float:
    return float((1 + rate / FEW_IMAGES) ** habits.images)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


if __name__ == "__main__":
    write_traces() if sys.argv[1:] == ["trace"] else main()

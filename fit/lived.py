"""Trainings as people lived them, beside the clean forecast of their steps: `python -m fit.lived`.

fit/data/lived.csv has what people report of whole trainings, epochs or steps, each with its source;
fit/data/lived_traces.json.gz the work of one GPU's pass of each, so that this runs on a bare machine. It fits how much
longer a lived step takes, tests that with each source left out, and writes scripts/whichdevice/forecast/lived.json and
the tables of docs/reference/lived-trainings.md. `python -m fit.lived trace` traces what is missing; it needs PyTorch
and Transformers, and without dependencies of their own timm, Diffusers and torchvision's build for a CPU.
"""

import csv
import gzip
import json
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from copy import copy
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from fit.fitting import DATA
from fit.generated import put_lines
from fit.traces import sums
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.prices import Z80
from whichdevice.forecast.lived import FEW_IMAGES, HABITS, KERNEL, Habits, shows
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Item, Work

PUBLISHED = DATA / "lived.csv"
TRACES = DATA / "lived_traces.json.gz"
PAGE = Path(__file__).parents[1] / "docs" / "reference" / "lived-trainings.md"
WORKS = {"torch.compile": "fused", "jax": "tpu"}  # of a row's software; the others run operation by operation
FUSED_ATTENTION = 2023  # from when on PyTorch has a kernel of its own for attention
HELD = 0.02  # of a constant that few rows decide, to no effect
FREEDOM, T80 = 3, 1.6377  # of Student's t, and what 80 % of its distribution are within
NEAR = 0.05  # of a log, below which a miss counts no less
TURNS = 60
FORWARD = 1 / 3  # of a step, that an evaluated example takes beside a trained one


@dataclass(frozen=True)
class Lived:
    """One report: a training, an epoch or some steps, of so many optimiser's steps."""

    id: str
    source: str  # who reports
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
    views: int  # of an image, each made by the loader
    reads: str  # losses by the host: each step, seldom or unknown
    includes: str
    evaluated: float  # examples for each one trained, by sizes that data sets and settings are known to have; else 0
    notes: str

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


def published(path: Path = PUBLISHED) -> list[Lived]:
    """Every line of the table."""
    whole = ("year", "batch", "accumulation", "gpus", "steps", "views")
    real = ("seconds", "evaluated")
    with path.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    numbers = [
        {name: int(row[name]) for name in whole} | {name: float(row[name] or 0) for name in real} for row in rows
    ]
    return [Lived(**{**row, **known}) for row, known in zip(rows, numbers, strict=True)]  # type: ignore[arg-type]


# Traces


@cache
def read_traces(path: Path = TRACES) -> Mapping[str, Any]:
    """The committed work by program."""
    return dict(json.loads(gzip.decompress(path.read_bytes()))) if path.is_file() else {}


def trace(line: Lived) -> dict[str, Any]:
    """Return the work of one pass on one GPU, and the bytes of its gradients."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from fit.lived_models import lived_model
    from whichdevice.forecast.torch.trace import Step, trace_step
    from whichdevice.forecast.tpu import of_trace

    model = lived_model(line.model, tuple(map(int, line.size.split("x"))))
    options = {"SGD": {"momentum": 0.9}}.get(line.optimizer, {})

    def optimizer(module: Any) -> Any:
        trained = [weight for weight in module.parameters() if weight.requires_grad]
        return getattr(torch.optim, line.optimizer)(trained, lr=0.1, **options)

    with sdpa_kernel(SDPBackend.MATH) if line.year < FUSED_ATTENTION else nullcontext():
        traced = trace_step(Step(model.build, model.batch, model.loss, optimizer, line.precision), line.batch)
    works = {"eager": traced.work, "fused": traced.fused, "tpu": of_trace(traced.fused)}
    return {
        "gradients": traced.memory["gradients"],
        "trained": traced.trained,
        "untested": list(traced.work.untested),
        line.work: sums(works[line.work]),
    }


def write_traces(path: Path = TRACES) -> None:
    """Trace what is missing, and keep what is done after each."""
    known = {name: dict(digest) for name, digest in read_traces(path).items()}
    for line in published():
        if not line.work or line.work in known.get(line.program, {}):
            continue
        try:
            known[line.program] = known.get(line.program, {}) | trace(line)
            print(line.program, flush=True)
        except Exception as error:
            print(f"{line.program}: {type(error).__name__}: {str(error)[:200]}", file=sys.stderr, flush=True)
            continue
        keep_traces(known, path)


def keep_traces(known: Mapping[str, Any], path: Path = TRACES) -> None:
    """Write one line a program."""
    lines = (f"{json.dumps(key)}:{json.dumps(known[key], separators=(',', ':'))}" for key in sorted(known))
    path.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


def beside(path: Path = TRACES) -> list[Beside]:
    """Each report whose step is traced, with its clean forecast on its device."""
    reports = (_beside(line, read_traces(path)) for line in published())
    return [report for report in reports if report is not None]


def _beside(line: Lived, traces: Mapping[str, Any]) -> Beside | None:
    digest = traces.get(line.program, {})
    passes = line.accumulation
    if line.work not in digest:
        return None
    half = line.work == "tpu"  # XLA multiplies float32 as bfloat16 there, unless told otherwise
    items = [
        Item(
            kind,
            "half" if half and precision else precision,
            operations / count,
            nbytes / count,
            count * (1 if kind == "optimizer" else passes),
        )
        for kind, precision, operations, nbytes, count, *_ in digest[line.work]
    ]
    if line.gpus > 1:  # gradients are added up
        items.append(Item("collective", "", 0.0, digest["gradients"], 1, None, line.gpus))
    software: Any = {"tpu": "PyTorch", "fused": "torch.compile"}.get(line.work, "eager")
    platform: Any = "tpu" if line.work == "tpu" else "gpu"
    work = Work(platform, tuple(items), software=software, untested=tuple(digest["untested"]))
    step = forecast_step(work, hardware_rows()[line.device], "train", line.gpus)
    return Beside(line, step.seconds, work.kernels)


# The fit


class Reports:
    """Rows as arrays, so that a fit without some of them takes milliseconds."""

    def __init__(self, rows: Sequence[Beside]) -> None:
        self.rows = tuple(rows)
        self.lived = np.log([row.line.step for row in rows])
        self.clean = np.log([row.clean for row in rows])
        self.groups = np.array([row.line.group for row in rows])
        counts = Counter(self.groups)
        self.weight = np.array([counts[group] ** -0.5 for group in self.groups])
        self.shows = np.array([shows(row.clean, row.kernels, row.line.images) for row in rows])

    def without(self, left: np.ndarray) -> "Reports":
        """The rows of the other sources."""
        others = copy(self)
        others.rows = tuple(row for row, leaves in zip(self.rows, left, strict=True) if not leaves)
        for name in ("lived", "clean", "groups", "weight", "shows"):
            setattr(others, name, getattr(self, name)[~left])
        return others


def fitted(reports: Reports) -> np.ndarray:
    """Return the constants with the least sum of absolute logs; n rows of a source weigh as much as √n.

    By least squares that weigh each row by its miss before (Schlossmacher 1973), held a little to no effect.
    """
    logs, weight = reports.lived - reports.clean, reports.weight / reports.weight.sum()
    shown, held = reports.shows, np.diag([0.0, HELD, HELD])
    constants, misses = np.zeros(len(held)), np.ones(len(logs))
    for _ in range(TURNS):
        trust = weight / np.maximum(np.abs(misses), NEAR)
        weighted = shown.T * trust
        constants = np.linalg.solve(weighted @ shown + held, weighted @ logs)
        misses = logs - shown @ constants
    return np.asarray(constants)


def quantile(values: np.ndarray, weight: np.ndarray, share: float) -> float:
    """Return a weighted quantile."""
    order = np.argsort(values)
    places = np.cumsum(weight[order]) - weight[order] / 2
    return float(np.interp(share, places / weight.sum(), values[order]))


def spread(logs: np.ndarray, weight: np.ndarray) -> float:
    """Return the standard deviation of a normal distribution that has as many of these logs within it as 80 %."""
    return quantile(np.abs(logs), weight, 0.8) / Z80


Model = Callable[[Reports], Callable[[Reports], np.ndarray]]


@dataclass(frozen=True)
class LeftOut:
    """Logs of lived over forecast time where the source was left out, and the spread that the others state."""

    reports: Reports
    logs: np.ndarray
    stated: np.ndarray

    @classmethod
    def of(cls, reports: Reports, model: Model) -> "LeftOut":
        """Forecast each source's rows by a model of the others, whose misses, each left out too, are its interval."""
        logs, stated = np.zeros(len(reports.rows)), np.zeros(len(reports.rows))
        lefts = [reports.groups == group for group in sorted(set(reports.groups))]
        for left in lefts:
            logs[left] = (reports.lived - model(reports.without(left))(reports))[left]
        for left in lefts:
            stated[left] = spread(logs[~left], reports.weight[~left])
        return cls(reports, logs, stated)

    def score(self) -> dict[str, float]:
        """Median error, the share inside the stated interval, and how likely the reports are in it.

        n rows of a source weigh as much as √n; the likelihood is of Student's t, as some trainings take many times as
        long.
        """
        weight, held = self.reports.weight, np.abs(self.logs) <= Z80 * self.stated
        scale = self.stated * Z80 / T80
        likely = -np.log(scale) - (FREEDOM + 1) / 2 * np.log1p((self.logs / scale) ** 2 / FREEDOM)
        return {
            "median": quantile(np.abs(np.expm1(self.logs)), weight, 0.5),
            "held": float(weight @ held / weight.sum()),
            "stated": math.exp(Z80 * float(np.median(self.stated))),
            "likely": float(weight @ likely / weight.sum()),
        }


def by_habits(reports: Reports) -> Callable[[Reports], np.ndarray]:
    """The rule: the clean step, by the time of its kernels and its images of files; never less than the clean step."""
    constants = fitted(reports)
    return lambda others: others.clean + np.maximum(others.shows @ constants, 0.0)


def by_one_factor(reports: Reports) -> Callable[[Reports], np.ndarray]:
    """A naive rule: the clean step, times the median of these rows."""
    factor = quantile(reports.lived - reports.clean, reports.weight, 0.5)
    return lambda others: factor + others.clean


def by_clean_step(reports: Reports) -> Callable[[Reports], np.ndarray]:
    """The clean step itself, whatever these rows are."""
    return lambda others: others.clean


MODELS: Mapping[str, Model] = {
    "kernels and images": by_habits,
    "naive: one factor for all": by_one_factor,
    "naive: the clean step": by_clean_step,
}
LATER = "dit_1"  # the first report that was collected after the rule was chosen


def blind(reports: Reports, model: Model) -> LeftOut:
    """Forecast the sources that were collected after the rule was chosen by a model of those before."""
    ids = [line.id for line in published()]
    groups = {line.group for line in published()[: ids.index(LATER)]}
    before = np.array([group in groups for group in reports.groups])
    known, others = reports.without(~before), reports.without(before)
    left_out = LeftOut.of(known, model)
    stated = np.full(len(others.rows), spread(left_out.logs, known.weight))
    return LeftOut(others, others.lived - model(known)(others), stated)


def main() -> None:
    """Fit, test, and write the constants and the page."""
    reports = Reports(beside())
    scores = {name: LeftOut.of(reports, model) for name, model in MODELS.items()}
    constants = fitted(reports)
    sd = spread(next(iter(scores.values())).logs, reports.weight)
    numbers = math.exp(constants[0]), *constants[1:], sd
    factor, kernel, images, log_sd = (float(f"{value:.4g}") for value in numbers)
    habits = Habits(factor, kernel, images, log_sd, len(reports.rows), len(set(reports.groups)))
    HABITS.write_text(json.dumps(habits.to_dict(), indent=1) + "\n", encoding="utf-8")
    put_lines(PAGE, "python -m fit.lived", (line.rstrip() for line in _page(reports, scores, habits)))
    for name, left_out in scores.items():
        print(name, left_out.score())


def _page(reports: Reports, scores: Mapping[str, LeftOut], habits: Habits) -> Iterator[str]:
    lines, groups, best = published(), sorted(set(reports.groups), key=str.lower), next(iter(scores))
    yield f"{len(lines)} reports of {len({line.group for line in lines})} sources. Of {len(reports.rows)} of them, of "
    yield f"{len(groups)} sources, the step is traced, and forecast on its device in its number format."
    yield ""
    yield f"A lived step takes {habits.factor:.2f} times the clean one where its kernels take {KERNEL * 1e6:.0f} µs on "
    yield f"the mean and it needs no images of files; {2**habits.kernel:.2f} times that where they take twice as long, "
    yield f"as fewer are sent off; {_images(habits, 300):.2f} and {_images(habits, 1000):.2f} times that where each "
    yield "device needs 300 and 1,000 images a second that are decoded from files."
    yield from (
        "",
        "| each source left out | median error | inside the stated 80 % | stated interval | log-likelihood |",
        "|---|--:|--:|--:|--:|",
    )
    yield from (_score(name, left_out) for name, left_out in scores.items())
    later = {name: blind(reports, model) for name, model in MODELS.items()}
    yield from (
        "",
        f"| {len(set(later[best].reports.groups))} sources that were collected after the rule was chosen, by constants "
        "of the others | median error | inside the stated 80 % | stated interval | log-likelihood |",
        "|---|--:|--:|--:|--:|",
    )
    yield from (_score(name, left_out) for name, left_out in later.items())
    yield from ("", "| source | reports | lived / clean | lived / forecast, left out |", "|---|--:|--:|--:|")
    for group in groups:
        rows = reports.groups == group
        clean, forecast = (
            math.exp(np.median(logs[rows])) for logs in (reports.lived - reports.clean, scores[best].logs)
        )
        yield f"| {group} | {rows.sum()} | {clean:.2f} | {forecast:.2f} |"
    yield from (
        "",
        "| report | where | model | batch | device | lived step | clean step |",
        "|---|---|---|--:|---|--:|--:|",
    )
    known = {row.line.id: row for row in reports.rows}
    for line in lines:
        row = known.get(line.id)
        gpus = f"{line.gpus} × " if line.gpus > 1 else ""
        batch = f"{line.accumulation} × {line.batch}" if line.accumulation > 1 else str(line.batch)
        clean_step = "not traced" if row is None else _milliseconds(row.clean)
        yield (
            f"| {line.id} | {line.where} | {line.model.partition(':')[2]}, {line.size} | {batch} | {gpus}{line.device} "
            f"| {_milliseconds(line.step)} | {clean_step} |"
        )


def _score(name: str, left_out: LeftOut) -> str:
    score = left_out.score()
    share, held = 100 * score["median"], 100 * score["held"]
    return f"| {name} | {share:.0f} % | {held:.0f} % | × / ÷ {score['stated']:.2f} | {score['likely']:.2f} |"


def _images(habits: Habits, rate: float) -> float:
    return float((1 + rate / FEW_IMAGES) ** habits.images)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


if __name__ == "__main__":
    write_traces() if sys.argv[1:] == ["trace"] else main()

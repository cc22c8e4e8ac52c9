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
from functools import cache
from typing import Any

import numpy as np
from pydantic.dataclasses import dataclass

from fit.fitting import DATA, read_gzip, read_lines, summed_work
from fit.generated import DOCS, put_lines, table, times
from fit.scores import Z80, each_left_out, weights_of
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.lived import FEW_IMAGES, HABITS, KERNEL, Habits, shows
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.work import Item

PUBLISHED = DATA / "lived.csv"
TRACES = DATA / "lived_traces.json.gz"
PAGE = DOCS / "reference" / "lived-trainings.md"
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


@cache
def read_traces() -> Mapping[str, Any]:
    """The committed work by program."""
    return dict(read_gzip(TRACES))


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
    known = {name: dict(digest) for name, digest in read_traces().items()}
    for line in published():
        if line.model.startswith("timm:") and line.work and line.work not in known.get(line.program, {}):
            print(line.program, flush=True)
            known[line.program] = known.get(line.program, {}) | trace(line)
    lines = (f"{json.dumps(key)}:{json.dumps(known[key], separators=(',', ':'))}" for key in sorted(known))
    TRACES.write_bytes(gzip.compress(("{\n" + ",\n".join(lines) + "\n}\n").encode(), mtime=0))


def beside() -> list[Beside]:
    """Each report whose step is traced, with its clean forecast on its device."""
    traces = read_traces()
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
    step = forecast_step(work, hardware_rows()[line.device], "train", line.gpus)
    return Beside(line, step.seconds, work.kernels)


# The fit


@dataclass(frozen=True)
class Reports:
    """Rows as arrays, so that a fit without some of them takes milliseconds."""

    lived: Any  # [rows]: log seconds, as the next
    clean: Any
    shows: Any  # [rows, 3]
    weight: Any  # [rows]: n rows of a source weigh as much as √n

    @classmethod
    def of(cls, rows: Sequence[Beside]) -> "Reports":
        """Those of the rows."""
        lived, clean = np.log([(row.line.step, row.clean) for row in rows]).T
        shown = np.array([shows(row.clean, row.kernels, row.line.images) for row in rows])
        return cls(lived, clean, shown, weights_of(row.line.group for row in rows) ** 0.5)

    def at(self, chosen: np.ndarray) -> "Reports":
        """The chosen rows."""
        return Reports(self.lived[chosen], self.clean[chosen], self.shows[chosen], self.weight[chosen])


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

    logs: Any
    weight: Any
    stated: Any

    @classmethod
    def of(cls, reports: Reports, groups: Sequence[str], model: Model) -> "LeftOut":
        """Forecast each source's rows by a model of the others, whose misses, each left out too, are its interval."""
        logs = each_left_out(groups, lambda out: reports.lived - model(reports.at(~out))(reports))
        states = each_left_out(groups, lambda out: np.full(len(logs), spread(logs[~out], reports.weight[~out])))
        return cls(logs, reports.weight, states)

    def score(self) -> dict[str, float]:
        """Median error, the share inside the stated interval, and how likely the reports are in it.

        The likelihood is of Student's t, as some trainings take many times as long.
        """
        scale = self.stated * Z80 / T80
        likely = -np.log(scale) - (FREEDOM + 1) / 2 * np.log1p((self.logs / scale) ** 2 / FREEDOM)
        return {
            "median": quantile(np.abs(np.expm1(self.logs)), self.weight, 0.5),
            "held": float(np.average(np.abs(self.logs) <= Z80 * self.stated, weights=self.weight)),
            "stated": math.exp(Z80 * float(np.median(self.stated))),
            "likely": float(np.average(likely, weights=self.weight)),
        }


def by_habits(reports: Reports) -> Callable[[Reports], np.ndarray]:
    """The rule: the clean step, by the time of its kernels and its images of files; never less than the clean step."""
    constants = fitted(reports)
    return lambda others: others.clean + np.maximum(others.shows @ constants, 0.0)


def by_one_factor(reports: Reports) -> Callable[[Reports], np.ndarray]:
    """A naive rule: the clean step, times the median of these rows."""
    factor = quantile(reports.lived - reports.clean, reports.weight, 0.5)
    return lambda others: factor + others.clean


MODELS: Mapping[str, Model] = {
    "kernels and images": by_habits,
    "naive: one factor for all": by_one_factor,
    "naive: the clean step": lambda _: lambda others: others.clean,
}
LATER = "dit_1"  # the first report that was collected after the rule was chosen


def blind(rows: Sequence[Beside], model: Model) -> LeftOut:
    """Forecast the sources that were collected after the rule was chosen by a model of those before."""
    ids, groups = [line.id for line in published()], [row.line.group for row in rows]
    known = {line.group for line in published()[: ids.index(LATER)]}
    before, reports = np.array([group in known for group in groups]), Reports.of(rows)
    earlier, later = reports.at(before), reports.at(~before)
    left_out = LeftOut.of(earlier, [group for group in groups if group in known], model)
    stated = np.full(len(later.lived), spread(left_out.logs, earlier.weight))
    return LeftOut(later.lived - model(earlier)(later), later.weight, stated)


def main() -> None:
    """Fit, test, and write the constants and the page."""
    rows = beside()
    reports, groups = Reports.of(rows), [row.line.group for row in rows]
    scores = {name: LeftOut.of(reports, groups, model) for name, model in MODELS.items()}
    constants = fitted(reports)
    sd = spread(next(iter(scores.values())).logs, reports.weight)
    numbers = math.exp(constants[0]), *constants[1:], sd
    factor, kernel, images, log_sd = (float(f"{value:.4g}") for value in numbers)
    habits = Habits(factor, kernel, images, log_sd, len(rows), len(set(groups)))
    HABITS.write_text(json.dumps(habits.to_dict(), indent=1) + "\n", encoding="utf-8")
    put_lines(PAGE, "python -m fit.lived", (line.rstrip() for line in _page(rows, scores, habits)))


def _page(rows: Sequence[Beside], scores: Mapping[str, LeftOut], habits: Habits) -> Iterator[str]:
    lines, reports, groups = published(), Reports.of(rows), np.array([row.line.group for row in rows])
    yield f"{len(lines)} reports of {len({line.group for line in lines})} sources. Of {len(rows)} of them, of "
    yield f"{len(set(groups))} sources, the step is traced, and forecast on its device in its number format."
    yield ""
    yield f"A lived step takes {habits.factor:.2f} times the clean one where its kernels take {KERNEL * 1e6:.0f} µs on "
    yield f"the mean and it needs no images of files; {2**habits.kernel:.2f} times that where they take twice as long, "
    yield f"as fewer are sent off; {_images(habits, 300):.2f} and {_images(habits, 1000):.2f} times that where each "
    yield "device needs 300 and 1,000 images a second that are decoded from files."
    later = {name: blind(rows, model) for name, model in MODELS.items()}
    known = {line.group for line in lines[: [line.id for line in lines].index(LATER)]}
    new = f"{len(set(groups) - known)} sources that were collected after the rule was chosen, by the others' constants"
    for title, left_out in (("each source left out", scores), (new, later)):
        yield ""
        heads = (title, "median error", "inside the stated 80 %", "stated interval", "log-likelihood")
        yield from table(heads, (_score(name, its.score()) for name, its in left_out.items()))
    yield ""
    ratios = (reports.lived - reports.clean, next(iter(scores.values())).logs)
    cells = []
    for group in sorted(set(groups), key=str.lower):
        its = groups == group
        cells.append([group, its.sum(), *(f"{np.exp(np.median(logs[its])):.2f}" for logs in ratios)])
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


def _score(name: str, score: Mapping[str, float]) -> list[str]:
    shares = [f"{100 * score[part]:.0f} %" for part in ("median", "held")]
    return [name, *shares, times(score["stated"]), f"{score['likely']:.2f}"]


def _images(habits: Habits, rate: float) -> float:
    return float((1 + rate / FEW_IMAGES) ** habits.images)


def _milliseconds(seconds: float) -> str:
    return f"{seconds * 1e3:,.3g} ms" if seconds < 1 else f"{seconds:,.3g} s"


if __name__ == "__main__":
    write_traces() if sys.argv[1:] == ["trace"] else main()

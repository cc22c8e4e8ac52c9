"""How good forecasts have been: constants fitted to published times, and tested on rows that the fit did not see.

config/forecast_published.csv has the published times, config/forecast_digests.json the work of their programs. Factors
are fitted by least squares of log residuals for each software; n rows of a source weigh as much as √n. The residuals'
parts are fitted by joint.py. A test leaves out whole groups (models, chips, sources, families), fits everything to the
rest and forecasts what was left out: single times, ratios of two devices, and which of two is faster.
"""

import csv
import gzip
import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri

from whichdevice.config.hardware import hardware_rows
from whichdevice.errors import StudyError
from whichdevice.files import CONFIG
from whichdevice.forecast import joint
from whichdevice.forecast.time_model import (
    CLOCK_SD,
    LAUNCH_SD,
    PRECISIONS,
    AtPeaks,
    Peaks,
    at_peaks,
    clock_of,
    family_of,
    like,
    read_constants,
    software_of,
)
from whichdevice.forecast.work import Item, Software, Work

PUBLISHED = CONFIG / "forecast_published.csv"
DIGESTS = CONFIG / "forecast_digests.json"
TRACES = CONFIG / "forecast_traces.json.gz"
SCORECARD = CONFIG / "forecast_scorecard.json"
ROBUST = 0.2  # log residual from which on a row counts less than its square
PULL = 0.1  # of the prior: so many log units of misfit for one of its spreads
LOW_POWER_CLOCK = 1.5  # how much longer operations take on a card of low power
SURE = 0.9  # chance from which on a comparison counts as decided

CONVOLUTIONS = ("", "pointwise ", "thin ", "depthwise ", "grouped ")
EAGER: Mapping[str, tuple[float, float]] = {
    "launch": (4e-6, 0.5),
    **dict.fromkeys(("memory", "norm", "gather and scatter", "optimizer"), (1.2, 0.3)),
    "batch norm": (2.0, 0.5),
    **{f"{kind} {precision}": (1.1, 0.5) for kind in ("product", "attention") for precision in PRECISIONS},
    "attention half": (3.0, 0.5),
    **{f"bytes of {kind}": (0.8, 0.7) for kind in ("product", "attention")},
    **{f"{kind}convolution {precision}": (1.2, 0.5) for kind in CONVOLUTIONS for precision in PRECISIONS},
    **{f"{kind}convolution backward half": (1.2, 0.5) for kind in CONVOLUTIONS},
    **{f"bytes of {kind}convolution{back}": (0.8, 0.7) for kind in CONVOLUTIONS for back in ("", " backward")},
    "collective": (0.35, 0.7),  # most of it hides behind the work
}
# Where a fit starts, and how far (log) it is held there; with few rows of a class left, that is what remains.
PRIOR: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "xla": {
        "memory": (1.35, 0.3),
        "launch": (5e-6, 0.05),
        # Of an earlier fit to 91 published times, most of them of PyTorch: libraries' kernels are the same ones.
        "product float32": (1.33, 0.3),
        "product tf32": (1.71, 0.5),
        "product half": (1.44, 0.5),
        "convolution float32": (0.95, 0.3),
        "convolution tf32": (2.64, 0.3),
        "convolution half": (1.3, 0.3),
        "grouped convolution": (3.0, 0.5),
        "collective": (1.3, 0.0),  # no row of several GPUs: rings reach about three quarters of a link
    },
    "xla on TPU": {
        "memory": (1.4, 0.3),
        "launch": (1e-6, 0.7),
        "product": (1.2, 0.3),
        "collective": (1.2, 0.5),
        "transfer": (0.7, 0.5),
        "grouped convolution": (1.9, 0.0),  # a GPU's
    },
    "eager": EAGER,
    "torch.compile": EAGER,
}
# Steps that took less than so many seconds a kernel may wait for the host: they are no evidence for the device.
HOST_BOUND = {"xla": 45e-6, "eager": 70e-6, "torch.compile": 15e-6, "xla on TPU": 0.0}
HOST_SHARE = 0.6  # of such a step, up to which the device may take: then the host took the rest
HOST_STEP = {"xla": 5e-4, "eager": 2e-4, "torch.compile": 3e-4, "xla on TPU": 1e-3}  # seconds a step besides
# Seconds a kernel where none are fitted. Published small steps of XLA are of TensorFlow 1.15 and 2, which took 15 to 30
# µs a kernel; forecasts are for JAX, which launches a program in one call.
HOST_PRIOR = {"xla": 5e-6, "torch.compile": 6e-6, "xla on TPU": 0.0}
HOST_SD = 0.5  # log spread of the host's time between machines; not fitted to less


@dataclass(frozen=True)
class Row:
    """One published time, the work of its program, and what the sheet says of its device."""

    source_group: str
    device: str
    seconds: float
    batch: float
    model: str
    question: str  # what devices are compared on: model with options, mode and number format
    work: Work
    peaks: Peaks

    @property
    def chip(self) -> str:
        """What is left out together when a device is left out."""
        return self.peaks.chip

    @cached_property
    def software(self) -> str:
        """The name of its constants."""
        return software_of(self.work)

    @cached_property
    def family(self) -> str:
        """The family of its model."""
        return family_of(self.work)

    @property
    def host_bound(self) -> bool:
        """Whether the host may have taken longer than the device."""
        return self.seconds < HOST_BOUND[self.software] * self.work.kernels

    @cached_property
    def at_peaks(self) -> AtPeaks:
        """Seconds at the sheet's peaks by class."""
        return at_peaks(self.work, self.peaks)


def published_rows(published: Path = PUBLISHED, digests: Path = DIGESTS, traces: Path = TRACES) -> list[Row]:
    """Every published time with the work of its step; raises StudyError where a program or device is missing."""
    programs = {key: Work.from_dict(each) for key, each in read_digests(digests)["programs"].items()}
    sheet = {name: Peaks.of(row) for name, row in hardware_rows().items() if row.kind != "cpu" and row.mem_bw_gbs}
    rows = []
    with published.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            try:
                work, peaks = programs[line["program"]], sheet[line["device"]]
            except KeyError as error:
                raise StudyError(f"{published.name}: {line['id']}: no {error.args[0]}; run `make forecasts`") from None
            model = f"{line['model']} {line['options'].replace('{}', '')} {line['sequence_length']}".strip()
            question = f"{model} {line['mode']} {line['precision']}"
            seconds, batch = float(line["step_ms"]) / 1e3, float(line["batch"] or 1)
            rows.append(Row(line["source_group"], line["device"], seconds, batch, model, question, work, peaks))
    document = read_traces(traces)
    for source, _, number, software, device, batch, milliseconds, *bandwidth in document["rows"]:
        _, model, size, mode, precision, traced, works, *_ = document["questions"][number]
        work = _scaled(works[software], software, batch / traced)
        question = f"{model} {size} {mode} {precision}"
        peaks = replace(sheet[device], bandwidth=bandwidth[0] * 1e9) if bandwidth else sheet[device]
        rows.append(Row(source, device, milliseconds / 1e3, batch, model, question, work, peaks))
    return rows


def read_traces(path: Path = TRACES) -> dict[str, Any]:
    """The committed work of PyTorch steps, and their published times."""
    return dict(json.loads(gzip.decompress(path.read_bytes())))


def _scaled(items: Sequence[Sequence[Any]], software: Software, times: float) -> Work:
    """The work of a step at another batch: as many kernels, each of so many times the operations and bytes."""
    scaled = (
        Item(kind, precision, operations * times / count, nbytes * times / count, count, None, *devices)
        for kind, precision, operations, nbytes, count, *devices in items
    )
    return Work("gpu", tuple(scaled), software=software)


def read_digests(path: Path = DIGESTS) -> dict[str, Any]:
    """The committed work of the published times' programs."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Design:
    """Seconds at the peaks of one software's rows, for the classes that have a factor: what a fit needs."""

    names: tuple[str, ...]
    computed: np.ndarray  # [rows, names]
    moved: np.ndarray  # [rows, names]; launches count kernels
    clock: np.ndarray  # [rows, names]: the place of the clock of these operations among the names
    measured: np.ndarray  # [rows]: log seconds
    sources: np.ndarray  # [rows]: numbers
    classes: np.ndarray  # [names]: the class of chips of a clock, "" for other factors

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Design":
        """Of rows of one software."""
        prior = PRIOR[rows[0].software]
        classes = {
            clock_of(row.chip, name): clock_of(row.peaks.chip_class, name)
            for row in rows
            for name in row.at_peaks.computed
        }
        names = [*prior, *sorted(classes)]
        places = {name: place for place, name in enumerate(names)}
        known = dict.fromkeys(prior, 1.0)
        computed, moved = np.zeros((len(rows), len(names))), np.zeros((len(rows), len(names)))
        clock = np.zeros((len(rows), len(names)), dtype=int)
        for place, row in enumerate(rows):
            for within, its in ((computed, row.at_peaks.computed), (moved, row.at_peaks.moved)):
                for name, seconds in its.items():
                    within[place, places[like(name, known)]] += seconds
            for name in row.at_peaks.computed:
                clock[place, places[like(name, known)]] = places[clock_of(row.chip, name)]
            moved[place, places["launch"]] = row.at_peaks.kernels
        sources = sorted({row.source_group for row in rows})
        return cls(
            tuple(names),
            computed,
            moved,
            clock,
            np.log([row.seconds for row in rows]),
            np.array([sources.index(row.source_group) for row in rows]),
            np.array([classes.get(name, "") for name in names]),
        )

    def seconds(self, factors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Seconds by name of operations and of the rest [rows, names each]."""
        return self.computed * factors * factors[self.clock], self.moved * factors


def fit_factors(
    design: Design,
    chosen: np.ndarray,
    software: str,
    start: np.ndarray | None = None,
    clocks: Mapping[str, float] = MappingProxyType({}),
) -> np.ndarray:
    """Factors from the chosen rows [rows, of bool]: robust least squares of log residuals, held to a prior.

    n rows of a source weigh as much as √n. `start` are factors of a fit to nearly the same rows. A chip's clock is held
    to `clocks`, of other software, or else to that of its class.
    """
    prior, names = PRIOR[software], design.names
    columns = {name: getattr(design, name)[chosen] for name in ("computed", "moved", "clock", "measured", "sources")}
    its = replace(design, **columns)
    weight = np.bincount(its.sources).astype(float)[its.sources] ** -0.5
    centre = np.log([prior[name][0] if name in prior else 1.0 for name in names])
    spread = np.array([prior[name][1] if name in prior else CLOCK_SD for name in names])
    centre[low_power(design.classes)] = math.log(LOW_POWER_CLOCK)
    for place, name in enumerate(names):
        if name in clocks:
            centre[place], spread[place] = math.log(clocks[name]), CLOCK_SD / 2
    hold = PULL**2 / np.maximum(spread, 1e-4) ** 2
    logs = centre.copy() if start is None else np.log(start)
    used = its.computed > 0
    flat = np.nonzero(used)[0] * len(names) + its.clock[used]
    for _ in range(40 if start is None else 8):  # Gauss-Newton; a robust weight is one of the step before
        computed, moved = its.seconds(np.exp(logs))
        seconds = computed.sum(axis=1) + moved.sum(axis=1)
        slope = (computed + moved) / seconds[:, None]
        slope += np.bincount(flat, (computed / seconds[:, None])[used], slope.size).reshape(slope.shape)
        misses = np.log(seconds) - its.measured
        trust = weight / np.sqrt(1 + (misses / ROBUST) ** 2)
        square = slope.T @ (slope * trust[:, None]) + np.diag(hold)
        step = np.linalg.solve(square, slope.T @ (trust * misses) + hold * (logs - centre))
        logs = logs - np.clip(step, -0.7, 0.7)
        if np.abs(step).max() < 1e-4:
            break
    timed = np.isin(np.arange(len(names)), its.clock[its.computed > 0])
    for name, value in class_clocks(design, np.exp(logs), timed).items():
        alone = (design.classes == name) & ~timed & ~np.isin(names, list(clocks))
        logs[alone] = math.log(value)
    return np.asarray(np.exp(logs))


def class_clocks(design: Design, factors: np.ndarray, timed: np.ndarray | None = None) -> dict[str, float]:
    """The clock of a chip without published times, by its class: the mean of the class, held to what it starts from."""
    found = {}
    for name in sorted(set(design.classes) - {""}):
        its = (design.classes == name) & (True if timed is None else timed)
        start = math.log(LOW_POWER_CLOCK) if name.endswith("low power") else 0.0
        found[str(name)] = math.exp((float(np.log(factors[its]).sum()) + start) / (int(its.sum()) + 1))
    return found


def low_power(classes: np.ndarray) -> np.ndarray:
    """Whether each of some classes of clocks is of cards of low power."""
    return np.char.endswith(classes, "low power")


@dataclass(frozen=True)
class Fitted:
    """Factors by software, in the order of its design's names, and the parts of the residuals, of some rows."""

    factors: Mapping[str, np.ndarray]
    residuals: Mapping[str, Any]


class Published:
    """Published times as arrays, so that a fit without some of them takes milliseconds."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self.rows = tuple(rows)
        self.software = np.array([row.software for row in rows])
        self.device_bound = ~np.array([row.host_bound for row in rows])
        self.places = {each: np.flatnonzero(self.software == each) for each in sorted(set(self.software))}
        self.designs = {each: Design.of([row for row in rows if row.software == each]) for each in self.places}
        self.columns = joint.Columns(
            software=[row.software for row in rows],
            family=[row.family for row in rows],
            question=[row.question for row in rows],
            source=[row.source_group for row in rows],
            chip=[row.chip for row in rows],
            chip_class=[row.peaks.chip_class for row in rows],
        )

    def fit(self, chosen: np.ndarray | None = None, start: Fitted | None = None) -> Fitted:
        """Fit everything to the chosen rows [rows, of bool]; `start` fits nearly the same rows: variances are kept."""
        chosen = self.device_bound if chosen is None else chosen & self.device_bound
        factors: dict[str, np.ndarray] = {}
        clocks: dict[str, float] = {}  # of the first software that has the chip
        for software, design in self.designs.items():
            its = chosen[self.places[software]]
            if its.any():
                begin = start.factors.get(software) if start else None
                factors[software] = fit_factors(design, its, software, begin, clocks)
                for place in set(design.clock[its][design.computed[its] > 0]):
                    clocks.setdefault(design.names[place], float(factors[software][place]))
        logs = self.logs(factors)
        turns, variances = (joint.TURNS, None) if start is None else (2, start.residuals["variances"])
        return Fitted(factors, joint.fit(logs, self.columns, chosen & ~np.isnan(logs), turns, variances))

    def logs(self, factors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log of published over forecast [rows]; nan where the software has no factors."""
        found = np.full(len(self.rows), np.nan)
        for software, values in factors.items():
            design = self.designs[software]
            seconds = sum(each.sum(axis=1) for each in design.seconds(values))
            found[self.places[software]] = design.measured - np.log(seconds)
        return found

    def unclocked(self, chosen: np.ndarray, factors: Mapping[str, np.ndarray]) -> np.ndarray:
        """The share of a step's time in operations whose clock none of the chosen rows has [rows]."""
        found = np.zeros(len(self.rows))
        for software, values in factors.items():
            design, its = self.designs[software], chosen[self.places[software]]
            known = set(design.clock[its][design.computed[its] > 0])
            computed, moved = design.seconds(values)
            apart = np.where(np.isin(design.clock, list(known)), 0.0, computed).sum(axis=1)
            found[self.places[software]] = apart / (computed + moved).sum(axis=1)
        return found


@dataclass(frozen=True)
class Forecasts:
    """Forecasts of rows that were left out: log of published over forecast, and the spreads that were stated."""

    rows: tuple[Row, ...]
    logs: np.ndarray
    sd_shared: np.ndarray
    sd_own: np.ndarray

    @property
    def sd(self) -> np.ndarray:
        """Log spread of each time."""
        return np.hypot(self.sd_shared, self.sd_own)

    def of(self, chosen: Callable[[Row], bool]) -> "Forecasts":
        """Those of some rows."""
        mask = np.array([chosen(row) for row in self.rows], dtype=bool)
        rows = tuple(row for row, its in zip(self.rows, mask, strict=True) if its)
        return Forecasts(rows, self.logs[mask], self.sd_shared[mask], self.sd_own[mask])

    @property
    def median_error(self) -> float:
        """Median of published over forecast, or its inverse, less one."""
        return float(np.expm1(np.median(np.abs(self.logs))))

    @property
    def within(self) -> float:
        """The factor within which 80 % of the forecasts were."""
        return float(np.exp(np.quantile(np.abs(self.logs), joint.INTERVAL)))

    @property
    def stated(self) -> float:
        """The median factor of the stated 80 % intervals."""
        return float(np.exp(np.median(self.sd) * ndtri(0.5 + joint.INTERVAL / 2)))

    @property
    def held(self) -> float:
        """Share of rows inside of their intervals."""
        return float(np.mean(np.abs(self.logs) <= self.sd * ndtri(0.5 + joint.INTERVAL / 2)))


def left_out(published: Published, group: Callable[[Row], str], whole: Fitted) -> Forecasts:
    """Leave out each group in turn, fit to the rest, forecast what was left out. `whole` is the fit to all rows."""
    groups = np.array([group(row) for row in published.rows])
    logs, shared, own = (np.full(len(groups), np.nan) for _ in range(3))
    for each in sorted(set(groups[published.device_bound])):
        found = published.fit(groups != each, whole)
        misses, unclocked = published.logs(found.factors), published.unclocked(groups != each, found.factors)
        for place in map(int, np.flatnonzero((groups == each) & ~np.isnan(misses) & published.device_bound)):
            row = published.rows[place]
            part = joint.residual(found.residuals[row.software], row.family, row.chip, row.peaks.chip_class)
            logs[place], own[place] = misses[place] - part.offset, math.hypot(part.sd_own, CLOCK_SD * unclocked[place])
            launch = found.factors[row.software][published.designs[row.software].names.index("launch")]
            launches = row.at_peaks.kernels * launch * math.exp(misses[place]) / row.seconds
            shared[place] = math.hypot(part.sd_shared, LAUNCH_SD * launches)
    kept = ~np.isnan(logs)
    chosen = tuple(row for row, its in zip(published.rows, kept, strict=True) if its)
    return Forecasts(chosen, logs[kept], shared[kept], own[kept])


def folds(rows: Sequence[Row], number: int) -> Callable[[Row], str]:
    """Models in so many groups, for `left_out`."""
    models = sorted({row.model for row in rows})
    place = {model: str(count % number) for count, model in enumerate(models)}
    return lambda row: place[row.model]


@dataclass(frozen=True)
class Pairs:
    """Pairs of chips on the same question, software and source: log ratios of time an example, and the spread."""

    published: np.ndarray
    forecast: np.ndarray
    sd: np.ndarray

    @property
    def within(self) -> float:
        """The factor within which 80 % of the forecast ratios were."""
        return float(np.exp(np.quantile(np.abs(self.published - self.forecast), joint.INTERVAL)))

    @property
    def stated(self) -> float:
        """The median factor of the stated 80 % intervals."""
        return float(np.exp(np.median(self.sd) * ndtri(0.5 + joint.INTERVAL / 2)))

    @property
    def held(self) -> float:
        """Share of pairs inside of their intervals."""
        return float(np.mean(np.abs(self.published - self.forecast) <= self.sd * ndtri(0.5 + joint.INTERVAL / 2)))

    @property
    def decided(self) -> np.ndarray:
        """Whether the chance of either to be faster is SURE at least."""
        return np.asarray(ndtr(np.abs(self.forecast) / self.sd) >= SURE)

    @property
    def wrong(self) -> float:
        """Share of the decided pairs whose other device was faster."""
        decided = self.decided
        return (
            float(np.mean(np.sign(self.forecast) != np.sign(self.published), where=decided)) if decided.any() else 0.0
        )

    @property
    def regret(self) -> float:
        """Mean share of time lost by taking the forecast's faster device of every pair, decided or not."""
        lost = np.where(np.sign(self.forecast) != np.sign(self.published), np.abs(self.published), 0.0)
        return float(np.expm1(lost).mean())


def pairs(found: Forecasts) -> Pairs:
    """Every pair of different chips on the same question, software and source."""
    groups: dict[tuple[str, str, str], list[int]] = {}
    for place, row in enumerate(found.rows):
        groups.setdefault((row.software, row.source_group, row.question), []).append(place)
    published, forecast, sd = [], [], []
    for places in groups.values():
        for number, a in enumerate(places):
            for b in places[:number]:
                one, other = found.rows[a], found.rows[b]
                if one.chip == other.chip:
                    continue
                ratio = math.log(one.seconds / one.batch / (other.seconds / other.batch))
                published.append(ratio)
                forecast.append(ratio - found.logs[a] + found.logs[b])
                sd.append(math.hypot(found.sd_own[a], found.sd_own[b]))
    return Pairs(np.array(published), np.array(forecast), np.array(sd))


LEFT_OUT: Mapping[str, Callable[[Sequence[Row]], Callable[[Row], str]]] = {
    "models": lambda rows: folds(rows, 8),
    # A chip that XLA's rows lack may still have rows of PyTorch.
    "a chip": lambda rows: lambda row: f"{row.chip} of XLA" if row.software == "xla" else row.chip,
    "a source": lambda rows: lambda row: row.source_group,
    "a family": lambda rows: lambda row: row.family,
}


def evaluations(published: Published, whole: Fitted) -> dict[str, Forecasts]:
    """Forecasts of all rows, by what was left out."""
    return {name: left_out(published, group(published.rows), whole) for name, group in LEFT_OUT.items()}


Card = dict[str, dict[str, dict[str, float]]]  # by software and what was left out


def scorecard(found: Mapping[str, Forecasts]) -> Card:
    """How good forecasts are, by software and what was left out: single times, and ratios of two chips."""
    card: Card = {}
    for software in sorted({row.software for row in found["models"].rows}):
        its: dict[str, dict[str, float]] = {}
        for name, every in found.items():
            chosen = every.of(lambda row, wanted=software: row.software == wanted)  # type: ignore[misc]
            if not chosen.rows:
                continue
            two = pairs(chosen)
            its[name] = {
                "rows": len(chosen.rows),
                "groups": len({LEFT_OUT[name](chosen.rows)(row) for row in chosen.rows}),
                **{each: round(getattr(chosen, each), 3) for each in ("median_error", "within", "stated", "held")},
            }
            if len(two.sd) >= FEW_PAIRS:
                its[name] |= {
                    "pairs": len(two.sd),
                    **{f"ratio_{each}": round(getattr(two, each), 3) for each in ("within", "stated", "held")},
                    "decided": round(float(two.decided.mean()), 3),
                    "wrong": round(two.wrong, 3),
                    "regret": round(two.regret, 4),
                }
        card[software] = its
    return card


FEW_PAIRS = 10  # below, nothing is stated of ratios


def host_times(published: Published, whole: Fitted) -> dict[str, dict[str, float]]:
    """Seconds that a host takes for a step and a kernel, and their log spread, by software.

    From steps whose device is done in HOST_SHARE of the published time.
    """
    logs, found = published.logs(whole.factors), {}
    for software in published.designs:
        its = {"step": HOST_STEP[software], "kernel": HOST_PRIOR.get(software, 0.0), "log_sd": HOST_SD}
        waited: dict[str, list[float]] = {}  # by device: each stands for a host
        for row, log in zip(published.rows, logs, strict=True):
            if row.software == software and row.host_bound and log > -math.log(HOST_SHARE):
                waited.setdefault(row.device, []).append(math.log(row.seconds / row.work.kernels))
        if software not in HOST_PRIOR:
            hosts = [float(np.median(each)) for each in waited.values()]
            its |= {"kernel": math.exp(float(np.mean(hosts))), "log_sd": max(HOST_SD, float(np.std(hosts)))}
        found[software] = its
    return found


def small_steps(published: Published, whole: Fitted) -> dict[str, float]:
    """How forecasts of PyTorch do where the host may decide: error, stated width, share of intervals that held.

    Each chip's and model's own published times count, as one source alone has small steps.
    """
    host, logs = host_times(published, whole), published.logs(whole.factors)
    errors, widths, held = [], [], []
    for row, log in zip(published.rows, logs, strict=True):
        if row.software not in ("eager", "torch.compile") or not (row.host_bound or row.seconds < SMALL):
            continue
        part = joint.residual(whole.residuals[row.software], row.family, row.chip, row.peaks.chip_class)
        its = host[row.software]
        device = row.seconds / math.exp(log) * math.exp(part.offset)
        low, middle, high = joint.interval(
            device, part.sd, its["step"] + its["kernel"] * row.work.kernels, its["log_sd"]
        )
        errors.append(abs(math.log(row.seconds / middle)))
        widths.append(math.log(high / low) / 2)
        held.append(low <= row.seconds <= high)
    return {
        "rows": len(errors),
        "median_error": round(float(np.expm1(np.median(errors))), 3),
        "within": round(float(np.exp(np.quantile(errors, joint.INTERVAL))), 3),
        "stated": round(float(np.exp(np.median(widths))), 3),
        "held": round(float(np.mean(held)), 3),
    }


SMALL = 5e-3  # seconds


def constants_of(published: Published, found: Fitted) -> dict[str, Any]:
    """What config/forecast_constants.json holds."""
    constants: dict[str, Any] = {
        "how": "Fitted by `make forecasts` to published times. factors: time over time at the sheet's peaks by class "
        "of work; launch: seconds a kernel. fitted: classes that published times have. families, chips: offset and "
        "spread of the log of time over forecast (joint.py). host: seconds a step and a kernel.",
    }
    host, clocks = host_times(published, found), dict[str, float]()  # of the first software that has the chip
    for software, design in published.designs.items():
        if platform_of(software) == "gpu":
            its = {name: value for name, value in zip(design.names, found.factors[software], strict=True)}
            its |= class_clocks(design, found.factors[software])
            for name, value in its.items():
                if "clock of " in name:
                    clocks.setdefault(name, float(f"{value:.4g}"))
    for software, design in published.designs.items():
        values = found.factors[software]
        computed, moved = design.seconds(values)
        parts = computed + moved
        shares = (parts / parts.sum(axis=1)[:, None]).sum(axis=0)
        np.add.at(shares, design.clock, computed / parts.sum(axis=1)[:, None])
        chips = {row.chip for row in published.rows if row.peaks.platform == platform_of(software)}
        residuals = dict(found.residuals[software])
        residuals["chips"] = {chip: its for chip, its in residuals["chips"].items() if chip in chips}
        constants[software] = {
            "factors": {name: value for name, value in clocks.items() if platform_of(software) == "gpu"}
            | {name: float(f"{value:.4g}") for name, value in zip(design.names, values, strict=True)},
            "fitted": [name for name, share in zip(design.names, shares, strict=True) if share > FITTED_FROM],
            "host": host[software],
            "timed": sorted({row.chip for row in published.rows if row.software == software}),
            **_rounded(residuals),
        }
    return constants


def platform_of(software: str) -> str:
    """gpu or tpu."""
    return "tpu" if software.endswith("TPU") else "gpu"


FITTED_FROM = 0.3  # sum of a class's shares in its rows' times, from which on its factor counts as fitted


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_rounded(each) for each in value]
    return float(f"{value:.5g}")


def read_scorecard(path: Path = SCORECARD) -> Card:
    """The committed scorecard."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write(constants: Mapping[str, Any], path: Path) -> None:
    """Write config/forecast_constants.json or the scorecard."""
    path.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    read_constants.cache_clear()

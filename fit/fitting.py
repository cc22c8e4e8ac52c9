"""Published times, and the fit of the forecasts' constants to them.

fit/data/published.csv has the published times, fit/data/digests.json the work of their programs. Factors
are fitted by least squares of log residuals for each software; n rows of a source weigh as much as √n. residuals.py
fits the residuals' parts, validation.py tests the fit.
"""

import gzip
import hashlib
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

import numpy as np

from fit.residuals import TURNS, Columns, fit
from fit.robust import Point, robust_logs
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow, hardware_rows
from whichdevice.forecast.time_model import (
    DENSE,
    DENSITY,
    LOW_POWER,
    MEASURED,
    Peaks,
    at_peaks,
    family_of,
    like,
    limits,
    log_density,
    pace_of,
    pace_sd,
    read_constants,
    software_of,
)
from whichdevice.forecast.work import Item, Kind, Software, Work
from whichdevice.study.tables.base import read_rows

DATA = Path(__file__).with_name("data")  # published times and traced work
PUBLISHED = DATA / "published.csv"
DIGESTS = DATA / "digests.json"
TRACES = DATA / "traces.json.gz"
# Framework and compute capability without a fast kernel for grouped convolutions: ResNeXt-101 takes a T4 2.2 times as
# long as in PyTorch in the same number format, a V100 0.9 times; ResNet-50, which has no groups, takes the T4 as long.
SLOW: dict[Kind, Kind] = {"grouped convolution": "slow grouped convolution"}
SLOW_BUILD = ("TensorFlow 1.15", "7.5")
SHEET = "sheet"  # the factor of what has none
ROBUST = 0.2  # log residual from which on a row counts less than its square
PULL = 0.1  # of the prior: so many log units of misfit for one of its spreads
LOW_POWER_CLOCK = 1.5  # how much longer operations take on a card of low power
LOW_POWER_SD = 0.2  # of the log of that
DENSITY_SLOPE, DENSITY_SD = 0.2, 0.15  # log of the clock of matrix units by the log of operations a watt
CLOCK_SPREAD = 0.15  # of chips of one class (log)
CLASS_HOLD = 0.35  # of chips that a class starts from: clocks spread by 0.07 within a class and 0.12 between classes

Prior = Mapping[str, tuple[float, float]]


def read_priors(path: Path = DATA / "priors.csv") -> Mapping[str, Prior]:
    """Where the factors of each software start, and how far (log) they are held there.

    With few rows of a class left out of a fit, that is what remains.
    """
    priors: dict[str, dict[str, tuple[float, float]]] = {}
    for line in read_rows(path):
        priors.setdefault(line["software"], {})[line["name"]] = float(line["value"]), float(line["spread"])
    return priors


PRIOR = read_priors()
HOST_SHARE = 0.6  # of a step that may wait for the host, up to which the device may take: then the host took the rest


@dataclass(frozen=True)
class Host:
    """What a software's host takes: seconds a step, seconds a kernel where none are fitted.

    Steps that took less than `bound` seconds a kernel may wait for it: they are no evidence for the device.
    """

    bound: float
    step: float
    kernel: float


# Published small steps of XLA are of TensorFlow 1.15 and 2, which took 15 to 30 µs a kernel; forecasts are for JAX,
# which launches a program in one call.
HOSTS = {
    "xla": Host(45e-6, 5e-4, 5e-6), "eager": Host(70e-6, 2e-4, 1e-5), "torch.compile": Host(15e-6, 3e-4, 6e-6)
}  # fmt: skip
HOST_OF_TPU = Host(0.0, 1e-3, 0.0)
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
    mode: str  # train or predict
    work: Work
    peaks: Peaks

    @property
    def chip(self) -> str:
        """The chip that is left out when a device is left out."""
        return self.peaks.chip

    @cached_property
    def software(self) -> str:
        """The name of its constants."""
        return software_of(self.work)

    @cached_property
    def family(self) -> str:
        """The family of its model."""
        return family_of(self.work, self.mode)

    @property
    def host_bound(self) -> bool:
        """Return whether the host may have taken longer than the device."""
        return self.seconds < HOSTS.get(self.software, HOST_OF_TPU).bound * self.work.kernels

    @property
    def author(self) -> str:
        """Who measured it: `dle_tf2_bert` and `dle_tf1_rn50` are one's."""
        return self.source_group.partition("_")[0]

    @cached_property
    def at_peaks(self) -> Mapping[str, float]:
        """Seconds at the sheet's peaks by class."""
        return at_peaks(self.work, self.peaks)


@cache
def sheet() -> Mapping[str, HardwareRow]:
    """The rows of the hardware sheet."""
    return hardware_rows()


def published_rows() -> list[Row]:
    """Every published time with the work of its step; raises StudyError where a program or device is missing."""
    programs = {key: Work.from_dict(digest) for key, digest in read_digests()["programs"].items()}
    peaks_of = {name: Peaks.of(row) for name, row in sheet().items() if row.kind != "cpu" and row.mem_bw_gbs}
    rows = []
    for line in read_rows(PUBLISHED):
        try:
            program, _, of_batch = line["program"].partition("@")
            work, peaks = programs[program], peaks_of[line["device"]]
        except KeyError as error:
            raise StudyError(f"{PUBLISHED.name}: {line['id']}: no {error.args[0]}; run `make forecasts`") from None
        model = f"{line['model']} {line['options'].replace('{}', '')} {line['sequence_length']}".strip()
        question = f"{model} {line['mode']} {line['precision']}"
        seconds, batch = float(line["step_ms"]) / 1e3, float(line["batch"] or 1)
        mode = line["mode"]
        if of_batch:
            work = work.scaled(batch / float(of_batch))
        framework, capability = SLOW_BUILD
        if line["framework"].startswith(framework) and sheet()[line["device"]].compute_capability == capability:
            items = (replace(item, kind=SLOW.get(item.kind, item.kind)) for item in work.items)
            work = replace(work, items=tuple(items))
        rows.append(Row(line["source_group"], line["device"], seconds, batch, model, question, mode, work, peaks))
    document = read_gzip(TRACES)
    for source, _, number, software, device, batch, milliseconds, *bandwidth in document["rows"]:
        _, model, size, mode, precision, traced, works, _, *layout = document["questions"][number]
        work = summed_work(works[software], software, batch / traced)
        question = " ".join(map(str, (model, size, mode, precision, *layout)))
        peaks = replace(peaks_of[device], bandwidth=bandwidth[0] * 1e9) if bandwidth else peaks_of[device]
        rows.append(Row(source, device, milliseconds / 1e3, batch, model, question, mode, work, peaks))
    return rows


def name_family(row: Row) -> str:
    """The letters that the name of one of timm's models begins with, behind whose weights it has, or the model."""
    if row.source_group != "timm":
        return row.model
    return re.split("[^a-z]", re.sub("^(tf|tv|legacy|timm|gluon|ssl|swsl|ig)_", "", row.model))[0]


def is_blind(row: Row) -> bool:
    """Whether no fit sees a row and no choice was made by it: of a quarter of the families of timm's names.

    A family is blind where the first byte of its SHA-256 is a multiple of four.
    """
    return row.source_group == "timm" and hashlib.sha256(name_family(row).encode()).digest()[0] % 4 == 0


def read_gzip(path: Path) -> Any:
    """What a compressed JSON file holds."""
    return json.loads(gzip.decompress(path.read_bytes()))


Line = TypeVar("Line")


def read_lines(kind: type[Line], path: Path) -> list[Line]:
    """Every line of a CSV file as a dataclass of pydantic, which has a default where a cell may be empty."""
    return [kind(**{name: text for name, text in row.items() if text}) for row in read_rows(path)]


def summed_work(items: Sequence[Sequence[Any]], software: Software, times: float = 1.0) -> Work:
    """The work of sums by kind (traces.py) at so many times the batch: as many kernels, each of so much more."""
    whole = (
        Item(kind, precision, operations / count, nbytes / count, count, None, *devices)
        for kind, precision, operations, nbytes, count, *devices in items
    )
    return Work("gpu", tuple(whole), software=software).scaled(times)


@cache
def read_digests(path: Path = DIGESTS) -> dict[str, Any]:
    """The committed work of the published times' programs."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


@dataclass(frozen=True)
class Design:
    """Seconds at the peaks of one software's rows, for the classes that have a factor: what a fit needs."""

    names: tuple[str, ...]
    at_peaks: np.ndarray  # [rows, names]; launches count kernels
    pace: np.ndarray  # [rows, names]: the place of the chip's clock or bandwidth among the names
    measured: np.ndarray  # [rows]: log seconds
    sources: np.ndarray  # [rows]: numbers
    classes: np.ndarray  # [names]: the class of chips of a clock, "" for other factors
    power: np.ndarray  # [names]: how much the chip of a clock lacks power, in its largest form; else 0
    density: np.ndarray  # [names]: of a clock of matrix units, log of its largest form's operations a watt; else 0
    centre: np.ndarray  # [names]: log of where each factor starts
    spread: np.ndarray  # [names]: how far (log) it is held there

    @classmethod
    def of(cls, rows: Sequence[Row], prior: Prior) -> "Design":
        """The rows of one software, whose factors start from `prior`."""
        classes: dict[str, str] = {}  # by pace of a chip
        largest: dict[str, Peaks] = {}  # its form of most power
        for row in sorted(rows, key=lambda row: -row.peaks.low_power):
            for name in row.at_peaks:
                of_chip = pace_of(row.chip, name)
                if of_chip:
                    classes[of_chip], largest[of_chip] = pace_of(row.peaks.class_of(of_chip), name), row.peaks
        names = [SHEET, *prior, *sorted(classes)]
        places = {name: place for place, name in enumerate(names)}
        known = dict.fromkeys(prior, 1.0)
        at_peaks, pace = np.zeros((len(rows), len(names))), np.zeros((len(rows), len(names)), dtype=int)
        for place, row in enumerate(rows):
            for name, seconds in row.at_peaks.items():
                column = places[like(name, known)]
                at_peaks[place, column] += seconds
                pace[place, column] = places[pace_of(row.chip, name) or SHEET]
        of_class = np.array([classes.get(name, "") for name in names])
        power = np.array([largest[name].low_power if "clock of" in name else 0.0 for name in names])
        dense = [log_density(largest[name].density) if name.startswith("matrix") else 0.0 for name in names]
        density = np.array(dense)
        centre = np.log([prior[name][0] if name in prior else 1.0 for name in names])
        centre += power * ~np.char.endswith(of_class, MEASURED) * math.log(LOW_POWER_CLOCK) + density * DENSITY_SLOPE
        spread = [prior[name][1] if name in prior else pace_sd(name, classes.get(name, "")) for name in names]
        spread[names.index(SHEET)] = 0.0
        return cls(
            tuple(names), at_peaks, pace, np.log([row.seconds for row in rows]),
            np.unique([row.source_group for row in rows], return_inverse=True)[1], of_class, power, density, centre,
            np.array(spread),
        )  # fmt: skip

    def seconds(self, factors: np.ndarray) -> np.ndarray:
        """Seconds by name [rows, names]."""
        return self.at_peaks * factors * factors[self.pace]

    def paces(self, chosen: np.ndarray) -> np.ndarray:
        """Return whether the chosen rows have work at each of the names' clocks and bandwidths [names]."""
        return (self.classes != "") & np.isin(np.arange(len(self.names)), self.pace[chosen][self.at_peaks[chosen] > 0])


def fit_factors(
    design: Design,
    chosen: np.ndarray,
    start: np.ndarray | None = None,
    clocks: Mapping[str, float] = MappingProxyType({}),
) -> np.ndarray:
    """Factors from the chosen rows [rows, of bool]: robust least squares of log residuals, held to a prior.

    n rows of a source weigh as much as √n. `start` are factors of a fit to nearly the same rows. A chip's clock is held
    to `clocks`, of other software, or else to that of its class.
    """
    names, classes = design.names, list(map(str, design.classes))
    columns = {name: getattr(design, name)[chosen] for name in ("at_peaks", "pace", "measured", "sources")}
    part = replace(design, **columns)
    weight = np.bincount(part.sources).astype(float)[part.sources] ** -0.5
    centre, spread = design.centre.copy(), design.spread.copy()
    for place, name in enumerate(names):
        if name in clocks:
            centre[place], spread[place] = math.log(clocks[name]), pace_sd(name, classes[place]) / 2
    hold = PULL**2 / np.maximum(spread, 1e-6) ** 2
    logs = centre.copy() if start is None else np.log(start)
    used = part.at_peaks > 0
    flat = np.nonzero(used)[0] * len(names) + part.pace[used]

    def at(logs: np.ndarray) -> Point:
        parts = part.seconds(np.exp(logs))
        seconds = parts.sum(axis=1)
        slope = parts / seconds[:, None]
        slope += np.bincount(flat, slope[used], slope.size).reshape(slope.shape)
        return np.log(seconds), slope

    logs = robust_logs(at, part.measured, weight, ROBUST, hold, centre, logs, 40 if start is None else 8)
    timed = design.paces(chosen)
    known = class_clocks(design, np.exp(logs), timed)
    for place in map(int, np.flatnonzero((design.classes != "") & ~timed & ~np.isin(names, list(clocks)))):
        of_class, power, density = classes[place], float(design.power[place]), DENSE * math.exp(design.density[place])
        logs[place] = math.log(known.get(of_class, 1.0) * limits(names[place], of_class, power, density, known))
    return np.asarray(np.exp(logs))


def class_clocks(design: Design, factors: np.ndarray, timed: np.ndarray) -> dict[str, float]:
    """The clocks and bandwidths of chips without published times: of each class, and how much low power takes.

    Least squares of the timed chips' logs: classes are held to zero, low power and density to what they start from.
    """
    clocks: dict[str, float] = {}
    kinds = np.array([str(name).partition(" of ")[0] for name in design.classes])
    for kind in sorted(set(kinds) - {""}):
        wanted = timed & (kinds == kind)
        names = sorted(set(design.classes[wanted]))
        if not names:
            continue
        measured = f"{kind} of {MEASURED}"
        of_class = (design.classes[wanted, None] == np.array(names)).astype(float)
        weak = design.power[wanted] * (design.classes[wanted] != measured)
        columns = np.column_stack([of_class, weak, design.density[wanted]])
        start = np.array([0.0] * len(names) + [math.log(LOW_POWER_CLOCK), DENSITY_SLOPE])
        hold = np.full(len(start), CLASS_HOLD)
        hold[-2:] = (CLOCK_SPREAD / LOW_POWER_SD) ** 2, (CLOCK_SPREAD / DENSITY_SD) ** 2
        square = columns.T @ columns + np.diag(hold)
        logs = np.linalg.solve(square, columns.T @ np.log(factors[wanted]) + hold * start)
        factors_of = dict(zip([*map(str, names), LOW_POWER, DENSITY], map(float, np.exp(logs)), strict=True))
        low, dense = factors_of.pop(LOW_POWER), factors_of.pop(DENSITY)
        clocks |= factors_of
        if "clock" in kind:
            clocks[f"{kind} of {LOW_POWER}"] = low
        if kind.startswith("matrix"):
            clocks[f"{kind} of {DENSITY}"] = dense
    return clocks


@dataclass(frozen=True)
class Fitted:
    """Factors by software, in the order of its design's names, and the parts of the residuals, of some rows."""

    factors: Mapping[str, np.ndarray]
    residuals: Mapping[str, Any]


class Published:
    """Published times as arrays, so that a fit without some of them takes milliseconds."""

    def __init__(self, rows: Sequence[Row], priors: Mapping[str, Prior] = PRIOR) -> None:
        self.rows = tuple(rows)
        self.software = np.array([row.software for row in rows])
        self.blind = np.array([is_blind(row) for row in rows])
        self.device_bound = ~np.array([row.host_bound for row in rows])
        self.places = {name: np.flatnonzero(self.software == name) for name in sorted(set(self.software))}
        self.designs = {
            name: Design.of([rows[int(place)] for place in places], priors[name])
            for name, places in self.places.items()
        }
        self.columns = Columns(rows)

    def fit(self, chosen: np.ndarray | None = None, start: Fitted | None = None) -> Fitted:
        """Fit everything to the chosen rows [rows, of bool]; `start` fits nearly the same rows: variances are kept.

        Factors and residuals take turns, so that a family that takes longer than its work says bends no factor.
        """
        seen = self.device_bound & ~self.blind
        chosen = seen if chosen is None else chosen & seen
        turns, variances = (TURNS, None) if start is None else (2, start.residuals["variances"])
        factors = self._factors(chosen, start.factors if start else {}, np.zeros(len(self.rows)))
        first = self._residuals(factors, chosen, turns if start is None else 1, variances)
        factors = self._factors(chosen, factors, self._of_families(first, chosen))
        return Fitted(factors, self._residuals(factors, chosen, turns, variances))

    def _residuals(
        self, factors: Mapping[str, np.ndarray], chosen: np.ndarray, turns: int, start: Mapping[str, float] | None
    ) -> dict[str, Any]:
        logs = self.logs(factors)
        return fit(logs, self.columns, chosen & ~np.isnan(logs), turns, start)

    def _factors(
        self, chosen: np.ndarray, start: Mapping[str, np.ndarray], offsets: np.ndarray
    ) -> dict[str, np.ndarray]:
        factors: dict[str, np.ndarray] = {}
        clocks: dict[str, float] = {}  # of the first software that has the chip
        for software, design in self.designs.items():
            wanted = chosen[self.places[software]]
            if wanted.any():
                design = replace(design, measured=design.measured - offsets[self.places[software]])
                factors[software] = fit_factors(design, wanted, start.get(software), clocks)
                for place in np.flatnonzero(design.paces(wanted)):
                    clocks.setdefault(design.names[place], float(factors[software][place]))
        return factors

    def _of_families(self, residuals: Mapping[str, Any], chosen: np.ndarray) -> np.ndarray:
        """Offsets of the rows' families around their software's mean [rows]."""
        of_rows = np.zeros(len(self.rows))
        for software, places in self.places.items():
            if software in residuals:
                known = residuals[software]["families"]
                offsets = np.array([known.get(self.rows[place].family, (0.0,))[0] for place in places])
                of_rows[places] = offsets - offsets[chosen[places]].mean()
        return of_rows

    def logs(self, factors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Log of published over forecast [rows]; nan where the software has no factors."""
        of_rows = np.full(len(self.rows), np.nan)
        for software, values in factors.items():
            design = self.designs[software]
            of_rows[self.places[software]] = design.measured - np.log(design.seconds(values).sum(axis=1))
        return of_rows

    def unclocked(self, chosen: np.ndarray, factors: Mapping[str, np.ndarray]) -> np.ndarray:
        """The log spread of a step's time by clocks and bandwidths that none of the chosen rows has [rows]."""
        of_rows = np.zeros(len(self.rows))
        timed = set()  # by any software
        for software, design in self.designs.items():
            timed |= set(np.array(design.names)[design.paces(chosen[self.places[software]])])
        for software, values in factors.items():
            design, parts = self.designs[software], self.designs[software].seconds(values)
            spreads = [
                pace_sd(name, str(of)) if of and name not in timed else 0.0
                for name, of in zip(design.names, design.classes, strict=True)
            ]
            squares = np.zeros(len(parts))
            for place in np.flatnonzero(spreads):
                squares += (spreads[place] * (parts * (design.pace == place)).sum(axis=1) / parts.sum(axis=1)) ** 2
            of_rows[self.places[software]] = np.sqrt(squares)
        return of_rows


def host_times(published: Published, logs: np.ndarray, chosen: np.ndarray) -> dict[str, dict[str, float]]:
    """Seconds that a host takes for a step and a kernel, and their log spread, by software, from the chosen rows.

    From steps whose device is done in HOST_SHARE of the published time; `logs` are of published over device time.
    """
    hosts = {}
    for software in published.designs:
        host = HOSTS.get(software, HOST_OF_TPU)
        rates = {"step": host.step, "kernel": host.kernel, "log_sd": HOST_SD}
        waited: dict[str, list[float]] = {}  # by device, each for a host
        for place in np.flatnonzero(chosen & ~published.device_bound & (published.software == software)):
            row = published.rows[place]
            if logs[place] > -math.log(HOST_SHARE):
                waited.setdefault(row.device, []).append(math.log(row.seconds / row.work.kernels))
        if waited and software == "eager":
            medians = [float(np.median(times)) for times in waited.values()]
            rates |= {"kernel": math.exp(float(np.mean(medians))), "log_sd": max(HOST_SD, float(np.std(medians)))}
        hosts[software] = rates
    return hosts


def constants_of(published: Published, fitted: Fitted, widths: Mapping[str, Mapping[str, float]]) -> dict[str, Any]:
    """Return what forecast/constants.json holds; `widths` are those that validation.py finds."""
    constants: dict[str, Any] = {
        "how": "Fitted by `make forecasts` to published times. factors: time over time at the sheet's peaks by class "
        "of work; launch: seconds a kernel. fitted: classes that published times have. families, chips: offset and "
        "spread of the log of time over forecast (joint.py); widths: how much wider a family is. "
        "host: seconds a step and a kernel."
    }
    host = host_times(published, published.logs(fitted.factors), np.ones(len(published.rows), dtype=bool))
    clocks: dict[str, float] = {}  # of the first software that has the chip
    first: dict[str, Design] = {}  # its rows
    for software, design in published.designs.items():
        if platform_of(software) == "gpu":
            factors = {name: value for name, value in zip(design.names, fitted.factors[software], strict=True)}
            every = np.ones(len(design.names), dtype=bool)
            factors |= class_clocks(design, fitted.factors[software], every)
            for name, value in factors.items():
                if name.partition(" of ")[0] in ("clock", "matrix clock", "bandwidth"):
                    clocks.setdefault(name, value)
                    first.setdefault(name, design)
    bare = {name: without_limits(first[name], name, value, clocks) for name, value in clocks.items()}
    for software, design in published.designs.items():
        values = fitted.factors[software]
        parts = design.seconds(values)
        parts /= parts.sum(axis=1)[:, None]
        shares = parts.sum(axis=0)
        np.add.at(shares, design.pace, parts)
        chips = {row.chip for row in published.rows if row.peaks.platform == platform_of(software)}
        residuals = dict(fitted.residuals[software])
        residuals["chips"] = {chip: part for chip, part in residuals["chips"].items() if chip in chips}
        constants[software] = {
            "factors": {name: value for name, value in bare.items() if platform_of(software) == "gpu"}
            | {
                name: without_limits(design, name, value, clocks)
                for name, value in zip(design.names, values, strict=True)
            },
            "fitted": [name for name, share in zip(design.names, shares, strict=True) if share > FITTED_FROM],
            "host": host[software],
            "timed": sorted({row.chip for row in published.rows if row.software == software}),
            **_rounded(residuals | {"widths": widths[software]}),
        }
    return constants


def without_limits(design: Design, name: str, value: float, factors: Mapping[str, float]) -> float:
    """Return a factor for the constants: a chip's clock's without the limits of the form that was timed."""
    place = design.names.index(name) if name in design.names else 0
    of_class, density = str(design.classes[place]), DENSE * math.exp(float(design.density[place]))
    if of_class and not of_class.endswith(MEASURED):
        value /= limits(name, of_class, float(design.power[place]), density, factors)
    return float(f"{value:.4g}")


def platform_of(software: str) -> str:
    """gpu or tpu."""
    return "tpu" if software.endswith("TPU") else "gpu"


FITTED_FROM = 0.3  # sum of a class's shares in its rows' times, from which on its factor counts as fitted


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(one) for name, one in value.items()}
    if isinstance(value, tuple):
        return [_rounded(one) for one in value]
    return float(f"{value:.5g}")


def write(constants: Mapping[str, Any], path: Path) -> None:
    """Write scripts/whichdevice/forecast/constants.json or the scorecard."""
    path.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    read_constants.cache_clear()

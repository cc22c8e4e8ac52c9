"""How good forecasts have been: constants fitted to published times, and tested on rows that the fit did not see.

config/forecast_published.csv has the published times, config/forecast_digests.json the work of their programs.
Constants are fitted by least squares of log residuals; n rows of a source weigh as much as √n. The test leaves out
whole groups (a source, a chip, a family of models, a chip and a family at once), fits to the rest and forecasts what
was left out. Half-widths of the 80 % intervals are quantiles of those residuals, each group with weight 1.
"""

import csv
import json
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import least_squares

from whichdevice.config.hardware import hardware_rows
from whichdevice.errors import StudyError
from whichdevice.files import CONFIG
from whichdevice.forecast.time_model import (
    CONSTANTS,
    Case,
    Peaks,
    chip_of,
    family_of,
    roofline_by_class,
    seconds_by_class,
)
from whichdevice.forecast.work import Platform, Work

PUBLISHED = CONFIG / "forecast_published.csv"
DIGESTS = CONFIG / "forecast_digests.json"
RESULTS = CONFIG / "forecast_results.csv"
COVERED = 0.8  # of the rows left out, by the interval
ROBUST = 0.2  # log residual from which on a row counts less than its square
SOURCES_OF_A_FAMILY = 2  # from which on a family counts as known
SIBLINGS = {"H200": "H100", "GH200": "H100", "A10G": "A10"}  # the same silicon: left out together

# Where a fit starts, and how far (log) it is held there; with few rows of a class left, that is what remains.
PRIOR: Mapping[Platform, Mapping[str, tuple[float, float]]] = {
    "gpu": {
        "memory": (1.35, 0.3),
        "launch": (6e-6, 0.7),
        "low power": (1.4, 0.3),
        "product float32": (1.4, 0.5),
        "product tf32": (1.4, 0.5),
        "product half": (1.4, 0.5),
        "convolution float32": (1.4, 0.5),
        "convolution tf32": (1.4, 0.5),
        "convolution half": (1.4, 0.5),
        "grouped convolution": (3.0, 0.5),
    },
    "tpu": {
        "memory": (1.4, 0.3),
        "launch": (1e-6, 0.7),
        "product": (1.2, 0.3),
        "collective": (1.2, 0.5),
        "transfer": (0.7, 0.5),
    },
}
SAME = {"gather and scatter": "memory", "transfer": "memory"}  # classes without a factor of their own
FIXED = {"collective": 1.3}  # no row of several GPUs: rings reach about three quarters of a link


@dataclass(frozen=True)
class Row:
    """One published time, the work of its program, and what the sheet says of its device."""

    id: str
    source_group: str
    device: str
    platform: Platform
    precision: str
    mode: str
    seconds: float
    framework_class: str  # S: the same kind of software (a compiled step), H: the same hardware with other software
    model: str
    program: str
    work: Work
    peaks: Peaks

    @property
    def chip(self) -> str:
        """What is left out together when a device is left out."""
        return SIBLINGS.get(chip_of(self.device), chip_of(self.device))

    @cached_property
    def family(self) -> str:
        """The family of its model, as a forecast at the sheet's peaks finds it."""
        prior = {name: value for name, (value, _) in PRIOR[self.platform].items()}
        parts = seconds_by_class(self.work, self.peaks, complete(prior))
        return family_of(self.work, sum(parts.values()), parts)

    @cached_property
    def roofline(self) -> dict[str, float]:
        """Seconds at the sheet's peaks by class; "kernels" is their number."""
        return roofline_by_class(self.work, self.peaks)


@dataclass(frozen=True)
class Evaluation:
    """Rows left out by one kind of group: log residual (published over forecast) of each, and what they come to."""

    rows: tuple[Row, ...]
    groups: tuple[str, ...]
    residuals: tuple[float, ...]

    @property
    def median_error(self) -> float:
        """Median of published over forecast, or its inverse, less one."""
        return math.expm1(float(np.median(np.abs(self.residuals))))

    @property
    def half_width(self) -> float:
        """Log of the factor that holds 80 % of the groups that were left out."""
        return half_width(self.residuals, self.groups)

    @property
    def coverage(self) -> float:
        """Share of rows within the half-width that the other groups' residuals give."""
        held = 0
        for group in set(self.groups):
            rest = [place for place, each in enumerate(self.groups) if each != group]
            width = half_width([self.residuals[place] for place in rest], [self.groups[place] for place in rest])
            held += sum(abs(r) <= width for r, each in zip(self.residuals, self.groups, strict=True) if each == group)
        return held / len(self.rows)


def published_rows(published: Path = PUBLISHED, digests: Path = DIGESTS) -> list[Row]:
    """Every published time with the work of its program; raises StudyError where a program or device is missing."""
    programs = {key: Work.from_dict(each) for key, each in read_digests(digests)["programs"].items()}
    sheet = hardware_rows()
    rows = []
    with published.open(encoding="utf-8", newline="") as file:
        for line in csv.DictReader(file):
            try:
                work, device = programs[line["program"]], sheet[line["device"]]
            except KeyError as error:
                raise StudyError(f"{published.name}: {line['id']}: no {error.args[0]}; run `make forecasts`") from None
            rows.append(
                Row(
                    id=line["id"],
                    source_group=line["source_group"],
                    device=line["device"],
                    platform=work.platform,
                    precision=line["precision"],
                    mode=line["mode"],
                    seconds=float(line["step_ms"]) / 1e3,
                    framework_class=line["class"],
                    model=line["model"],
                    program=line["program"],
                    work=work,
                    peaks=Peaks.of(device),
                )
            )
    return rows


def read_digests(path: Path = DIGESTS) -> dict[str, Any]:
    """The committed work of the published times' programs."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def complete(factors: Mapping[str, float]) -> dict[str, float]:
    """Fitted factors, also of classes that share one or keep the default."""
    whole = FIXED | dict(factors)
    for name, other in SAME.items():
        whole.setdefault(name, whole.get(other, 1.0))
    return whole


def fit(rows: Sequence[Row]) -> dict[str, float]:
    """Factors of one platform's rows: least squares of log residuals; n rows of a source weigh as much as √n."""
    prior = PRIOR[rows[0].platform]
    names = list(prior)
    plain, low_power = _columns(rows, names)
    counts = Counter(row.source_group for row in rows)
    weight = np.sqrt([counts[row.source_group] ** -0.5 for row in rows])
    measured = np.log([row.seconds for row in rows])
    start = np.log([prior[name][0] for name in names])
    spread = np.array([prior[name][1] for name in names])
    low = names.index("low power") if "low power" in names else None

    def residuals(logs: np.ndarray) -> np.ndarray:
        factors = np.exp(logs)
        seconds = plain @ factors + (low_power @ factors) * (factors[low] if low is not None else 0.0)
        misses = np.log(seconds) - measured
        soft = ROBUST * np.sign(misses) * np.sqrt(2 * (np.sqrt(1 + (misses / ROBUST) ** 2) - 1))
        return np.concatenate([weight * soft, PULL * (logs - start) / spread])

    found = least_squares(residuals, start)
    return {name: float(value) for name, value in zip(names, np.exp(found.x), strict=True)}


PULL = 0.1  # of the prior: so many log units of misfit for one of its spreads


def _columns(rows: Sequence[Row], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds at the peaks [rows × names], and those that low power lengthens."""
    plain, low_power = (np.zeros((len(rows), len(names))) for _ in range(2))
    for place, row in enumerate(rows):
        for name, seconds in row.roofline.items():
            within = low_power if name.endswith(" at low power") else plain
            known = "launch" if name == "kernels" else name.removesuffix(" at low power")
            known = known if known in names else SAME.get(known, known)
            if known in names:
                within[place, names.index(known)] += seconds
    return plain, low_power


def residual(row: Row, factors: Mapping[str, float]) -> float:
    """Log of published over forecast."""
    return math.log(row.seconds / sum(seconds_by_class(row.work, row.peaks, complete(factors)).values()))


def left_out(rows: Sequence[Row], group: Callable[[Row], str]) -> Evaluation:
    """Leave out each group in turn, fit to the rest, forecast what was left out."""
    groups = [group(row) for row in rows]
    found: dict[str, float] = {}
    for each in sorted(set(groups)):
        rest = [row for row, name in zip(rows, groups, strict=True) if name != each]
        factors = fit(rest)
        found |= {row.id: residual(row, factors) for row, name in zip(rows, groups, strict=True) if name == each}
    return Evaluation(tuple(rows), tuple(groups), tuple(found[row.id] for row in rows))


def left_out_with_chip_and_family(rows: Sequence[Row]) -> Evaluation:
    """For each chip and family, fit to the rows of other chips and other families alone."""
    cells = sorted({(row.chip, row.family) for row in rows})
    found: dict[str, float] = {}
    for chip, family in cells:
        rest = [row for row in rows if row.chip != chip and row.family != family]
        if rest:
            factors = fit(rest)
            found |= {row.id: residual(row, factors) for row in rows if (row.chip, row.family) == (chip, family)}
    kept = [row for row in rows if row.id in found]
    return Evaluation(tuple(kept), tuple(f"{row.chip} {row.family}" for row in kept), tuple(found[r.id] for r in kept))


def half_width(residuals: Sequence[float], groups: Sequence[str]) -> float:
    """The 0.8·(G + 1)-th of G groups, along the sorted absolute residuals, each group with weight 1."""
    counts = Counter(groups)
    ordered = sorted((abs(residual), 1 / counts[group]) for residual, group in zip(residuals, groups, strict=True))
    wanted, passed = min(COVERED * (len(counts) + 1), len(counts)), 0.0
    for size, weight in ordered:
        passed += weight
        if passed >= wanted - 1e-9:
            return size
    return ordered[-1][0]


def evaluations(rows: Sequence[Row]) -> dict[Case, Evaluation]:
    """By what is not known: nothing but the source, the device, the family, both."""
    return {
        "known": left_out(rows, lambda row: row.source_group),
        "device": left_out(rows, lambda row: row.chip),
        "family": left_out(rows, lambda row: row.family),
        "both": left_out_with_chip_and_family(rows),
    }


def widths_of(found: Mapping[Case, Evaluation]) -> dict[Case, float]:
    """Half-widths (log) by case; what is less known is never narrower."""
    known = found["known"].half_width
    device, family = max(known, found["device"].half_width), max(known, found["family"].half_width)
    return {"known": known, "device": device, "family": family, "both": max(device, family, found["both"].half_width)}


def constants_of(rows: Sequence[Row]) -> dict[str, Any]:
    """What config/forecast_constants.json holds of one platform: factors, widths, known chips and families."""
    sources: dict[str, set[str]] = {}
    for row in rows:
        sources.setdefault(row.family, set()).add(row.source_group)
    return {
        "factors": {name: float(f"{value:.4g}") for name, value in complete(fit(rows)).items()},
        "widths": {case: round(width, 4) for case, width in widths_of(evaluations(rows)).items()},
        "chips": sorted({chip_of(row.device) for row in rows}),
        "families": sorted(name for name, found in sources.items() if len(found) >= SOURCES_OF_A_FAMILY),
    }


def write_constants(rows: Sequence[Row], path: Path = CONSTANTS) -> None:
    """Fit both platforms and write config/forecast_constants.json."""
    found: dict[str, Any] = {
        "how": "Fitted by `make forecasts` to config/forecast_published.csv: least squares of log residuals, n rows of "
        "a source weigh as much as the root of n. factors: time over roofline time at sheet peaks by class of work; "
        "launch: seconds a kernel. widths: log of the 80 % interval's half-width by what is not known, from residuals "
        "with whole groups left out.",
    }
    for platform in PRIOR:
        found[platform] = constants_of([row for row in rows if row.platform == platform])
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def forecast_all(rows: Sequence[Row], constants: Mapping[str, Any]) -> dict[str, float]:
    """Forecast in milliseconds of each row, by these constants."""
    return {row.id: row.seconds * 1e3 / math.exp(residual(row, constants[row.platform]["factors"])) for row in rows}


def write_results(found: Mapping[str, float], path: Path = RESULTS) -> None:
    """Write config/forecast_results.csv: each row's forecast, so that a change of it is a change of a file."""
    lines = [f"{name},{value:.5g}" for name, value in found.items()]
    path.write_text("\n".join(["id,forecast_ms", *lines]) + "\n", encoding="utf-8")


def read_results(path: Path = RESULTS) -> dict[str, float]:
    """Read it back."""
    with path.open(encoding="utf-8", newline="") as file:
        return {line["id"]: float(line["forecast_ms"]) for line in csv.DictReader(file)}

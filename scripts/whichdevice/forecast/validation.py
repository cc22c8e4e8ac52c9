"""How good forecasts have been: constants fitted to published times, and tested on rows that the fit did not see.

config/forecast_published.csv has the published times, config/forecast_digests.json the work of their programs. Factors
are fitted by least squares of log residuals for each software; n rows of a source weigh as much as √n. The residuals'
parts are fitted by joint.py. A test leaves out whole groups (models, chips, sources, families), fits everything to the
rest and forecasts what was left out: single times, ratios of two devices, and which of two is faster.
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
from scipy.special import ndtr, ndtri

from whichdevice.config.hardware import hardware_rows
from whichdevice.errors import StudyError
from whichdevice.files import CONFIG
from whichdevice.forecast import joint
from whichdevice.forecast.time_model import (
    LAUNCH_SD,
    LOW,
    Peaks,
    chip_of,
    family_of,
    like,
    read_constants,
    roofline_by_class,
    seconds_by_class,
    software_of,
)
from whichdevice.forecast.work import Work

PUBLISHED = CONFIG / "forecast_published.csv"
DIGESTS = CONFIG / "forecast_digests.json"
SCORECARD = CONFIG / "forecast_scorecard.json"
ROBUST = 0.2  # log residual from which on a row counts less than its square
PULL = 0.1  # of the prior: so many log units of misfit for one of its spreads
SURE = 0.9  # chance from which on a comparison counts as decided
SIBLINGS = {"H200": "H100", "GH200": "H100", "A10G": "A10"}  # the same silicon: left out together

# Where a fit starts, and how far (log) it is held there; with few rows of a class left, that is what remains.
PRIOR: Mapping[str, Mapping[str, tuple[float, float]]] = {
    "xla": {
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
}
"""Of what the host takes: seconds a step and a kernel, and the log spread."""
HOST = {
    "xla": {"step": 3e-4, "kernel": 1e-6, "log_sd": 0.4},
    "xla on TPU": {"step": 1e-3, "kernel": 0.0, "log_sd": 0.7},
    "eager": {"step": 2e-4, "kernel": 6e-6, "log_sd": 0.4},
    "torch.compile": {"step": 2e-4, "kernel": 3e-6, "log_sd": 0.4},
}


@dataclass(frozen=True)
class Row:
    """One published time, the work of its program, and what the sheet says of its device."""

    id: str
    source_group: str
    device: str
    precision: str
    mode: str
    seconds: float
    batch: float
    model: str
    question: str  # what devices are compared on: model with options, mode and number format
    work: Work
    peaks: Peaks

    @property
    def chip(self) -> str:
        """What is left out together when a device is left out."""
        return SIBLINGS.get(chip_of(self.device), chip_of(self.device))

    @cached_property
    def software(self) -> str:
        """The name of its constants."""
        return software_of(self.work)

    @cached_property
    def family(self) -> str:
        """The family of its model."""
        return family_of(self.work)

    @cached_property
    def roofline(self) -> dict[str, float]:
        """Seconds at the sheet's peaks by class; "kernels" is their number."""
        return roofline_by_class(self.work, self.peaks)


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
            model = f"{line['model']} {line['options'].replace('{}', '')} {line['sequence_length']}".strip()
            rows.append(
                Row(
                    id=line["id"],
                    source_group=line["source_group"],
                    device=line["device"],
                    precision=line["precision"],
                    mode=line["mode"],
                    seconds=float(line["step_ms"]) / 1e3,
                    batch=float(line["batch"] or 1),
                    model=model,
                    question=f"{model} {line['mode']} {line['precision']}",
                    work=work,
                    peaks=Peaks.of(device),
                )
            )
    return rows


def read_digests(path: Path = DIGESTS) -> dict[str, Any]:
    """The committed work of the published times' programs."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def fit_factors(rows: Sequence[Row], start: Mapping[str, float] | None = None) -> dict[str, float]:
    """Factors of one software's rows: robust least squares of log residuals, held to a prior.

    n rows of a source weigh as much as √n. `start` are factors of a fit to nearly the same rows.
    """
    prior = PRIOR[rows[0].software]
    names = list(prior)
    plain, low_power = _columns(rows, names)
    counts = Counter(row.source_group for row in rows)
    weight = np.array([counts[row.source_group] ** -0.5 for row in rows])
    measured = np.log([row.seconds for row in rows])
    centre = np.log([prior[name][0] for name in names])
    hold = PULL**2 / np.array([max(prior[name][1], 1e-4) for name in names]) ** 2
    low = names.index("low power") if "low power" in names else None
    logs = np.log([start[name] for name in names]) if start else centre.copy()
    for _ in range(8 if start else 30):  # Gauss-Newton; a robust weight is one of the step before
        factors = np.exp(logs)
        slow = factors[low] if low is not None else 1.0
        by_name = (plain + low_power * slow) * factors
        seconds = by_name.sum(axis=1)
        slope = by_name / seconds[:, None]
        if low is not None:
            slope[:, low] = (low_power @ factors) * slow / seconds
        misses = np.log(seconds) - measured
        trust = weight / np.sqrt(1 + (misses / ROBUST) ** 2)
        square = slope.T @ (slope * trust[:, None]) + np.diag(hold)
        step = np.linalg.solve(square, slope.T @ (trust * misses) + hold * (logs - centre))
        logs = logs - np.clip(step, -0.7, 0.7)
        if np.abs(step).max() < 1e-4:
            break
    return {name: float(value) for name, value in zip(names, np.exp(logs), strict=True)}


def _columns(rows: Sequence[Row], names: Sequence[str]) -> tuple[np.ndarray, np.ndarray]:
    """Seconds at the peaks [rows × names], and those that low power lengthens."""
    plain, low_power = (np.zeros((len(rows), len(names))) for _ in range(2))
    known = dict.fromkeys(names, 1.0)
    for place, row in enumerate(rows):
        for name, seconds in row.roofline.items():
            within = low_power if name.endswith(LOW) else plain
            its = "launch" if name == "kernels" else like(name.removesuffix(LOW), known)
            within[place, names.index(its)] += seconds
    return plain, low_power


def logs_of(rows: Sequence[Row], factors: Mapping[str, Mapping[str, float]]) -> np.ndarray:
    """Log of published over forecast, by the factors of each software."""
    found = np.empty(len(rows))
    for software in {row.software for row in rows}:
        places = [place for place, row in enumerate(rows) if row.software == software]
        names = list(factors[software])
        plain, low_power = _columns([rows[place] for place in places], names)
        values = np.array([factors[software][name] for name in names])
        seconds = plain @ values + low_power @ values * factors[software].get("low power", 1.0)
        found[places] = np.log([rows[place].seconds for place in places]) - np.log(seconds)
    return found


def by_software(rows: Sequence[Row]) -> dict[str, list[Row]]:
    """Rows of each software."""
    found: dict[str, list[Row]] = {}
    for row in rows:
        found.setdefault(row.software, []).append(row)
    return dict(sorted(found.items()))


def observed(rows: Sequence[Row], logs: np.ndarray) -> joint.Observed:
    """Rows as joint.py fits them."""
    return joint.Observed(
        logs=logs,
        software=[row.software for row in rows],
        family=[row.family for row in rows],
        question=[row.question for row in rows],
        source=[row.source_group for row in rows],
        chip=[row.chip for row in rows],
        chip_class=[row.peaks.chip_class for row in rows],
    )


@dataclass(frozen=True)
class Fitted:
    """Factors by software and the parts of the residuals, of some rows."""

    factors: Mapping[str, Mapping[str, float]]
    residuals: Mapping[str, Any]


def fit(rows: Sequence[Row], start: Fitted | None = None) -> Fitted:
    """Fit everything; `start` is a fit to nearly the same rows, whose variances are then kept."""
    factors = {
        software: fit_factors(its, start.factors.get(software) if start else None)
        for software, its in by_software(rows).items()
    }
    seen = observed(rows, logs_of(rows, factors))
    if start is None:
        return Fitted(factors, joint.fit(seen))
    return Fitted(factors, joint.fit(seen, turns=3, start=start.residuals["variances"]))


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


def left_out(rows: Sequence[Row], group: Callable[[Row], str], whole: Fitted) -> Forecasts:
    """Leave out each group in turn, fit to the rest, forecast what was left out. `whole` is the fit to all rows."""
    groups = [group(row) for row in rows]
    logs, shared, own = (np.full(len(rows), np.nan) for _ in range(3))
    for each in sorted(set(groups)):
        found = fit([row for row, its in zip(rows, groups, strict=True) if its != each], whole)
        out = [
            place
            for place, (row, its) in enumerate(zip(rows, groups, strict=True))
            if its == each and row.software in found.factors
        ]
        chosen = [rows[place] for place in out]
        for place, row, miss in zip(out, chosen, logs_of(chosen, found.factors), strict=True):
            part = joint.residual(found.residuals[row.software], row.family, row.chip, row.peaks.chip_class)
            logs[place], own[place] = miss - part.offset, part.sd_own
            launches = row.roofline["kernels"] * found.factors[row.software]["launch"]
            shared[place] = math.hypot(part.sd_shared, LAUNCH_SD * launches * math.exp(miss) / row.seconds)
    kept = ~np.isnan(logs)
    chosen = [row for row, its in zip(rows, kept, strict=True) if its]
    return Forecasts(tuple(chosen), logs[kept], shared[kept], own[kept])


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
    "a chip": lambda rows: lambda row: row.chip,
    "a source": lambda rows: lambda row: row.source_group,
    "a family": lambda rows: lambda row: row.family,
}


def evaluations(rows: Sequence[Row], whole: Fitted) -> dict[str, Forecasts]:
    """Forecasts of all rows, by what was left out."""
    return {name: left_out(rows, group(rows), whole) for name, group in LEFT_OUT.items()}


def scorecard(found: Mapping[str, Forecasts]) -> dict[str, dict[str, dict[str, float]]]:
    """How good forecasts are, by software and what was left out: single times, and ratios of two chips."""
    card: dict[str, dict[str, dict[str, float]]] = {}
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


def constants_of(rows: Sequence[Row], found: Fitted) -> dict[str, Any]:
    """What config/forecast_constants.json holds."""
    constants: dict[str, Any] = {
        "how": "Fitted by `make forecasts` to config/forecast_published.csv. factors: time over roofline time at sheet "
        "peaks by class of work; launch: seconds a kernel. fitted: classes that published times have. Families, chips: "
        "offset and spread of the log of time over forecast (joint.py). host: seconds a step and a kernel.",
    }
    for software, its in by_software(rows).items():
        shares: Counter[str] = Counter()
        for row in its:
            parts = seconds_by_class(row.work, row.peaks, found.factors[software])
            shares.update({name: value / sum(parts.values()) for name, value in parts.items()})
        constants[software] = {
            "factors": {name: float(f"{value:.4g}") for name, value in found.factors[software].items()},
            "fitted": sorted(name for name, share in shares.items() if share > FITTED_FROM),
            "host": HOST[software],
            **_rounded(found.residuals[software]),
        }
    return constants


FITTED_FROM = 0.3  # sum of a class's shares in its rows' times, from which on its factor counts as fitted


def _rounded(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _rounded(each) for name, each in value.items()}
    if isinstance(value, tuple):
        return [_rounded(each) for each in value]
    return round(value, 5)


def read_scorecard(path: Path = SCORECARD) -> dict[str, dict[str, dict[str, float]]]:
    """The committed scorecard."""
    return dict(json.loads(path.read_text(encoding="utf-8")))


def write(constants: Mapping[str, Any], path: Path) -> None:
    """Write config/forecast_constants.json or the scorecard."""
    path.write_text(json.dumps(constants, indent=1) + "\n", encoding="utf-8")
    read_constants.cache_clear()

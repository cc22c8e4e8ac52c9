"""How far forecasts are off: one joint distribution of the times of all devices of a question.

    log(time / forecast) = family + question + source + chip + machine + rest

A family of models, the question itself (model, mode, number format) and the source (how somebody measures) are shared
by all devices of a question: they cancel in a ratio. A chip's part, that of the machine which a source measured on (a
card that is cooled well or not) and the rest are its own. Every part is a random effect of mean zero; a level with
published times has an offset, shrunk to zero the more the fewer they are, and the uncertainty that is left. Family,
question, source and rest have a variance for each software. `fit` finds offsets and variances by EM for restricted
maximum likelihood (Dempster, Rubin and Tsutakawa 1981); config/forecast_constants.json keeps them.

    found = residual(constants, "eager", "convolutions", "RTX 4090", "desktop")
    low, middle, high = interval(0.1, found.sd, host_time=0.02, host_log_sd=0.3)
    times = draws(rows, 2000, seed=0)         # [rows, 2000] step times of one question, in seconds

A step takes the larger of the device's and the host's time. The host's time is one value for all devices.
"""

import math
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri

INTERVAL = 0.8  # share of true times that an interval is meant to hold


@dataclass(frozen=True)
class Residual:
    """Log of time over forecast for one device: its mean, and the spreads that devices share and do not share."""

    offset: float
    sd_shared: float
    sd_own: float

    @property
    def sd(self) -> float:
        """Of both together."""
        return math.hypot(self.sd_shared, self.sd_own)


def residual(fitted: Mapping[str, Any], family: str, chip: str, chip_class: str) -> Residual:
    """The residual of one software's forecast for a new question on a chip; `fitted` is that software's constants."""
    offset, family_sd = fitted["families"].get(family, fitted["family"])
    chip_offset, chip_sd = fitted["chips"].get(chip) or fitted["classes"].get(chip_class, fitted["class"])
    variances = fitted["variances"]
    shared = family_sd**2 + variances["question"] + variances["source"]
    own = chip_sd**2 + variances["machine"] + variances["rest"]
    return Residual(offset + chip_offset, math.sqrt(shared), math.sqrt(own))


def interval(
    device_time: float, log_sd: float, host_time: float = 0.0, host_log_sd: float = 0.0, share: float = INTERVAL
) -> tuple[float, float, float]:
    """Lower end, median and upper end of a step's time in seconds: the larger of the device's and the host's time."""
    if not host_time:
        half = math.exp(log_sd * float(ndtri(0.5 + share / 2)))
        return device_time / half, device_time, device_time * half
    middles, sds = np.log([device_time, host_time]), np.maximum([log_sd, host_log_sd], 1e-9)
    grid = np.linspace((middles - 5 * sds).min(), (middles + 5 * sds).max(), 4001)
    below = np.prod(ndtr((grid[:, None] - middles) / sds), axis=1)
    low, middle, high = np.exp(np.interp([0.5 - share / 2, 0.5, 0.5 + share / 2], below, grid))
    return float(low), float(middle), float(high)


def draws(rows: Sequence[Mapping[str, Any]], n: int, seed: int = 0) -> np.ndarray:
    """Step times in seconds [rows, n] from the joint distribution of one question's forecasts.

    A row has device_time, log_sd_shared, log_sd_own, software, chip, host_time and host_log_sd, as table `forecasts`
    has them. Rows of one software share one part, rows of one chip and software the other, all the host's. A row's
    draws depend on its own values and the seed alone.
    """

    def normal(*key: object) -> np.ndarray:
        order = np.random.default_rng([seed, zlib.crc32(repr(key).encode())]).permutation(-(-n // 2))
        half = ndtri((order + 0.5) / len(order))  # a Latin hypercube: few draws have right quantiles
        return np.concatenate([half, -half])[:n]  # each with its mirror image, so that medians are exact

    times = np.empty((len(rows), n))
    for place, row in enumerate(rows):
        logs = row["log_sd_shared"] * normal("shared", row["software"])
        logs = logs + row["log_sd_own"] * normal("own", row["software"], row["chip"])
        times[place] = row["device_time"] * np.exp(logs)
        host = row.get("host_time")
        if host and host == host:
            spread = row.get("host_log_sd") or 0.0
            times[place] = np.maximum(times[place], host * np.exp(spread * normal("host", row["software"])))
    return times


def ratio_interval(times: np.ndarray, first: int, second: int, share: float = INTERVAL) -> tuple[float, float, float]:
    """Lower end, median and upper end of the first row's time over the second's, from draws."""
    ends = np.quantile(times[first] / times[second], [0.5 - share / 2, 0.5, 0.5 + share / 2])
    return float(ends[0]), float(ends[1]), float(ends[2])


# Fitting

# Standard deviations (log) that a fit starts from. PRIOR_LEVELS levels of this spread count beside a part's own levels.
START = {
    "family": 0.1,
    "question": 0.12,
    "source": 0.1,
    "class": 0.15,
    "chip": 0.1,
    "chip of software": 0.06,
    "machine": 0.06,
    "rest": 0.1,
}
PRIOR_LEVELS = 3.0
OF_SOFTWARE = (
    "family",
    "question",
    "source",
    "rest",
)  # parts with a variance for each software; the others have one for all
CENTRE = 0.3  # spread of a software's mean, which its factors leave near zero
OUTLIER = 2.5  # spreads of a software's logs from their median; what is beyond counts as that far
TURNS = 60  # of EM


class Columns:
    """What each of some published times belongs to, as a matrix of the levels that questions share."""

    def __init__(
        self,
        software: Sequence[str],
        family: Sequence[str],
        question: Sequence[str],
        source: Sequence[str],
        chip: Sequence[str],
        chip_class: Sequence[str],
    ) -> None:
        self.softwares = sorted(set(software))
        self.chips = dict(zip(chip, chip_class, strict=True))
        rows = [
            [
                ("centre", of),
                ("family", its_family, of),
                ("source", its_source, of),
                ("class", its_class),
                ("chip", its_chip),
                ("chip of software", its_chip, of),
                ("machine", its_source, its_chip),
            ]
            for of, its_family, its_source, its_chip, its_class in zip(
                software, family, source, chip, chip_class, strict=True
            )
        ]
        self.names: list[tuple[str, ...]] = sorted({each for row in rows for each in row})
        self.variances = [f"{name[0]}|{name[2]}" if name[0] in OF_SOFTWARE else name[0] for name in self.names]
        place = {name: number for number, name in enumerate(self.names)}
        columns = [place[each] for row in rows for each in row]
        starts = np.arange(0, len(columns) + 1, len(rows[0]))
        self.design = csr_array((np.ones(len(columns)), columns, starts), (len(rows), len(place)))
        asked = sorted(set(zip(software, question, strict=True)))
        number = {each: place for place, each in enumerate(asked)}
        self.question = np.array([number[each] for each in zip(software, question, strict=True)])
        order = {each: place for place, each in enumerate(self.softwares)}
        self.software = np.array([order[each] for each in software])
        self.software_of_question = np.array([order[each[0]] for each in asked])


def fit(
    logs: np.ndarray, columns: Columns, chosen: np.ndarray, turns: int = TURNS, start: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Find offsets and variances from the chosen rows' logs of time over forecast [rows].

    Returns {"variances": {part: variance}} and for each software what `residual` takes. A part of OF_SOFTWARE has the
    name `part|software` among the variances. `start` are variances of an earlier fit.
    """
    variances = dict(start or {})
    for part, sd in START.items():
        for key in [f"{part}|{each}" for each in columns.softwares] if part in OF_SOFTWARE else [part]:
            variances.setdefault(key, sd**2)
    variances["centre"] = CENTRE**2
    design, member, of_row = columns.design[chosen], columns.question[chosen], columns.software[chosen]
    logs, of_question = logs[chosen], columns.software_of_question
    for number in range(len(columns.softwares)):
        its = logs[of_row == number]
        if len(its):
            middle = np.median(its)
            far = OUTLIER * 1.4826 * np.median(np.abs(its - middle))
            logs[of_row == number] = np.clip(its, middle - far, middle + far)
    seen = design.sum(axis=0) > 0
    design = design[:, seen]
    keys = [key for key, its in zip(columns.variances, seen, strict=True) if its]
    size = np.bincount(member, minlength=len(of_question)).astype(float)
    rows = np.arange(len(member))
    sums = (csr_array((np.ones(len(member)), (member, rows)), (len(of_question), len(member))) @ design).toarray()
    total = np.bincount(member, logs, minlength=len(of_question))
    asked = size > 0
    for _ in range(turns):
        noise = np.array([variances[f"rest|{each}"] for each in columns.softwares])
        wide = np.array([variances[f"question|{each}"] for each in columns.softwares])
        rest, rest_q, own = noise[of_row], noise[of_question], wide[of_question]
        pull = own / (rest_q + size * own)  # what a question's offset takes of the sum of its residuals
        square = (design.T @ (design / rest[:, None])).toarray() - sums.T @ (sums * (pull / rest_q)[:, None])
        covariance = np.linalg.inv(square + np.diag([1 / variances[key] for key in keys]))
        effects = covariance @ (design.T @ (logs / rest) - sums.T @ (total * pull / rest_q))
        offset = pull * (total - sums @ effects)
        within = own * rest_q / (rest_q + size * own)
        through = sums @ covariance
        pulled = pull**2 * (through * sums).sum(axis=1)
        spread = within + pulled
        left = logs - design @ effects - offset[member]
        alone = (design * (design @ covariance - (2 * pull[:, None] * through)[member])).sum(axis=1)
        left_spread = alone + pulled[member] + within[member]
        squares: dict[str, list[float]] = {}
        for key, value in zip(keys, effects**2 + np.diag(covariance), strict=True):
            squares.setdefault(key, []).append(value)
        for number, software in enumerate(columns.softwares):
            squares[f"question|{software}"] = list((offset**2 + spread)[(of_question == number) & asked])
            squares[f"rest|{software}"] = list((left**2 + left_spread)[of_row == number])
        for key, values in squares.items():
            if key != "centre":
                first = START[key.split("|")[0]] ** 2
                variances[key] = (sum(values) + PRIOR_LEVELS * first) / (len(values) + PRIOR_LEVELS)
    names = [name for name, its in zip(columns.names, seen, strict=True) if its]
    return {"variances": variances} | {
        software: _of_software(software, names, effects, covariance, variances, columns.chips)
        for number, software in enumerate(columns.softwares)
        if (of_row == number).any()
    }


def _of_software(
    software: str,
    names: Sequence[tuple[str, ...]],
    effects: np.ndarray,
    covariance: np.ndarray,
    variances: Mapping[str, float],
    chips: Mapping[str, str],
) -> dict[str, Any]:
    """Offsets and spreads of one software; a chip's are of its class, itself and itself with the software."""

    def combined(*wanted: tuple[str, ...], also: float = 0.0) -> tuple[float, float]:
        chosen = np.array([name in wanted for name in names], dtype=float)
        return float(chosen @ effects), math.sqrt(float(chosen @ covariance @ chosen) + also)

    def variance(part: str) -> float:
        return variances[f"{part}|{software}" if part in OF_SOFTWARE else part]

    centre = ("centre", software)
    families = sorted({name[1] for name in names if name[0] == "family" and name[2] == software})
    of_chips, classes = {}, {}
    for chip, its in sorted((chip, its) for chip, its in chips.items() if ("chip", chip) in names):
        with_software = ("chip of software", chip, software)
        also = 0.0 if with_software in names else variances["chip of software"]
        of_chips[chip] = combined(("class", its), ("chip", chip), with_software, also=also)
    for its in sorted({name[1] for name in names if name[0] == "class"}):
        classes[its] = combined(("class", its), also=variances["chip"] + variances["chip of software"])
    return {
        "variances": {part: variance(part) for part in ("question", "source", "machine", "rest")},
        "families": {each: combined(centre, ("family", each, software)) for each in families},
        "family": combined(centre, also=variance("family")),
        "chips": of_chips,
        "classes": classes,
        "class": (0.0, math.sqrt(sum(variances[part] for part in ("class", "chip", "chip of software")))),
    }

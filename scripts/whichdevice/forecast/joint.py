"""How far forecasts are off: one joint distribution of the times of all devices of a question.

    log(time / forecast) = family + question + source + chip + rest

A family of models, the question itself (model, mode, number format) and the source (how somebody measures) are shared
by all devices of a question: they cancel in a ratio. A chip's part and the rest are its own. Every part is a random
effect of mean zero; a level with published times has an offset, shrunk to zero the more the fewer they are, and the
uncertainty that is left. Family, question and rest have a variance for each software. `fit` finds offsets and variances
by EM for restricted maximum likelihood (Dempster, Rubin and Tsutakawa 1981); config/forecast_constants.json keeps them.

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
from scipy.special import ndtr, ndtri

INTERVAL = 0.8  # share of true times that an interval is meant to hold
SHARED = ("family", "question", "source")


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
    return Residual(offset + chip_offset, math.sqrt(shared), math.sqrt(chip_sd**2 + variances["rest"]))


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


def chances_of_least(values: np.ndarray) -> np.ndarray:
    """The chance of each row [rows] to have the least value [rows, n]: times give the fastest, costs the cheapest."""
    found = np.bincount(values.argmin(axis=0), minlength=len(values))
    return np.asarray(found / values.shape[1])


# Fitting

# Standard deviations (log) that a fit starts from. PRIOR_LEVELS levels of this spread count beside a part's own levels.
START = {
    "family": 0.1,
    "question": 0.12,
    "source": 0.1,
    "class": 0.15,
    "chip": 0.1,
    "chip of software": 0.06,
    "rest": 0.1,
}
PRIOR_LEVELS = 3.0
OF_SOFTWARE = ("family", "question", "rest")  # parts with a variance for each software; the others have one for all
CENTRE = 0.3  # spread of a software's mean, which its factors leave near zero
TURNS = 60  # of EM


@dataclass(frozen=True)
class Observed:
    """Published times: log of time over forecast of each, and what each belongs to."""

    logs: np.ndarray
    software: Sequence[str]
    family: Sequence[str]
    question: Sequence[str]
    source: Sequence[str]
    chip: Sequence[str]
    chip_class: Sequence[str]


def fit(rows: Observed, turns: int = TURNS, start: Mapping[str, float] | None = None) -> dict[str, Any]:
    """Find offsets and variances: {"variances": {part: variance}, software: {"variances": ..., "effects": ...}}.

    A part of OF_SOFTWARE has the name `part|software` among the variances. `start` are variances of an earlier fit.
    """
    n = len(rows.logs)
    levels = [
        [
            ("centre", software),
            ("family", family, software),
            ("source", source, software),
            ("class", chip_class),
            ("chip", chip),
            ("chip of software", chip, software),
        ]
        for software, family, source, chip, chip_class in zip(
            rows.software, rows.family, rows.source, rows.chip, rows.chip_class, strict=True
        )
    ]
    names = sorted({each for row in levels for each in row})
    place = {name: number for number, name in enumerate(names)}
    design = np.zeros((n, len(names)))
    for row, its in enumerate(levels):
        design[row, [place[each] for each in its]] = 1.0
    variance_of = [f"family|{name[2]}" if name[0] == "family" else name[0] for name in names]
    softwares = sorted(set(rows.software))
    variances = dict(start or {})
    for part, sd in START.items():
        for key in [f"{part}|{each}" for each in softwares] if part in OF_SOFTWARE else [part]:
            variances.setdefault(key, sd**2)
    variances["centre"] = CENTRE**2
    asked = sorted(set(zip(rows.software, rows.question, strict=True)))
    number = {each: place for place, each in enumerate(asked)}
    member = np.array([number[each] for each in zip(rows.software, rows.question, strict=True)])
    size = np.bincount(member).astype(float)
    of_row, of_question = np.array(rows.software), np.array([each[0] for each in asked])
    sums = np.zeros((len(asked), len(names)))
    np.add.at(sums, member, design)
    total = np.bincount(member, rows.logs)
    for _ in range(turns):
        rest = np.array([variances[f"rest|{each}"] for each in of_row])
        rest_q = np.array([variances[f"rest|{each}"] for each in of_question])
        own = np.array([variances[f"question|{each}"] for each in of_question])
        pull = own / (rest_q + size * own)  # what a question's offset takes of the sum of its residuals
        prior = np.diag([1 / variances[each] for each in variance_of])
        weighted = design / rest[:, None]
        information = design.T @ weighted - (sums * (pull / rest_q)[:, None]).T @ sums + prior
        covariance = np.linalg.inv(information)
        effects = covariance @ (weighted.T @ rows.logs - sums.T @ (total * pull / rest_q))
        offset = pull * (total - sums @ effects)
        unknown = np.diag(covariance)
        spread = own * rest_q / (rest_q + size * own) + pull**2 * np.einsum("ij,jk,ik->i", sums, covariance, sums)
        left = rows.logs - design @ effects - offset[member]
        seen = design - pull[member][:, None] * sums[member]
        left_spread = np.einsum("ij,jk,ik->i", seen, covariance, seen) + (own * rest_q / (rest_q + size * own))[member]
        found: dict[str, list[np.ndarray]] = {}
        for column, key in enumerate(variance_of):
            found.setdefault(key, []).append(np.array([effects[column] ** 2 + unknown[column]]))
        for each in softwares:
            found[f"question|{each}"] = [(offset**2 + spread)[of_question == each]]
            found[f"rest|{each}"] = [(left**2 + left_spread)[of_row == each]]
        for key, squares in found.items():
            if key != "centre":
                first, values = START[key.split("|")[0]] ** 2, np.concatenate(squares)
                variances[key] = float((values.sum() + PRIOR_LEVELS * first) / (len(values) + PRIOR_LEVELS))
    return {"variances": variances} | {
        each: _of_software(each, names, effects, covariance, variances, rows) for each in softwares
    }


def _of_software(
    software: str,
    names: Sequence[tuple[str, ...]],
    effects: np.ndarray,
    covariance: np.ndarray,
    variances: Mapping[str, float],
    rows: Observed,
) -> dict[str, Any]:
    """Offsets and spreads of one software; a chip's are of its class, itself and itself with the software."""

    def combined(*wanted: tuple[str, ...], also: float = 0.0) -> tuple[float, float]:
        chosen = np.array([name in wanted for name in names], dtype=float)
        return float(chosen @ effects), math.sqrt(float(chosen @ covariance @ chosen) + also)

    def variance(part: str) -> float:
        return variances[f"{part}|{software}" if part in OF_SOFTWARE else part]

    centre = ("centre", software)
    families = sorted({name[1] for name in names if name[0] == "family" and name[2] == software})
    chips = dict(zip(rows.chip, rows.chip_class, strict=True))
    of_chips, classes = {}, {}
    for chip, its in sorted(chips.items()):
        with_software = ("chip of software", chip, software)
        also = 0.0 if with_software in names else variances["chip of software"]
        of_chips[chip] = combined(("class", its), ("chip", chip), with_software, also=also)
    for its in sorted(set(chips.values())):
        classes[its] = combined(("class", its), also=variances["chip"] + variances["chip of software"])
    return {
        "variances": {part: variance(part) for part in ("question", "source", "rest")},
        "families": {each: combined(centre, ("family", each, software)) for each in families},
        "family": combined(centre, also=variance("family")),
        "chips": of_chips,
        "classes": classes,
        "class": (0.0, math.sqrt(sum(variances[part] for part in ("class", "chip", "chip of software")))),
    }

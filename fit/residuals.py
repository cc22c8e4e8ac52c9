"""Fits the parts of whichdevice/forecast/joint.py to logs of published time over forecast.

Offsets and variances are found by EM for restricted maximum likelihood (Dempster, Rubin and Tsutakawa 1981).
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array

# Standard deviations (log) that a fit starts from. PRIOR_LEVELS levels of this spread count beside a part's own levels.
START = {"family": 0.1, "question": 0.12, "author": 0.1, "source": 0.05, "class": 0.15, "chip": 0.117,
         "machine": 0.06, "rest": 0.1}  # fmt: skip
PRIOR_LEVELS = 3.0
# Parts that have a variance for each software; the others have one for all.
OF_SOFTWARE = ("family", "question", "author", "source", "rest")
CENTRE = 0.3  # spread of a software's mean, which its factors leave near zero
OUTLIER = 2.5  # spreads of a software's logs from their median; what is beyond counts as that far
TURNS = 60  # of EM


class Columns:
    """The groups that published times belong to, as a matrix of the levels that questions share."""

    def __init__(self, rows: Sequence[Any]) -> None:
        """Take fitting.py's rows."""
        software = [row.software for row in rows]
        self.softwares = sorted(set(software))
        self.chips = {row.chip: row.peaks.chip_class for row in rows}
        levels = [
            [
                ("centre", row.software),
                ("family", row.family, row.software),
                ("author", row.author, row.software),
                ("source", row.source_group, row.software),
                ("class", row.peaks.chip_class),
                ("chip", row.chip),
                ("machine", row.source_group, row.chip),
            ]
            for row in rows
        ]
        self.names: list[tuple[str, ...]] = sorted({name for row in levels for name in row})
        self.variances = [f"{name[0]}|{name[2]}" if name[0] in OF_SOFTWARE else name[0] for name in self.names]
        place = {name: number for number, name in enumerate(self.names)}
        columns = [place[name] for row in levels for name in row]
        starts = np.arange(0, len(columns) + 1, len(levels[0]))
        self.design = csr_array((np.ones(len(columns)), columns, starts), (len(rows), len(place)))
        asked = sorted({(row.software, row.question) for row in rows})
        number = {name: place for place, name in enumerate(asked)}
        self.source = np.unique([f"{row.software} {row.source_group}" for row in rows], return_inverse=True)[1]
        self.question = np.array([number[row.software, row.question] for row in rows])
        order = {name: place for place, name in enumerate(self.softwares)}
        self.software = np.array([order[name] for name in software])
        self.software_of_question = np.array([order[name[0]] for name in asked])


def fit(
    logs: np.ndarray, columns: Columns, chosen: np.ndarray, turns: int = TURNS, start: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Find offsets and variances from the chosen rows' logs of time over forecast [rows].

    Returns {"variances": {part: variance}} and for each software what `residual` takes. A part of OF_SOFTWARE has the
    name `part|software` among the variances. `start` are variances of an earlier fit. n rows of a source weigh as much
    as √n in what rows and questions spread.
    """
    variances = dict(start or {})
    for part, sd in START.items():
        for key in [f"{part}|{software}" for software in columns.softwares] if part in OF_SOFTWARE else [part]:
            variances.setdefault(key, sd**2)
    variances["centre"] = CENTRE**2
    design, member, of_row = columns.design[chosen], columns.question[chosen], columns.software[chosen]
    logs, of_question = logs[chosen], columns.software_of_question
    for number in range(len(columns.softwares)):
        of_software = logs[of_row == number]
        if len(of_software):
            middle = np.median(of_software)
            far = OUTLIER * 1.4826 * np.median(np.abs(of_software - middle))
            logs[of_row == number] = np.clip(of_software, middle - far, middle + far)
    seen = design.sum(axis=0) > 0
    design = design[:, seen]
    keys = [key for key, is_seen in zip(columns.variances, seen, strict=True) if is_seen]
    size = np.bincount(member, minlength=len(of_question)).astype(float)
    rows = np.arange(len(member))
    sums = (csr_array((np.ones(len(member)), (member, rows)), (len(of_question), len(member))) @ design).toarray()
    total = np.bincount(member, logs, minlength=len(of_question))
    asked = size > 0
    weight = np.bincount(columns.source[chosen])[columns.source[chosen]] ** -0.5
    of_asked = np.bincount(member, weight, minlength=len(of_question)) / np.maximum(size, 1.0)
    for _ in range(turns):
        noise = np.array([variances[f"rest|{software}"] for software in columns.softwares])
        wide = np.array([variances[f"question|{software}"] for software in columns.softwares])
        rest, rest_q, wide_q = noise[of_row], noise[of_question], wide[of_question]
        pull = wide_q / (rest_q + size * wide_q)  # what a question's offset takes of the sum of its residuals
        square = (design.T @ (design / rest[:, None])).toarray() - sums.T @ (sums * (pull / rest_q)[:, None])
        covariance = np.linalg.inv(square + np.diag([1 / variances[key] for key in keys]))
        effects = covariance @ (design.T @ (logs / rest) - sums.T @ (total * pull / rest_q))
        offset = pull * (total - sums @ effects)
        within = wide_q * rest_q / (rest_q + size * wide_q)
        through = sums @ covariance
        pulled = pull**2 * (through * sums).sum(axis=1)
        spread = within + pulled
        left = logs - design @ effects - offset[member]
        alone = (design * (design @ covariance - (2 * pull[:, None] * through)[member])).sum(axis=1)
        left_spread = alone + pulled[member] + within[member]
        by_part: dict[str, list[float]] = {}
        for key, value in zip(keys, effects**2 + np.diag(covariance), strict=True):
            by_part.setdefault(key, []).append(value)
        squares = {key: (float(np.mean(values)), len(values)) for key, values in by_part.items()}
        for number, software in enumerate(columns.softwares):
            questions, of_rows = (of_question == number) & asked, of_row == number
            if questions.any():
                mean = np.average((offset**2 + spread)[questions], weights=of_asked[questions])
                squares[f"question|{software}"] = float(mean), int(questions.sum())
                mean = np.average((left**2 + left_spread)[of_rows], weights=weight[of_rows])
                squares[f"rest|{software}"] = float(mean), int(of_rows.sum())
        for key, (mean, number) in squares.items():
            if key != "centre":
                first = START[key.split("|")[0]] ** 2
                variances[key] = (number * mean + PRIOR_LEVELS * first) / (number + PRIOR_LEVELS)
    names = [name for name, is_seen in zip(columns.names, seen, strict=True) if is_seen]
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
    """Offsets and spreads of one software; a chip's are of its class and itself, whatever the software."""

    def combined(*wanted: tuple[str, ...], also: float = 0.0) -> tuple[float, float]:
        chosen = np.array([name in wanted for name in names], dtype=float)
        return float(chosen @ effects), math.sqrt(float(chosen @ covariance @ chosen) + also)

    def variance(part: str) -> float:
        return variances[f"{part}|{software}" if part in OF_SOFTWARE else part]

    centre = ("centre", software)
    families = sorted({name[1] for name in names if name[0] == "family" and name[2] == software})
    known = sorted(chip for chip in chips if ("chip", chip) in names)
    classes = sorted({chips[chip] for chip in known})
    return {
        "variances": {part: variance(part) for part in ("question", "machine", "rest")}
        | {"source": variance("author") + variance("source")},  # nobody has seen the author of a new one
        "widths": {"other": 1.0},  # of variances alone; validation.py finds those of models that were left out
        "families": {family: combined(centre, ("family", family, software)) for family in families},
        "family": combined(centre, also=variance("family")),
        "chips": {chip: combined(("class", chips[chip]), ("chip", chip)) for chip in known},
        "classes": {of: combined(("class", of), also=variances["chip"]) for of in classes},
        "class": (0.0, math.sqrt(variances["class"] + variances["chip"])),
    }

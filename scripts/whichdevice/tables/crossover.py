"""Table `crossover`: between which batch sizes another of two devices becomes the faster one, from measured runs alone.

One row per crossing, or one row that says why there is none. Devices are compared at the sizes that both ran, by
paired repeats, and nothing is said beyond those sizes. Method and its source: `crossing`.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.columns import Column, table
from whichdevice.tables.crossing import Crossing, crossings
from whichdevice.tables.decision import SAME, UNDECIDED
from whichdevice.tables.device_pairs import DevicePair, device_pairs
from whichdevice.tables.sittings import SETTING
from whichdevice.tables.sources import Sources

CROSSOVER, SEVERAL, ONE_FASTER = "crossover", "several crossovers", "one faster"
PARTLY, ONE_SIZE = "partly undecided", "one size"

COLUMNS: dict[str, Column] = {
    "workload": Column("text", "workload, as the config names it"),
    "first": Column("text", "device divided by; the cpu, where one of the two is"),
    "second": Column("text", "device compared with it"),
    "comparison": Column(
        "text", "same settings: backend and loop equal; own best: each device's fastest backend and loop at each size"
    ),
    "backend": Column("text", "Keras backend of both; empty for own best"),
    "loop": Column("text", "loop of both; empty for own best"),
    "first_means": Column("text", "backend and loop of the first device"),
    "second_means": Column("text", "backend and loop of the second device"),
    "precision": Column("text", "number format"),
    "fraction": Column("float", "share of the training data"),
    "sequence_length": Column("int", "steps per sequence, where the config sets it"),
    "model": Column(
        "text", "workload file, weights and operations of an example; two models of one name are two works"
    ),
    "quantity": Column("text", "what is compared: throughput, or tflops for products of matrices"),
    "sizes": Column("text", "batch sizes that both ran; for matmul, N"),
    "verdict": Column(
        "text",
        f"{CROSSOVER}; {SEVERAL} (a row each); {ONE_FASTER} at every size; {PARTLY}: one faster at some sizes, the "
        f"other one at none; {SAME} at every size; {UNDECIDED}; {ONE_SIZE}: no crossover can be computed",
    ),
    "crossover": Column("float", "batch size at which the faster device changes, by log-log interpolation"),
    "crossover_low": Column("float", "lower end of its 95 % interval"),
    "crossover_high": Column("float", "upper end of its 95 % interval"),
    "size_below": Column("int", "next measured size below the crossover"),
    "size_above": Column("int", "next measured size above the crossover"),
    "faster_below": Column("text", "faster device below the crossover"),
    "faster_above": Column("text", "faster device above the crossover"),
    "faster": Column("text", "without a crossover: the faster device at every size where one is"),
    "faster_at": Column("text", "those sizes"),
    "same_at": Column("text", f"sizes at which the two are the {SAME}"),
    "undecided": Column("text", "sizes at which nothing is decided"),
    "n_to_decide": Column("int", "repeats that would decide at these, with 80 % power each: an estimate"),
    **{
        f"{end}_ratio{bound}": Column("float", f"second / first at the {end} of the sizes{text}")
        for end in ("smallest", "largest")
        for bound, text in [("", ""), ("_low", ", lower end of its 95 % interval"), ("_high", ", upper end")]
    },
    "n": Column("int", "pairs of repeats, at the size that has fewest"),
    "setting": SETTING,
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a crossover"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return crossover_table(sources.studied, sources.study)


def crossover_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The crossings of every two devices, or why there is none; virtual replicas on one CPU take no part."""
    return table([row for pair in device_pairs(runs, study) for row in _rows(pair)], COLUMNS)


def _rows(pair: DevicePair) -> Iterator[dict[str, Any]]:
    ratios = pair.ratios
    ends = {"smallest": ratios.iloc[0], "largest": ratios.iloc[-1]}
    shared = {
        **pair.work,
        **{name: getattr(pair, name) for name in ("first", "second", "comparison", "first_means", "second_means")},
        "quantity": pair.quantity,
        "sizes": _listed(ratios.index),
        "same_at": _listed(ratios.index[ratios["verdict"] == SAME]),
        "undecided": _listed(ratios.index[ratios["verdict"] == UNDECIDED]),
        "n_to_decide": ratios["n_to_decide"].max(),
        **{f"{end}_ratio{bound}": row[f"ratio{bound}"] for end, row in ends.items() for bound in ("", "_low", "_high")},
        "n": int(ratios["n"].min()),
        "setting": pair.setting,
        "source": pair.source,
        "evidence": "measured",
    }
    passed = crossings(pair.logs, pair.signs)
    for crossing in passed:
        yield shared | _crossover(pair, crossing, SEVERAL if len(passed) > 1 else CROSSOVER)
    if not passed:
        yield shared | _no_crossover(pair)


def _listed(sizes: pd.Index) -> str | None:
    return " ".join(map(str, sizes)) or None


def _crossover(pair: DevicePair, crossing: Crossing, verdict: str) -> dict[str, Any]:
    return {
        "verdict": verdict,
        "crossover": crossing.size,
        "crossover_low": crossing.low,
        "crossover_high": crossing.high,
        "size_below": crossing.below,
        "size_above": crossing.above,
        "faster_below": _faster(pair, -crossing.sign),
        "faster_above": _faster(pair, crossing.sign),
    }


def _no_crossover(pair: DevicePair) -> dict[str, Any]:
    """Which device is faster, and at which sizes, where not at every one."""
    signs, verdicts = pair.signs, set(pair.ratios["verdict"])
    found = {
        "faster": _faster(pair, next((sign for sign in signs if sign), 0)),
        "faster_at": _listed(pair.ratios.index[[bool(sign) for sign in signs]]),
    }
    if len(signs) == 1:
        return found | {"verdict": ONE_SIZE}
    if any(signs):
        return found | {"verdict": ONE_FASTER if all(signs) else PARTLY}
    return found | {"verdict": SAME if verdicts == {SAME} else UNDECIDED}


def _faster(pair: DevicePair, sign: int) -> str | None:
    return {1: pair.second, -1: pair.first}.get(sign)

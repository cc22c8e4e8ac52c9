"""Table `crossover`: between which batch sizes another of two devices becomes the faster one, from measured runs alone.

One row per crossing, or one row that says why there is none. Devices are compared at the sizes that both ran, by
paired repeats, and nothing is said beyond those sizes. Method and its source: `crossing`.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.columns import Column, table
from whichdevice.tables.crossing import Crossing, crossings, held_sizes, signs
from whichdevice.tables.device_pairs import DevicePair, device_pairs

CROSSOVER, SEVERAL, ONE_FASTER = "crossover", "several crossovers", "one faster"
PARTLY, UNDECIDED, ONE_SIZE = "partly undecided", "undecided", "one size"

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
    "quantity": Column("text", "what is compared: throughput, or tflops for products of matrices"),
    "sizes": Column("text", "batch sizes that both ran; for matmul, N"),
    "verdict": Column(
        "text",
        f"{CROSSOVER}; {SEVERAL} (a row each); {ONE_FASTER} at every size; {PARTLY}: one faster where decided; "
        f"{UNDECIDED}: every interval holds 1, or there is none; {ONE_SIZE}: no crossover can be computed",
    ),
    "crossover": Column("float", "batch size at which the faster device changes, by log-log interpolation"),
    "crossover_low": Column(
        "float", "lower end of its 95 % interval; where partly undecided, `faster` is so for certain below this size"
    ),
    "crossover_high": Column(
        "float", "upper end of its 95 % interval; where partly undecided, `faster` is so for certain above this size"
    ),
    "size_below": Column("int", "next measured size below the crossover"),
    "size_above": Column("int", "next measured size above the crossover"),
    "faster_below": Column("text", "faster device below the crossover"),
    "faster_above": Column("text", "faster device above the crossover"),
    "faster": Column("text", "without a crossover: the faster device at every size where one is decided"),
    "undecided": Column("text", "sizes at which the interval of the ratio holds 1, or there is no interval"),
    **{
        f"{end}_ratio{bound}": Column("float", f"second / first at the {end} of the sizes{text}")
        for end in ("smallest", "largest")
        for bound, text in [("", ""), ("_low", ", lower end of its 95 % interval"), ("_high", ", upper end")]
    },
    "n": Column("int", "pairs of repeats, at the size that has fewest"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a crossover"),
}


def crossover_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The crossings of every two devices, or why there is none; virtual replicas on one CPU take no part."""
    return table([row for pair in device_pairs(runs, study) for row in _rows(pair)], COLUMNS)


def _rows(pair: DevicePair) -> Iterator[dict[str, Any]]:
    sizes, found = [int(size) for size in pair.logs.columns], signs(pair.logs)
    ratios = pair.ratios
    ends = {"smallest": ratios.iloc[0], "largest": ratios.iloc[-1]}
    shared = {
        **pair.work,
        **{name: getattr(pair, name) for name in ("first", "second", "comparison", "first_means", "second_means")},
        "quantity": pair.quantity,
        "sizes": " ".join(map(str, sizes)),
        "undecided": " ".join(str(size) for size, sign in zip(sizes, found, strict=True) if not sign) or None,
        **{
            f"{end}_ratio{bound}": row[name]
            for end, row in ends.items()
            for bound, name in [("", "mean"), ("_low", "low"), ("_high", "high")]
        },
        "n": int(ratios["n"].min()),
        "source": pair.source,
        "evidence": "measured",
    }
    passed = crossings(pair.logs)
    for crossing in passed:
        yield shared | _crossover(pair, crossing, SEVERAL if len(passed) > 1 else CROSSOVER)
    if not passed:
        yield shared | _no_crossover(pair, found)


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


def _no_crossover(pair: DevicePair, found: list[int]) -> dict[str, Any]:
    """Which device is faster, and above and below which sizes that is sure, where not everywhere."""
    faster = {"faster": _faster(pair, next((sign for sign in found if sign), 0))}
    if len(found) == 1:
        return faster | {"verdict": ONE_SIZE}
    if all(found) or not any(found):
        return faster | {"verdict": ONE_FASTER if any(found) else UNDECIDED}
    decided = [place for place, sign in enumerate(found) if sign]
    below = held_sizes(pair.logs, 0, decided[0])
    above = held_sizes(pair.logs, decided[-1], len(found) - 1)
    return faster | {
        "verdict": PARTLY,
        "crossover_low": above[0] if above else None,
        "crossover_high": below[1] if below else None,
    }


def _faster(pair: DevicePair, sign: int) -> str | None:
    return {1: pair.second, -1: pair.first}.get(sign)

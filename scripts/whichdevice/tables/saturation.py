"""Table `saturation`: how much a larger batch brings on each device, and from which size on it brings little more."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.tables.columns import CELL, CELL_COLUMNS, Column, table
from whichdevice.tables.intervals import geometric
from whichdevice.tables.measured_values import joined_sources, measured_values, quantity, without_rehearsals

NEAR = 0.95  # of the highest

COLUMNS: dict[str, Column] = {
    **{name: column for name, column in CELL_COLUMNS.items() if name != "batch_size"},
    "quantity": Column("text", "throughput, or tflops for products of matrices"),
    "unit": Column("text", "what throughput counts"),
    "sizes": Column("text", "batch sizes measured; for matmul, N"),
    "best_size": Column("int", "size with the highest quantity, by geometric means"),
    "best": Column("float", "the quantity there, per second or TFLOP/s"),
    "near_size": Column("int", f"smallest size within {100 * (1 - NEAR):.0f} % of it, by geometric means"),
    "near_ratio": Column("float", "near_size / best_size, of the quantity; geometric mean of paired repeats"),
    "near_ratio_low": Column("float", "lower end of its 95 % interval"),
    "near_ratio_high": Column("float", "upper end of its 95 % interval"),
    "gain": Column("float", "best_size / smallest size, of the quantity; geometric mean of paired repeats"),
    "gain_low": Column("float", "lower end of its 95 % interval"),
    "gain_high": Column("float", "upper end of its 95 % interval"),
    "still_rising": Column("flag", "only the largest measured size is within the limit: a larger one may be faster"),
    "n": Column("int", "runs, at the size that has fewest"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters this table"),
}


def saturation_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for every device and settings that ran at two batch sizes or more, virtual replicas on one CPU left out."""
    good = without_rehearsals(measured_values(runs))
    settings = [name for name in CELL if name != "batch_size"]
    groups = good.groupby(settings, dropna=False, sort=False)
    return table([row for _, rows in groups for row in _rows(rows, settings)], COLUMNS)


def _rows(rows: pd.DataFrame, settings: list[str]) -> Iterator[dict[str, Any]]:
    values = rows.pivot(index="repeat", columns="batch_size", values="value").astype(float).sort_index(axis="columns")
    if values.shape[1] < 2:
        return
    means = np.exp(np.log(values).mean())
    best, near = means.idxmax(), means.index[means >= NEAR * means.max()][0]
    gain, nearness = _ratio(values[best], values.iloc[:, 0]), _ratio(values[near], values[best])
    yield {
        **{name: rows[name].iloc[0] for name in [*settings, "unit"]},
        "quantity": quantity(str(rows["unit"].iloc[0])),
        "sizes": " ".join(str(int(size)) for size in values.columns),
        "best_size": best,
        "best": means.max(),
        "near_size": near,
        **{f"near_ratio{bound}": nearness[name] for bound, name in BOUNDS.items()},
        **{f"gain{bound}": gain[name] for bound, name in BOUNDS.items()},
        "still_rising": bool(near == values.columns[-1]),
        "n": int(values.count().min()),
        "source": joined_sources(rows["source"]),
        "evidence": "measured",
    }


BOUNDS = {"": "mean", "_low": "low", "_high": "high"}


def _ratio(values: pd.Series, base: pd.Series) -> pd.Series:
    ratio = (values / base).dropna()
    return geometric(ratio, pd.Series(0, ratio.index)).reindex([0]).iloc[0]

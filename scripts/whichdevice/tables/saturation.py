"""Table `saturation`: how much a larger batch brings on each device, and from which size on it brings little more."""

from typing import Any

import numpy as np
import pandas as pd

from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.measured import (
    by_repeat_and_size,
    enough_repeats,
    joined_sources,
    measured_values,
    quantity,
    without_rehearsals,
)
from whichdevice.tables.statistics import geometric

NEAR = 0.95  # of the highest
SETTINGS = [name for name in CELL if name != "batch_size"]
READ = [*SETTINGS, "model", "batch_size", "repeat", "value", "unit", "source"]
BOUNDS = {"": "mean", "_low": "low", "_high": "high"}

COLUMNS: dict[str, Column] = {
    **{name: column for name, column in CELL_COLUMNS.items() if name != "batch_size"},
    "model": Column(
        "text", "workload file, weights and operations of an example; two models of one name are two works"
    ),
    "quantity": Column("text", "throughput, or tflops for products of matrices"),
    "unit": Column("text", "what throughput counts"),
    "sizes": Column("text", "batch sizes measured; for matmul, N"),
    "left_out": Column("text", "sizes with too few good runs to judge; the rest of the row is without them"),
    "best_size": Column("int", "size with the highest geometric mean"),
    "best": Column("float", "the quantity there, per second or TFLOP/s"),
    "n_best": Column("int", "runs there"),
    "near_size": Column("int", f"smallest of these sizes within {100 * (1 - NEAR):.0f} % of it, by geometric means"),
    "near_ratio": Column("float", "near_size / best_size, of the quantity; geometric mean of paired repeats"),
    "near_ratio_low": Column("float", "lower end of its 95 % interval"),
    "near_ratio_high": Column("float", "upper end of its 95 % interval"),
    "gain": Column("float", "best_size / smallest of these sizes, of the quantity; geometric mean of paired repeats"),
    "gain_low": Column("float", "lower end of its 95 % interval"),
    "gain_high": Column("float", "upper end of its 95 % interval"),
    "still_rising": Column("flag", "only the largest measured size is within the limit: a larger one may be faster"),
    "n": Column("int", "runs, at the size that has fewest"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters this table"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return saturation_table(sources.studied)


def saturation_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for every device and settings with enough good runs at two sizes or more, virtual replicas left out."""
    good = without_rehearsals(measured_values(runs))[READ]
    sized = [_sized(rows) for _, rows in good.groupby([*SETTINGS, "model"], dropna=False, sort=False)]
    found = [each for each in sized if each is not None]
    if not found:
        return table([], COLUMNS)
    frame = pd.DataFrame([row for row, _ in found])
    for name in ("near_ratio", "gain"):
        ratios = [ratio[name] for _, ratio in found]
        group = pd.Series(np.repeat(np.arange(len(found)), [len(each) for each in ratios]))
        bounds = geometric(pd.Series(np.concatenate(ratios)), group).reindex(frame.index)
        frame[[f"{name}{end}" for end in BOUNDS]] = bounds[list(BOUNDS.values())]
    return table(frame, COLUMNS)


def _sized(rows: pd.DataFrame) -> tuple[dict[str, Any], dict[str, np.ndarray]] | None:
    """A row but for its ratios, and these, one for each pair of repeats; None below two sizes."""
    values = by_repeat_and_size(rows)
    judged = enough_repeats(values.count())
    largest, left_out, values = values.columns[-1], values.columns[~judged], values.loc[:, judged]
    if values.shape[1] < 2:
        return None
    means = np.exp(np.log(values).mean())
    best, near = means.idxmax(), means.index[means >= NEAR * means.max()][0]
    first = rows.iloc[0]
    row = {
        **{name: first[name] for name in [*SETTINGS, "model", "unit"]},
        "quantity": quantity(str(first["unit"])),
        "sizes": " ".join(str(int(size)) for size in values.columns),
        "left_out": " ".join(str(int(size)) for size in left_out) or None,
        "best_size": best,
        "best": means.max(),
        "n_best": int(values[best].count()),
        "near_size": near,
        "still_rising": bool(near == largest),
        "n": int(values.count().min()),
        "source": joined_sources(rows["source"]),
        "evidence": "measured",
    }
    ratios = {"near_ratio": values[near] / values[best], "gain": values[best] / values.iloc[:, 0]}
    return row, {name: ratio.dropna().to_numpy() for name, ratio in ratios.items()}

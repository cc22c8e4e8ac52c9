"""Pairs of devices on the same work: the paired ratio of their speeds at every batch size that both ran, and judged.

All ratios with the same settings are one family, those of each device's own best ones another.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.decision import FASTER, SLOWER, decided, paired
from whichdevice.tables.measured_values import (
    by_repeat_and_size,
    enough_repeats,
    joined_sources,
    measured_values,
    quantity,
    without_rehearsals,
)
from whichdevice.tables.sittings import told

WORK = ["workload", "precision", "fraction", "sequence_length"]  # what is computed
MEANS = ["backend", "loop"]  # by what it is computed, and any of these will do
READ = [
    *WORK,
    *MEANS,
    "device",
    "kind",
    "batch_size",
    "repeat",
    "value",
    "unit",
    "source",
    "machine",
    "sitting",
    "model",
]
SAME, OWN = "same settings", "own best"


class DevicePair(NamedTuple):
    """Two devices on the same work. `logs`: log(second / first), a row per repeat, a column per size, ascending."""

    comparison: str  # SAME: backend and loop equal too; OWN: each device's fastest backend and loop at each size
    work: Mapping[str, Any]  # values of WORK and `model`; of MEANS too where they are the same
    first: str
    second: str
    first_means: str
    second_means: str
    quantity: str
    logs: pd.DataFrame
    source: str | None
    setting: str
    ratios: pd.DataFrame  # second / first at each size, as `decided` judges it in the family of its comparison

    @property
    def signs(self) -> list[int]:
        """For each size: 1 where the second device is faster, -1 where the first one is, else 0."""
        return [{FASTER: 1, SLOWER: -1}.get(verdict, 0) for verdict in self.ratios["verdict"]]


def device_pairs(runs: pd.DataFrame, study: Study) -> list[DevicePair]:
    """Every two devices of every piece of work, with every ratio judged."""
    pairs = list(_unjudged(runs, study))
    if not pairs:
        return []
    long = pd.concat([pair.logs.melt(var_name="size", value_name="log").assign(pair=k) for k, pair in enumerate(pairs)])
    long = long.reset_index(drop=True).astype({"size": int})
    group = long.groupby(["pair", "size"], sort=False).ngroup()
    first = long[~group.duplicated()]
    judged = decided(
        paired(long["log"], group), first["pair"].map(lambda k: pairs[k].comparison).reset_index(drop=True)
    )
    judged = judged.set_axis(pd.Index(first["size"], name="size"))
    of = first["pair"].to_numpy()
    return [each._replace(ratios=judged[of == k].sort_index()) for k, each in enumerate(pairs)]


def _unjudged(runs: pd.DataFrame, study: Study) -> Iterator[DevicePair]:
    """Every two devices: with the same settings, and with each device's own best ones.

    The second kind is left out where it would say the same. Best is the highest geometric mean of those with
    enough good repeats, chosen from the very ones that are then compared: a slight favour to a device with many
    settings.
    """
    good = without_rehearsals(measured_values(runs))[READ]  # taking rows of the others too would be most of the work
    for _, rows in good.groupby([*WORK, "model"], dropna=False, sort=False):
        best = _best(rows)
        for first, second in combinations(in_order(rows, study), 2):
            two = rows[rows["device"].isin([first, second])]
            same = [_pair(SAME, part, first, second) for _, part in two.groupby(MEANS, dropna=False, sort=False)]
            yield from (pair for pair in same if not pair.logs.empty)
            if len(two[MEANS].drop_duplicates()) > 1:
                own = _pair(OWN, best, first, second)
                if not own.logs.empty:
                    yield own


def in_order(rows: pd.DataFrame, study: Study) -> list[str]:
    """The devices of the rows: cpus first, then as the config names them, then others."""
    kinds = dict(zip(rows["device"], rows["kind"], strict=True))
    names = [name for name in study.devices if name in kinds] + [name for name in kinds if name not in study.devices]
    return sorted(names, key=lambda name: kinds[name] != "cpu")


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """At each device and size, of the backends and loops with enough good repeats the one of the highest mean."""
    place = rows.groupby(["device", "batch_size"], sort=False).ngroup()
    cell = [place, *(rows[name] for name in MEANS)]
    means = np.log(rows["value"]).groupby(cell).transform("mean")
    means = means.where(enough_repeats(place.groupby(cell).transform("size"), place))
    return rows[means == means.groupby(place).transform("max")].drop_duplicates(["device", "batch_size", "repeat"])


def _pair(comparison: str, rows: pd.DataFrame, first: str, second: str) -> DevicePair:
    sides = [rows[rows["device"] == name] for name in (first, second)]
    values = [by_repeat_and_size(side) for side in sides]
    sizes = sorted(set(values[0].columns) & set(values[1].columns))
    logs = pd.DataFrame(np.log(values[1][sizes] / values[0][sizes])).dropna(axis="columns", how="all")
    used = [side[side["batch_size"].isin(logs.columns)] for side in sides]
    places = [pd.concat([side[name] for side in used]).nunique() for name in ("machine", "sitting")]
    shown = WORK if comparison == OWN else [*WORK, *MEANS]
    shown_means = " ".join(rows[MEANS].iloc[0])
    return DevicePair(
        comparison=comparison,
        work={name: rows[name].iloc[0] for name in [*shown, "model"]},
        first=first,
        second=second,
        first_means=_means(used[0]) if comparison == OWN else shown_means,
        second_means=_means(used[1]) if comparison == OWN else shown_means,
        quantity=quantity(str(rows["unit"].iloc[0])),
        logs=logs,
        source=joined_sources(*(side["source"] for side in used)),
        setting=told(*places),
        ratios=pd.DataFrame(),
    )


def _means(rows: pd.DataFrame) -> str:
    """Backends and loops used, each with the sizes where they were the best, where these differ."""
    parts: Sequence[tuple[Any, pd.DataFrame]] = list(rows.groupby(MEANS, sort=False))
    if len(parts) == 1:
        return " ".join(parts[0][0])
    sizes = {" ".join(key): sorted({int(size) for size in part["batch_size"]}) for key, part in parts}
    return ", ".join(f"{name} at {' '.join(map(str, found))}" for name, found in sizes.items())

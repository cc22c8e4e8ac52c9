"""Tables over batch sizes: which device is faster from which size on, and what a larger batch brings."""

from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Sources, columns_of, table
from whichdevice.study.tables.decision_rule import FASTER, SAME, SLOWER, UNDECIDED, decided, paired
from whichdevice.study.tables.measured import (
    by_repeat_and_size,
    enough_repeats,
    joined_sources,
    measured_values,
    quantity,
    setting_text,
    without_rehearsals,
)

CROSSOVER_WORK = ["workload", "precision", "fraction", "sequence_length"]  # what is computed
MEANS = ["backend"]  # by what it is computed, and any of these will do
CROSSOVER_READ = [
    *CROSSOVER_WORK, *MEANS, "device", "kind", "batch_size", "repeat", "value", "unit", "source", "machine", "session",
    "model",
]  # fmt: skip
SAME_SETTINGS, OWN_BEST = "same settings", "own best"
CROSSOVER, SEVERAL, ONE_FASTER = "crossover", "several crossovers", "one faster"
PARTLY, ONE_SIZE = "partly undecided", "one size"
CROSSOVER_COLUMNS = columns_of("crossover")


class Crossing(NamedTuple):
    """A passage through ratio 1: its size, the surely decided sizes around it, and the sign above it, 1 or -1."""

    size: float
    below: int
    above: int
    sign: int


def crossings(logs: pd.DataFrame, signs: Sequence[int]) -> list[Crossing]:
    """Each change of sign, from the smallest size on. Columns of `logs` are sizes, ascending, its rows paired repeats.

    `signs`: for each size 1 or -1 where log(ratio) is surely of that sign, else 0.
    """
    sure = [place for place, sign in enumerate(signs) if sign]
    return [_crossing(logs, i, k, signs[k]) for i, k in pairwise(sure) if signs[i] != signs[k]]


def _crossing(logs: pd.DataFrame, first: int, last: int, sign: int) -> Crossing:
    """The crossing between two columns of opposite sure signs: where the means pass 0, the middle one of several."""
    sizes = [int(size) for size in logs.columns]
    means = logs.mean().to_numpy(float)
    crosses = [
        place
        for place in range(first, last)
        if means[place] <= 0 < means[place + 1] or means[place + 1] < 0 <= means[place]
    ]
    place = crosses[len(crosses) // 2]
    share = means[place] / (means[place] - means[place + 1])
    size = sizes[place] * (sizes[place + 1] / sizes[place]) ** share
    return Crossing(size, sizes[first], sizes[last], sign)


class DevicePair(NamedTuple):
    """Two devices on the same work. `logs`: log(second / first), a row per repeat, a column per size, ascending."""

    comparison: str  # SAME: backend equal too; OWN: each device's fastest backend at each size
    work: Mapping[str, Any]  # values of CROSSOVER_WORK and `model`; of MEANS too where they are the same
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
        """The sign for each size: 1 where the second device is faster, -1 where the first one is, else 0."""
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
    return [pair._replace(ratios=judged[of == k].sort_index()) for k, pair in enumerate(pairs)]


def _unjudged(runs: pd.DataFrame, study: Study) -> Iterator[DevicePair]:
    """Every two devices: with the same settings, and with each device's own best ones.

    The second kind is left out where it would say the same. Best is the highest geometric mean of those with
    enough good repeats, chosen from the very ones that are then compared: a slight favour to a device with many
    settings.
    """
    good = without_rehearsals(measured_values(runs))[
        CROSSOVER_READ
    ]  # taking rows of the others too would be most of the work
    for _, rows in good.groupby([*CROSSOVER_WORK, "model"], dropna=False, sort=False):
        best = _best(rows)
        for first, second in combinations(in_order(rows, study), 2):
            two = rows[rows["device"].isin([first, second])]
            same = [
                _pair(SAME_SETTINGS, part, first, second) for _, part in two.groupby(MEANS, dropna=False, sort=False)
            ]
            yield from (pair for pair in same if not pair.logs.empty)
            if len(two[MEANS].drop_duplicates()) > 1:
                own_best = _pair(OWN_BEST, best, first, second)
                if not own_best.logs.empty:
                    yield own_best


def in_order(rows: pd.DataFrame, study: Study) -> list[str]:
    """The devices of the rows: cpus first, then as the config names them, then others."""
    kinds = dict(zip(rows["device"], rows["kind"], strict=True))
    names = [name for name in study.devices if name in kinds] + [name for name in kinds if name not in study.devices]
    return sorted(names, key=lambda name: kinds[name] != "cpu")


def _best(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, for each device and size, the rows of the backend with the highest mean and enough repeats."""
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
    places = [pd.concat([side[name] for side in used]).nunique() for name in ("machine", "session")]
    shown = CROSSOVER_WORK if comparison == OWN_BEST else [*CROSSOVER_WORK, *MEANS]
    shown_means = " ".join(rows[MEANS].iloc[0])
    return DevicePair(
        comparison=comparison,
        work={name: rows[name].iloc[0] for name in [*shown, "model"]},
        first=first,
        second=second,
        first_means=_used_means(used[0]) if comparison == OWN_BEST else shown_means,
        second_means=_used_means(used[1]) if comparison == OWN_BEST else shown_means,
        quantity=quantity(str(rows["unit"].iloc[0])),
        logs=logs,
        source=joined_sources(*(side["source"] for side in used)),
        setting=setting_text(*places),
        ratios=pd.DataFrame(),
    )


def _used_means(rows: pd.DataFrame) -> str:
    """Backends used, each with the sizes where they were the best, where these differ."""
    parts: Sequence[tuple[Any, pd.DataFrame]] = list(rows.groupby(MEANS, sort=False))
    if len(parts) == 1:
        return " ".join(parts[0][0])
    sizes = {" ".join(key): sorted({int(size) for size in part["batch_size"]}) for key, part in parts}
    return ", ".join(f"{name} at {' '.join(map(str, used_sizes))}" for name, used_sizes in sizes.items())


@makes("between which batch sizes another of two devices becomes the faster one, as measured", CROSSOVER_COLUMNS)
def make_crossover(sources: Sources) -> pd.DataFrame:
    """Return table `crossover`.

    One row per crossing, or one row that says why none was found. Devices are compared at the sizes that both ran, by
    paired repeats. All ratios with the same settings are one family; ratios of each device's best settings are another.

    A crossing lies on the straight line between measured sizes on logarithmic axes; where on it no interval says, so
    the row names the measured sizes around it at which each device is surely the faster one.
    """
    return crossover_table(sources.table("runs"), sources.study)


def crossover_table(runs: pd.DataFrame, study: Study) -> pd.DataFrame:
    """The crossings of every two devices, or why there is none; virtual replicas on one CPU take no part."""
    return table([row for pair in device_pairs(runs, study) for row in _rows(pair)], CROSSOVER_COLUMNS)


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
        "size_below": crossing.below,
        "size_above": crossing.above,
        "faster_below": _faster(pair, -crossing.sign),
        "faster_above": _faster(pair, crossing.sign),
    }


def _no_crossover(pair: DevicePair) -> dict[str, Any]:
    """Which device is faster, and at which sizes, where not at every one."""
    signs, verdicts = pair.signs, set(pair.ratios["verdict"])
    shared = {
        "faster": _faster(pair, next((sign for sign in signs if sign), 0)),
        "faster_at": _listed(pair.ratios.index[[bool(sign) for sign in signs]]),
    }
    if len(signs) == 1:
        return shared | {"verdict": ONE_SIZE}
    if any(signs):
        return shared | {"verdict": ONE_FASTER if all(signs) else PARTLY}
    return shared | {"verdict": SAME if verdicts == {SAME} else UNDECIDED}


def _faster(pair: DevicePair, sign: int) -> str | None:
    return {1: pair.second, -1: pair.first}.get(sign)

"""Leave out a group, forecast it from the rest, and score what came: one way for all that is fitted here.

Logs are of published over forecast values, or the inverse.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

HELD = 0.8  # share of values that an interval is meant to hold
Z80 = 1.2816  # standard deviations of a normal distribution that hold so many


def each_left_out(groups: Sequence[Any], missed: Callable[[np.ndarray], Any], among: Any = True) -> np.ndarray:
    """Return logs of all rows: `missed` takes which rows are left out [rows, of bool], and forecasts by the others.

    It returns an array whose last axis are the rows, of which those left out count. Groups without a row of `among`
    stay nan.
    """
    names = np.array(list(map(str, groups)))
    found: np.ndarray | None = None
    for name in sorted(set(names[np.broadcast_to(among, len(names))])):
        out = names == name
        logs = np.asarray(missed(out))
        found = np.full(logs.shape, np.nan) if found is None else found
        found[..., out] = logs[..., out]
    assert found is not None
    return found


def weights_of(groups: Iterable[Any]) -> np.ndarray:
    """Return weights with which each group counts as one."""
    names = list(map(str, groups))
    size = Counter(names)
    return np.array([1 / size[name] for name in names])


def quantile(values: np.ndarray, share: float, weights: np.ndarray | None = None) -> float:
    """Return a quantile; a weighted one is one of the values."""
    method = "linear" if weights is None else "inverted_cdf"
    return float(np.quantile(values, share, weights=weights, method=method))


def spread_of(logs: np.ndarray, weights: np.ndarray | None = None) -> float:
    """Return the standard deviation whose 80 % interval holds 80 % of these."""
    return quantile(np.abs(logs), HELD, weights) / Z80


def spread_of_others(logs: np.ndarray, groups: Sequence[Any], weights: np.ndarray | None = None) -> np.ndarray:
    """Return the spread that the logs of all other groups say [rows]."""

    def of_others(out: np.ndarray) -> np.ndarray:
        return np.full(len(logs), spread_of(logs[~out], None if weights is None else weights[~out]))

    return each_left_out(groups, of_others)


def score(
    logs: np.ndarray, sd: Any = None, groups: Sequence[Any] | None = None, weighs: bool = False
) -> dict[str, float]:
    """Return the rows, how far they are off, and where `sd` states intervals, how wide they are and how many held.

    `groups` are counted, and where it `weighs` each counts as one.
    """
    errors = np.abs(logs)
    weights = weights_of(groups) if groups is not None and weighs else None
    found: dict[str, float] = {"rows": len(errors)} | ({} if groups is None else {"groups": len(set(groups))})
    found["median_error"] = float(np.expm1(quantile(errors, 0.5, weights)))
    found["within"] = float(np.exp(quantile(errors, HELD, weights)))
    if sd is not None:
        found["stated"] = float(np.exp(Z80 * np.median(sd)))
        found["held"] = float(np.average(errors <= Z80 * np.asarray(sd), weights=weights))
    return found


def rounded(card: Mapping[str, float]) -> dict[str, float]:
    """Return a card as it is written: counts, and numbers of three digits behind the point."""
    return {name: value if isinstance(value, int) else round(value, 3) for name, value in card.items()}

"""Where a number and its interval lie among those of the same workload: positions of the strips drawn in the table."""

from collections import defaultdict
from math import log
from typing import Any

from whichdevice.report.numbers import Estimate

STRIPPED = ["throughput", "relative", "per_usd", "per_joule"]
Ends = tuple[float, float, float]


def with_strips(rows: list[dict[str, Any]]) -> None:
    """Give each row `strips`: by column the CSS variables of a strip, on a linear and on a logarithmic axis."""
    groups: dict[tuple[Any, ...], list[tuple[dict[str, Any], Ends]]] = defaultdict(list)
    for row in rows:
        row["strips"] = {}
        for key in STRIPPED:
            if (ends := _ends(row.get(key))) is not None:
                size = row["batch_size"].value if row["operation"] else None  # other sizes are other work
                groups[key, row["workload"], row["fraction"].value, size].append((row, ends))
    for (key, *_), members in groups.items():
        least, most = min(ends[0] for _, ends in members), max(ends[2] for _, ends in members)
        for row, ends in members:
            row["strips"][key] = _variables(ends, least, most)


def _ends(value: Any) -> Ends | None:
    """Low end, value and high end; nothing for what is not measured or not positive."""
    if not isinstance(value, Estimate) or value.value.value <= 0:
        return None
    middle = value.value.value
    if value.low is None or value.high is None or value.low.value <= 0:
        return middle, middle, middle
    return value.low.value, middle, value.high.value


def _variables(ends: Ends, least: float, most: float) -> str:
    reach = log(most / least)
    linear = [end / most for end in ends]
    logarithmic = [log(end / least) / reach if reach else 1.0 for end in ends]
    names = ["a", "m", "b", "la", "lm", "lb"]
    return ";".join(f"--{name}:{place:.3g}" for name, place in zip(names, [*linear, *logarithmic], strict=True))

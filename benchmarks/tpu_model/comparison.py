"""Published times beside the model's ranges: validation.csv and docs/tpu-model.md's table. Imports no framework."""

import csv
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from statistics import median

VALIDATION = Path(__file__).parent / "validation.csv"
HEADER = (
    "row",
    "slice",
    "published ms",
    "model ms",
    "published / low",
    "published / high",
    "inside",
    "with cycles",
)


@dataclass(frozen=True)
class Comparison:
    """One row, in milliseconds. `low_ms` is None where there is no program, `high_ms` where the model gives none."""

    id: str
    topology: str
    published_ms: float
    low_ms: float | None
    high_ms: float | None
    timed_percent: float | None  # of the bytes, those whose instructions carry cycles
    error: str = ""

    @property
    def over_low(self) -> float | None:
        """Published ÷ low."""
        return self.published_ms / self.low_ms if self.low_ms else None

    @property
    def over_high(self) -> float | None:
        """Published ÷ high."""
        return self.published_ms / self.high_ms if self.high_ms else None

    @property
    def verdict(self) -> str:
        """`yes`, `below`, `above`; `not below` where only the low end is known; `-` where nothing is."""
        if self.over_low is None:
            return "-"
        if self.over_low < 1:
            return "below"
        if self.over_high is None:
            return "not below"
        return "yes" if self.over_high <= 1 else "above"


def written(rows: Sequence[Comparison], path: Path = VALIDATION) -> None:
    """Write the comparison as CSV."""
    names = [field.name for field in fields(Comparison)]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, names, lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {name: value for name, value in asdict(row).items() if isinstance(value, float)}
            writer.writerow(asdict(row) | {name: f"{value:.4g}" for name, value in numbers.items()})


def read(path: Path = VALIDATION) -> list[Comparison]:
    """Read it back."""
    with path.open(encoding="utf-8", newline="") as file:
        return [_read(row) for row in csv.DictReader(file)]


def _read(row: dict[str, str]) -> Comparison:
    low, high, timed = (float(row[name]) if row[name] else None for name in ("low_ms", "high_ms", "timed_percent"))
    return Comparison(row["id"], row["topology"], float(row["published_ms"]), low, high, timed, row["error"])


def table(rows: Sequence[Comparison]) -> list[str]:
    """Lines of a Markdown table."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---|---|" + "--:|" * 4 + "---|--:|"]
    return lines + ["| " + " | ".join(_cells(row)) + " |" for row in rows]


def _cells(row: Comparison) -> list[str]:
    if row.low_ms is None:
        return [f"`{row.id}`", row.topology, _short(row.published_ms), "does not compile", "", "", "-", ""]
    model = f"≥ {_short(row.low_ms)}" if row.high_ms is None else f"{_short(row.low_ms)} – {_short(row.high_ms)}"
    ratios = ["" if ratio is None else f"{ratio:.2f}" for ratio in (row.over_low, row.over_high)]
    share = "" if row.timed_percent is None else f"{row.timed_percent:.0f} %"
    return [f"`{row.id}`", row.topology, _short(row.published_ms), model, *ratios, row.verdict, share]


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def summary(rows: Sequence[Comparison]) -> str:
    """Share inside, median and worst ratios, in one line; a low end alone is no range."""
    known = [row for row in rows if row.low_ms is not None]
    ranged = [row for row in known if row.high_ms is not None]
    inside = [row for row in ranged if row.verdict == "yes"]
    over_low = [row.over_low for row in known if row.over_low is not None]
    over_high = [row.over_high for row in ranged if row.over_high is not None]
    outside = [(max(1 / (row.over_low or 1), row.over_high or 0), row.id) for row in ranged if row.verdict != "yes"]
    parts = [
        f"{len(inside)} of {len(ranged)} ranges hold the published time ({100 * len(inside) / len(ranged):.0f} %)",
        f"published times below a low end: {sum(row.verdict == 'below' for row in known)} of {len(known)}",
        f"published / low: median {median(over_low):.2f}, {min(over_low):.2f} to {max(over_low):.2f}",
        f"published / high: median {median(over_high):.2f}, {min(over_high):.2f} to {max(over_high):.2f}",
        f"within 20 % of the high end: {sum(1 / 1.2 <= ratio <= 1.2 for ratio in over_high)} of {len(ranged)}",
        "furthest outside: `{1}`, by a factor {0:.2f}".format(*max(outside)) if outside else "none outside",
    ]
    return "; ".join(parts)

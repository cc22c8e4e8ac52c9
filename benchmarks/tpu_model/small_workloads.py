"""The small published workloads on v2-8 beside the model: gaps between what a host fed and what a device would need.

First compile them, in a study of their own:

    snakemake --cores 1 compiled --configfile config/published.yaml --config study=small 'compile={topologies: [v2-2x2],
        precision: [mixed_bfloat16, float32], workload: [mnist_official, mnist_cnn, fashion_cnn_2018, shakespeare_lstm,
        weather_gru_tpu]}'
    python -m benchmarks.tpu_model.small_workloads results/small/compiled/v2-2x2

The second call writes small_workloads.csv beside this file and prints the table.
"""

import csv
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.records.compiled import CompiledRecord, read_compiled

SMALL = Path(__file__).with_suffix(".csv")
PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"
HEADER = ("workload", "batch", "published ms", "model ms, mixed_bfloat16", "model ms, float32", "published / model")
PRECISIONS = ("mixed_bfloat16", "float32")


@dataclass(frozen=True)
class Gap:
    """One published time on v2-8 and the model's ends, in milliseconds; `inf` is a high end that the model lacks."""

    workload: str
    batch_size: int
    published_ms: float
    bfloat16_low: float
    bfloat16_high: float
    float32_low: float
    float32_high: float


def gaps(folder: Path) -> list[Gap]:
    """From the compiled records of a folder; raises StudyError where one has no modelled time."""
    records = [read_compiled(path) for path in sorted(folder.glob("*.json"))]
    found = {(each.asked.module, each.asked.batch_size, each.asked.precision): _ends(each) for each in records}
    return [
        Gap(name, size, ms, *found[name, size, PRECISIONS[0]], *found[name, size, PRECISIONS[1]])
        for (name, size), ms in published().items()
        if (name, size, PRECISIONS[0]) in found
    ]


def _ends(record: CompiledRecord) -> tuple[float, float]:
    if record.modelled is None:
        raise StudyError(f"{record.asked.path}: {record.status}, {record.reason}")
    high = record.modelled.high
    return record.modelled.low * 1e3, float("inf") if high is None else high * 1e3


def published(path: Path = PUBLISHED) -> dict[tuple[str, int], float]:
    """Milliseconds a step of training workloads on v2-8: as printed, or an epoch's divided by its steps."""
    found: dict[tuple[str, int], float] = {}
    with path.open(encoding="utf-8", newline="") as file:
        for row in csv.DictReader(file):
            if not row["device"].startswith("TPU v2-8") or not row["batch_size"]:
                continue
            key, value = (row["workload"], int(row["batch_size"])), float(row["value"] or "nan")
            if row["metric"] == "step_time":
                found[key] = value * key[1] / 1e3 if row["unit"] == "us/sample" else value
            elif row["metric"] == "epoch_time" and row["steps_per_epoch"]:
                found.setdefault(key, value * 1e3 / float(row["steps_per_epoch"]))
    return found


def written(rows: Sequence[Gap], path: Path = SMALL) -> None:
    """Write as CSV."""
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, [field.name for field in fields(Gap)], lineterminator="\n")
        writer.writeheader()
        for row in rows:
            numbers = {name: f"{value:.4g}" for name, value in asdict(row).items() if isinstance(value, float)}
            writer.writerow(asdict(row) | numbers)


def read(path: Path = SMALL) -> list[Gap]:
    """Read it back."""
    with path.open(encoding="utf-8", newline="") as file:
        return [
            Gap(row.pop("workload"), int(row.pop("batch_size")), *map(float, row.values()))
            for row in csv.DictReader(file)
        ]


def table(rows: Sequence[Gap]) -> list[str]:
    """Lines of a Markdown table; the ratio is to the lowest and the highest end of both formats."""
    lines = ["| " + " | ".join(HEADER) + " |", "|---" + "|--:" * 5 + "|"]
    for row in rows:
        models = (_range(row.bfloat16_low, row.bfloat16_high), _range(row.float32_low, row.float32_high))
        ratios = [row.published_ms / end for end in (max(row.float32_low, row.float32_high), row.bfloat16_low)]
        ratio = f"≤ {ratios[1]:.0f}" if ratios[0] == 0 else f"{ratios[0]:.1f} – {ratios[1]:.1f}"
        cells = (f"`{row.workload}`", str(row.batch_size), f"{row.published_ms:.3g}", *models, ratio)
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _range(low: float, high: float) -> str:
    return f"≥ {low:.3g}" if high == float("inf") else f"{low:.3g} – {high:.3g}"


if __name__ == "__main__":
    written(gaps(Path(sys.argv[1])))
    print("\n".join(table(read())))

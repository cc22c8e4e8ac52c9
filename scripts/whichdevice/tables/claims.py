"""What a published speed means physically: the operations it covers, the rate it implies, the peak of its device."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import pandas as pd

from whichdevice.tables.prices import Sheet

Claim = Mapping[str, str]
TIMES = {"s": 1.0, "ms": 1e-3, "us/sample": 1e-6}
RATE = "TFLOP/s"
SAME = ("source", "device", "workload", "batch_size")


class Work(NamedTuple):
    """What learning takes: operations of one example (of one step of one sequence), and examples of the whole data."""

    flops: float
    examples: float


class Peak(NamedTuple):
    """The most that a published device could do, by the sheet: TFLOP/s of all its chips in the quickest format."""

    name: str
    tflops: float


def known_work(summary: pd.DataFrame) -> dict[str, Work]:
    """Analytic operations of each workload file that any measured cell tells of."""
    cells = summary[summary["flops_per_step"].notna() & summary["training_examples"].notna()]
    steps = cells["batch_size"].astype(float) * cells["steps_per_sequence"].astype(float).fillna(1.0)
    cells = cells.assign(each=cells["flops_per_step"] / steps, whole=cells["training_examples"] / cells["fraction"])
    return {
        str(module): Work(float(rows["each"].iloc[0]), float(rows["whole"].max()))
        for module, rows in cells.groupby("module")
    }


def number(text: str | None) -> float | None:
    """A number of the hand-kept sheet, or None where it is empty."""
    return float(text) if text else None


def seconds(claim: Claim) -> float | None:
    """The published time in seconds; None where the claim is no time."""
    value, scale = number(claim["value"]), TIMES.get(claim["unit"])
    return None if value is None or scale is None else value * scale


def examples(claim: Claim, whole: float) -> float | None:
    """Training examples that the published time covers, `whole` being those of all the data; None where unknown."""
    batch, metric = number(claim["batch_size"]), claim["metric"]
    if metric == "step_time":
        return 1.0 if claim["unit"] == "us/sample" else batch
    steps = number(claim.get("steps_per_epoch"))
    epoch = steps * batch if steps and batch else whole // batch * batch if batch else whole
    if metric in ("epoch_time", "first_epoch_time"):
        return epoch
    epochs = number(claim.get("epochs"))
    return epoch * epochs if metric in ("wall_time", "total_time") and epochs else None


def tflops(claim: Claim, work: Work | None) -> float | None:
    """TFLOP/s that a claim implies: published as such, or analytic operations over the time; None where unknown."""
    if claim["unit"] == RATE:
        return number(claim["value"])
    taken = seconds(claim)
    if work is None or not taken:
        return None
    covered = examples(claim, work.examples)
    return (
        None if covered is None else covered * (number(claim.get("sequence_length")) or 1.0) * work.flops / taken / 1e12
    )


def peak(claim: Claim, sheet: Sheet) -> Peak | None:
    """The sheet's peak of the published device, the most generous one; None where its source does not name it."""
    row = sheet.get(claim.get("hardware") or "")
    found = [peak for peak in (row.fp32_tflops, row.tf32_tflops, row.half_dense_tflops) if peak] if row else []
    if not found:
        return None
    chips = int(claim.get("chips") or 1)
    return Peak(f"{chips} × {claim['hardware']}" if chips > 1 else claim["hardware"], chips * max(found))


def epoch_seconds(claim: Claim, whole: float) -> float | None:
    """The time of an epoch that a claim implies; None where it is about something else."""
    taken, covered = seconds(claim), examples(claim, whole)
    if taken is None or not covered or claim["metric"] == "first_epoch_time":
        return None
    per_epoch = examples({**claim, "metric": "epoch_time"}, whole)
    return None if per_epoch is None else taken / covered * per_epoch


def siblings(claim: Claim, claims: Sequence[Claim], metric: str) -> list[Claim]:
    """Other claims of the same source about the same thing."""
    return [
        other
        for other in claims
        if other is not claim and other["metric"] == metric and all(other[name] == claim[name] for name in SAME)
    ]

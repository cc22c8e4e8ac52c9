"""What a hardware sheet promises of a device: peak operations and bandwidth of all its replicas."""

import math
import re
from typing import NamedTuple

from whichdevice.config.model import Study
from whichdevice.tables.prices import Sheet, cores_of

# The column that holds the peak of such products; a "half" one only where half_type names the format.
COLUMNS = {"float32": "fp32_tflops", "tf32": "tf32_tflops"}
HALF = {"bfloat16": ("bf16",), "float16": ("fp16", "bf16")}  # tensor cores with bfloat16 do float16 as fast


class SheetPeak(NamedTuple):
    """Peaks by the sheet, in TFLOP/s and GB/s, None where it names none; `row` is the sheet's, with its source."""

    row: str | None = None
    tflops: float | None = None
    gigabytes: float | None = None
    source: str | None = None


def sheet_row(device: str, device_name: str | None, study: Study, sheet: Sheet) -> str | None:
    """The row that the config names for the device, else the one that fits its own name, else None."""
    named = study.devices[device].hardware if device in study.devices else None
    if named is not None and named in sheet:
        return named
    found = (
        name
        for name, row in sheet.items()
        if row.get("matches") and device_name and re.search(row["matches"], device_name)
    )
    return next(found, None)


def sheet_peak(row_name: str | None, product: str, replicas: int, cores: int | None, sheet: Sheet) -> SheetPeak:
    """Peaks of `replicas` replicas for products of one format.

    A processor's operations are those of the physical `cores` used; its bandwidth is that of as many whole sockets as
    hold these, for none can be given for some cores.
    """
    if row_name is None:
        return SheetPeak()
    row = sheet[row_name]
    has_half = row["half_type"].startswith(HALF.get(product, ("none of these",)))
    column = COLUMNS.get(product, "half_dense_tflops" if has_half else "")
    chips = 1 if row["kind"] == "cpu" else math.ceil(replicas / cores_of(row_name))
    share = float(chips)
    if row["kind"] == "cpu":
        share = cores / float(row["cores"]) if cores and row.get("cores") else math.nan
        chips = 1 if math.isnan(share) else math.ceil(share)
    tflops, gigabytes = _number(row.get(column, "")), _number(row["mem_bw_gbs"])
    return SheetPeak(
        row_name,
        None if tflops is None or math.isnan(share) else tflops * share,
        None if gigabytes is None else gigabytes * chips,
        f"{row['spec_source']} ({row['status']})",
    )


def _number(text: str) -> float | None:
    return float(text) if text else None

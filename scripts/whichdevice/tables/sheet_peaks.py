"""What a hardware sheet promises of a device: peak operations and bandwidth of all its replicas."""

import math
from typing import NamedTuple

from whichdevice.tables.prices import cores_of
from whichdevice.tables.sheet_rows import Sheet

# The half_type that a format needs for the 16-bit peak.
HALF = {"bfloat16": ("bf16",), "float16": ("fp16", "bf16")}  # tensor cores with bfloat16 do float16 as fast


class SheetPeak(NamedTuple):
    """Peaks by the sheet, in TFLOP/s and GB/s, None where it names none; `row` is the sheet's, with its source."""

    row: str | None = None
    tflops: float | None = None
    gigabytes: float | None = None
    source: str | None = None


def sheet_peak(row_name: str | None, product: str, replicas: int, cores: int | None, sheet: Sheet) -> SheetPeak:
    """Peaks of `replicas` replicas for products of one format.

    A replica on one of a chip's two cores has half of the chip. A processor's operations are those of the physical
    `cores` used; its bandwidth is that of as many whole sockets as hold these, for none can be given for some cores.
    """
    if row_name is None:
        return SheetPeak()
    row = sheet[row_name]
    has_half = row.half_type.startswith(HALF.get(product, ("none of these",)))
    peak = {"float32": row.fp32_tflops, "tf32": row.tf32_tflops}.get(product, row.half_dense_tflops if has_half else None)
    share = memories = replicas / cores_of(row_name)
    if row.kind == "cpu":
        share = cores / row.cores if cores and row.cores else math.nan
        memories = 1 if math.isnan(share) else math.ceil(share)
    return SheetPeak(
        row_name,
        None if peak is None or math.isnan(share) else peak * share,
        None if row.mem_bw_gbs is None else row.mem_bw_gbs * memories,
        f"{row.spec_source} ({row.status})",
    )

"""Table `roofline`: each cell against its device's limits, and its columns in `summary`.

Williams, Waterman and Patterson, "Roofline", 2009. Operations and bytes are analytic; the bytes assume a step
that keeps nothing in a cache from forward to backward and moves nothing twice: an estimate, mostly too low.
"""

import numpy as np
import pandas as pd

from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.limits import bytes_per_second, product_format
from whichdevice.tables.measured import without_rehearsals

UTILISATION: dict[str, Column] = {
    "mfu": Column(
        "float", "model FLOP utilisation: analytic operations / the best product of any backend in that format"
    ),
    "mfu_sheet": Column("float", "model FLOP utilisation against the sheet's peak"),
}
COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "kind": Column("text", "cpu, gpu or tpu"),
    "unit": Column("text", "what throughput counts"),
    "product": Column("text", "number format of the factors of products, as really used"),
    "flops_per_step": Column("float", "analytic floating-point operations of a step, all replicas"),
    "bytes_per_step": Column("float", "analytic estimate of the bytes that a step moves, all replicas; mostly too low"),
    "intensity": Column("float", "FLOP/byte: the ratio of those two, an estimate"),
    "tflops": Column("float", "TFLOP/s in steady state, geometric mean over processes"),
    "tflops_low": Column("float", "lower end of its 95 % interval"),
    "tflops_high": Column("float", "upper end of its 95 % interval"),
    **UTILISATION,
    "mfu_low": Column("float", "lower end of mfu's interval; the peak's own is in table limits"),
    "mfu_high": Column("float", "upper end"),
    "bandwidth_share": Column("float", "analytic bytes / s over the device's measured bandwidth: an estimate"),
    "roof_tflops": Column("float", "TFLOP/s that the measured roofs allow at this intensity"),
    "of_roof": Column("float", "tflops / roof_tflops"),
    "bound": Column("text", "which roof is lower at this intensity: compute or memory"),
    "note": Column("text", "what to keep in mind of the roofs"),
    "n": Column("int", "processes"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; operations and bytes are analytic"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return roofline_table(sources.cells, sources.table("limits"))


def roofline_table(summary: pd.DataFrame, limits: pd.DataFrame) -> pd.DataFrame:
    """A row for each measured cell whose operations are known, virtual replicas on one CPU left out."""
    cells = without_rehearsals(summary[(summary["n_timed"].fillna(0) > 0) & summary["tflops"].notna()])
    roofs = limits.drop_duplicates(["device", "product"])[
        ["device", "product", "device_peak_tflops", "device_bandwidth_gbs", "sheet_tflops"]
    ]
    cells = cells.assign(product=product_format(cells)).merge(roofs, on=["device", "product"], how="left")
    bandwidths = limits.groupby("device")["device_bandwidth_gbs"].max()  # whatever the format
    bandwidth = cells["device"].map(bandwidths).astype(float)
    noted = limits["note"].notna().groupby(limits["device"]).transform("all")  # not of one backend's stream alone
    notes = limits[noted].drop_duplicates("device").set_index("device")["note"]
    peak, scale = cells["device_peak_tflops"], cells["tflops"] / cells["throughput"]
    intensity = cells["flops_per_step"] / cells["bytes_per_step"].where(cells["bytes_per_step"] > 0)
    by_memory = intensity * bandwidth / 1e3
    roof = pd.concat([peak, by_memory], axis=1).min(axis=1, skipna=False)
    ends = {f"tflops_{end}": cells[f"throughput_{end}"] * scale for end in ("low", "high")}
    return table(
        cells.assign(
            intensity=intensity,
            **ends,
            mfu=cells["tflops"] / peak,
            **{f"mfu_{end}": ends[f"tflops_{end}"] / peak for end in ("low", "high")},
            mfu_sheet=cells["tflops"] / cells["sheet_tflops"],
            bandwidth_share=bytes_per_second(cells) / 1e9 / bandwidth,
            roof_tflops=roof,
            of_roof=cells["tflops"] / roof,
            bound=pd.Series(np.where(peak <= by_memory, "compute", "memory"), cells.index).where(roof.notna()),
            note=cells["device"].map(notes).where(bandwidth.notna()),
            n=cells["n_timed"],
        ),
        COLUMNS,
    )


def with_utilisation(summary: pd.DataFrame, roofline: pd.DataFrame) -> pd.DataFrame:
    """`summary` with the utilisation of each cell."""
    kept = roofline[[*CELL, *UTILISATION]]
    return summary.drop(columns=[name for name in UTILISATION if name in summary]).merge(kept, on=CELL, how="left")

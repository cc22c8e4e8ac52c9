"""Tables of limits: what a device can do, and how near each cell comes."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import Sources, columns_of, table
from whichdevice.study.tables.hardware import Sheet, sheet_peak, sheet_row, wrong_row
from whichdevice.study.tables.measured import enough_repeats, without_rehearsals
from whichdevice.study.tables.summary import cells_of_runs

WIDE = 3.0  # upper end over lower end, from which on an interval feeds no other number
TIMES_CACHE = 4  # STREAM's rule: each array at least so many times the last-level cache
WIDE_NOTE = "a number whose interval is wider than a factor of three sets no limit"
ENDS = ("", "_low", "_high")

LIMITS_COLUMNS = columns_of("limits")


@makes("what each device can do, measured: the best matrix product and the best memory stream", LIMITS_COLUMNS)
def make_limits(sources: Sources) -> pd.DataFrame:
    """Return table `limits`.

    A device's roofs are the best of all its backends: what one backend leaves unused is not the device's limit. Best is
    of the cells with enough good repeats; of a processor's streams, of those whose arrays no cache holds, where there
    are any.
    """
    return limits_table(sources.once(cells_of_runs), sources.table("runs"), sources.study, sources.sheet)


def limits_table(summary: pd.DataFrame, runs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for each device, backend and number format with a measured product or stream."""
    cells = without_rehearsals(summary[summary["n_timed"].fillna(0) > 0])
    is_stream = cells["unit"] == "gigabyte"
    host = runs.groupby("device")[["threads", "physical_cores", "last_level_cache"]].first()
    cells = cells.assign(
        product=_stored_format(cells).where(is_stream, product_format(cells)),
        tflops=cells["tflops"].where(~is_stream),
        gbs=(bytes_per_second(cells) / 1e9).where(is_stream),
        cached=is_stream & _in_cache(cells, host["last_level_cache"]),
    )
    rows = _limits(cells[is_stream | (cells["unit"] == "product")], host["last_level_cache"])
    return table([row | _by_sheet(row, host, study, sheet) for row in rows], LIMITS_COLUMNS)


def product_format(cells: pd.DataFrame) -> pd.Series:
    """Format of the factors of products, as really used; where a record does not say, as asked for."""
    return cells["type_product"].fillna(cells["precision"].str.removeprefix("mixed_"))


def _stored_format(streams: pd.DataFrame) -> pd.Series:
    """Format of a stream's arrays: TF32 is one of products, its operands are float32."""
    asked = streams["precision"].str.removeprefix("mixed_").replace("tf32", "float32")
    return streams["type_storage"].fillna(asked)


def bytes_per_second(cells: pd.DataFrame) -> pd.Series:
    """Return the counted bytes of a step over its time."""
    return cells["bytes_per_step"] / cells["step_time"]


def _limits(cells: pd.DataFrame, caches: pd.Series) -> Iterator[dict[str, Any]]:
    """Yield each backend's best product and stream in each format, with the limits of its device."""
    for device, of_device in cells.groupby("device", sort=False):
        streams = of_device[of_device["gbs"].notna()]
        stream = _best_stream(_narrow(streams))
        for product, of_format in of_device.groupby("product", sort=False):
            products = of_format[of_format["gbs"].isna()]
            peak = _best(_narrow(products), "tflops")
            limits = _device_limits(peak, stream)
            wide = len(_narrow(products)) < len(products) or len(_narrow(streams)) < len(streams)
            for backend, rows in of_format.groupby("backend", sort=False):
                best = [cell for cell in (_best(rows, "tflops"), _best_stream(rows)) if cell is not None]
                cached = any(cell is not None and cell["cached"] for cell in (*best, stream))
                cache = [_cache_note(caches[device])] if cached else []
                row = {"device": device, "backend": backend, "product": product, "evidence": "measured", **limits}
                for cell in best:
                    row |= {name: cell[name] for name in ("kind", "device_name", "replicas")} | _number(cell)
                yield row | {"note": "; ".join([*cache, *([WIDE_NOTE] if wide else [])]) or None}


def _device_limits(peak: pd.Series | None, stream: pd.Series | None) -> dict[str, float]:
    """Return the limits of a device by its best product in a format and its best stream."""
    tflops = float("nan") if peak is None else float(peak["tflops"])
    gbs = float("nan") if stream is None else float(stream["gbs"])
    return {"device_peak_tflops": tflops, "device_bandwidth_gbs": gbs, "ridge": 1e3 * tflops / gbs}


def _narrow(cells: pd.DataFrame) -> pd.DataFrame:
    """Cells whose interval spans no more than a factor of three, or that have none."""
    return cells[~(cells["step_time_high"] > WIDE * cells["step_time_low"])]


def _in_cache(streams: pd.DataFrame, caches: pd.Series) -> pd.Series:
    """Whether a processor's caches may hold much of the arrays; false where the system does not report their size."""
    needed = streams["device"].map(caches).astype("float64") * TIMES_CACHE
    return (streams["kind"] == "cpu") & (streams["batch_size"].astype("float64") * 2**20 < needed)


def _cache_note(cache: Any) -> str:
    words = f"the stream's arrays are below {TIMES_CACHE} times the last-level cache of {cache / 2**20:.0f} MiB"
    return f"{words}: part of the bandwidth may be the cache's"


def _best_stream(streams: pd.DataFrame) -> pd.Series | None:
    beyond = streams[~streams["cached"] & streams["gbs"].notna()]
    return _best(streams if beyond.empty else beyond, "gbs")


def _best(cells: pd.DataFrame, column: str) -> pd.Series | None:
    cells = cells[cells[column].notna()]
    cells = cells[enough_repeats(cells["n_timed"])]
    return None if cells.empty else cells.iloc[int(np.argmax(cells[column].to_numpy(float)))]


def _number(best: pd.Series) -> dict[str, Any]:
    """Return the cell's speed with its interval, from the interval of its throughput."""
    name, column = ("peak", "tflops") if best["unit"] == "product" else ("bandwidth", "gbs")
    scale = best[column] / best["throughput"]
    ends = {f"{name}_{column}{end}": best[f"throughput{end}"] * scale for end in ENDS}
    return ends | {f"{name}_size": best["batch_size"]}


def _by_sheet(row: dict[str, Any], host: pd.DataFrame, study: Study, sheet: Sheet) -> dict[str, Any]:
    name = row["device_name"] if pd.notna(row["device_name"]) else None
    counts = host.loc[host.index == row["device"], ["threads", "physical_cores"]].min(axis=1, skipna=False).dropna()
    cores = int(counts.iloc[0]) if len(counts) else None
    chosen = sheet_row(str(row["device"]), name, study, sheet)
    peak = sheet_peak(chosen, str(row["product"]), int(row["replicas"]), cores, sheet)
    return {
        "sheet": peak.row,
        "sheet_tflops": peak.tflops,
        "sheet_gbs": peak.gigabytes,
        "peak_of_sheet": row["device_peak_tflops"] / peak.tflops if peak.tflops else None,
        "sheet_source": peak.source or wrong_row(str(row["device"]), name, study, sheet),
    }


ROOFLINE_COLUMNS = columns_of("roofline")


@makes("each cell against its device's limits, and its columns in `summary`", ROOFLINE_COLUMNS)
def make_roofline(sources: Sources) -> pd.DataFrame:
    """Return table `roofline`.

    Williams, Waterman and Patterson, "Roofline", 2009. Operations and bytes are the forecasts' of the step: the bytes
    are what fused kernels move, an estimate for a framework that fuses less or keeps more in a cache.
    """
    return roofline_table(sources.once(cells_of_runs), sources.table("limits"))


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
            bound=pd.Series(np.where(peak <= by_memory, "compute", "memory"), cells.index).where(roof.notna()),
            note=cells["device"].map(notes).where(bandwidth.notna()),
            n=cells["n_timed"],
        ),
        ROOFLINE_COLUMNS,
    )

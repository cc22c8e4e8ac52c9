"""Table `costs`: money and energy of a million examples in steady state, one row per measured cell.

Money is the time at the price of the whole device; energy is all that the device's own meter counted from the first
timed window to the end of the last, the moments between them included: an upper bound. Start, compilation and warm-up
are in neither.
"""

from typing import Any

import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.measured import joined_sources, measured_values
from whichdevice.tables.sheet import SECONDS, Sheet, prices_of
from whichdevice.tables.statistics import geometric

MILLION = 1e6
NO_READING = "no meter: it was not read around the steady windows"

COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "device_name": Column("text", "name of the device"),
    "unit": Column("text", "what a million is of"),
    "n": Column("int", "runs behind the cost"),
    "usd_per_hour": Column("float", "US dollars for an hour of the whole device"),
    "price": Column("text", "where the price is from, or why there is none"),
    "usd_per_million": Column("float", "US dollars per million units, geometric mean over processes"),
    "usd_per_million_low": Column("float", "lower end of the 95 % interval: of the time, the price is taken as exact"),
    "usd_per_million_high": Column("float", "upper end of the 95 % interval"),
    "units_per_usd": Column("float", "units for one US dollar: a million / usd_per_million"),
    "units_per_usd_low": Column("float", "lower end of its 95 % interval"),
    "units_per_usd_high": Column("float", "upper end of its 95 % interval"),
    "n_metered": Column("int", "runs behind the energy"),
    "meter": Column("text", "which meter, or why none"),
    "watts": Column("float", "W, mean over the metered steady state, geometric mean over processes"),
    "joules_per_million": Column("float", "J per million units, geometric mean over processes"),
    "joules_per_million_low": Column("float", "lower end of the 95 % interval"),
    "joules_per_million_high": Column("float", "upper end of the 95 % interval"),
    "units_per_joule": Column("float", "units for one joule: a million / joules_per_million"),
    "units_per_joule_low": Column("float", "lower end of its 95 % interval"),
    "units_per_joule_high": Column("float", "upper end of its 95 % interval"),
    "joules_blur": Column("float", "share of the reading that the meter's own update time may hide, the largest"),
    "joules_between": Column("float", "share of the metered time that lies between timed windows, the largest"),
    "host_joules_per_million": Column("float", "J per million units of the processors of a GPU's or TPU's host"),
    "memory_joules_per_million": Column("float", "J per million units of the host's memory, where it has a counter"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters a cost"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return cost_table(sources.studied, sources.study, sources.sheet)


def cost_table(runs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for every cell with measured speed; what has no price or no meter says why."""
    good = with_energy(measured_values(runs))
    cell = good.groupby(CELL, sort=False, dropna=False).ngroup()
    first = good[~cell.duplicated()].set_index(cell[~cell.duplicated()])
    frame = first[[*CELL, "kind", "replicas", "device_name", "unit"]].copy()
    frame = frame.join(prices_of(frame, study, sheet))
    times = geometric(1 / good["throughput"], cell)
    hours = MILLION / SECONDS * frame["usd_per_hour"]
    frame["n"] = times["n"]
    frame[_bounds("usd_per_million")] = times[["mean", "low", "high"]].mul(hours, axis="index").to_numpy()
    joules = geometric(good["joules_per_unit"] * MILLION, cell)
    frame["n_metered"] = joules["n"]
    frame[_bounds("joules_per_million")] = joules[["mean", "low", "high"]].to_numpy()
    for per, name in (("units_per_usd", "usd_per_million"), ("units_per_joule", "joules_per_million")):
        frame[_bounds(per)] = (
            MILLION / frame[[name, f"{name}_high", f"{name}_low"]].replace(0.0, float("nan")).to_numpy()
        )
    frame["watts"] = geometric(good["steady_watts"], cell)["mean"]
    frame["joules_blur"] = (good["meter_update"] / good["metered_seconds"]).groupby(cell).max()
    frame["joules_between"] = (1 - good["seconds"] / good["metered_seconds"]).clip(lower=0).groupby(cell).max()
    for name in ("host", "memory"):
        joules_beside = good[f"{name}_watts"] * good["metered_time"]
        frame[f"{name}_joules_per_million"] = geometric(joules_beside * MILLION, cell)["mean"]
    read = good["meter"].where(good["joules_per_unit"].notna())  # a meter may have failed in one repeat alone
    frame["meter"] = read.groupby(cell).first().where(frame["n_metered"] > 0, _why(good, cell))
    frame["source"] = [joined_sources(rows) for _, rows in good["source"].groupby(cell)]
    return table(frame.assign(evidence="measured").reset_index(drop=True), COLUMNS)


def with_energy(good: pd.DataFrame) -> pd.DataFrame:
    """Rows of `runs` with column `joules_per_unit`, of all that the meter saw, and `metered_time` of a unit.

    The meter also sees the moments between windows, in which the next batches are drawn. Where the device has none,
    its host may have one: then `metered_time` is the time of the windows alone.
    """
    metered = good["metered_seconds"].fillna(good["seconds"]) / good["seconds"] / good["throughput"]
    return good.assign(metered_time=metered, joules_per_unit=good["steady_watts"] * metered)


def _bounds(name: str) -> list[str]:
    return [name, f"{name}_low", f"{name}_high"]


def _why(good: pd.DataFrame, cell: pd.Series) -> Any:
    """Why a cell has no energy: the first reason, or that the meter ran but was not read apart."""
    found = good["meter"].groupby(cell).first()
    return found.where(found.str.startswith("no meter").fillna(False), NO_READING)

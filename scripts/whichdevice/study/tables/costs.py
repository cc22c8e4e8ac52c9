"""Make table `costs`: money and energy of measured work."""

from dataclasses import fields
from typing import Any

import pandas as pd

from whichdevice.decide.decide import MILLION
from whichdevice.decide.measured import MeasuredCell
from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import geometric
from whichdevice.study.tables.hardware import SECONDS_AN_HOUR, Sheet, prices_of
from whichdevice.study.tables.measured import joined_sources, measured_values, without_rehearsals

NO_READING = "no meter: it was not read around the steady windows"

COSTS_COLUMNS = columns_of("costs")
JOULES = ("joules_per_million", "host_joules_per_million", "memory_joules_per_million")


@makes("money and energy of a million examples in steady state, one row per measured cell", COSTS_COLUMNS)
def make_costs(sources: Sources) -> pd.DataFrame:
    """Return table `costs`.

    Money is the time at the price of the whole device; energy is all that the device's own meter counted from the first
    timed window to the end of the last, the moments between them included: an upper bound. Start, compilation and
    warm-up are in neither.
    """
    return cost_table(sources.table("runs"), sources.study, sources.sheet)


def cost_table(runs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for every cell with measured speed; what has no price or no meter says why."""
    good = with_energy(measured_values(runs))
    cell = good.groupby(CELL, sort=False, dropna=False).ngroup()
    first = good[~cell.duplicated()].set_index(cell[~cell.duplicated()])
    frame = first[[*CELL, "kind", "replicas", "device_name", "model", "unit"]].copy()
    frame = frame.join(prices_of(frame, study, sheet))
    times = geometric(1 / good["throughput"], cell)
    hours = MILLION / SECONDS_AN_HOUR * frame["usd_per_hour"]
    frame["n"] = times["n"]
    frame[_bounds("usd_per_million")] = times[["mean", "low", "high"]].mul(hours, axis="index").to_numpy()
    joules = geometric(good["joules_per_unit"] * MILLION, cell)
    frame["n_metered"] = joules["n"]
    frame[_bounds("joules_per_million")] = joules[["mean", "low", "high"]].to_numpy()
    frame["watts"] = geometric(good["steady_watts"], cell)["mean"]
    frame["joules_blur"] = (good["meter_update"] / good["metered_seconds"]).groupby(cell).max()
    for name in ("host", "memory"):
        joules_beside = good[f"{name}_watts"] * good["metered_time"]
        frame[f"{name}_joules_per_million"] = geometric(joules_beside * MILLION, cell)["mean"]
    frame["pipeline"] = good["pipeline"].groupby(cell).first()
    frame["pipeline_time"] = (good["batch_size"] / good["pipeline_rate"]).groupby(cell).first()
    frame["pipeline_share"] = frame["pipeline_time"] / geometric(good["step_time"], cell)["mean"]
    read = good["meter"].where(good["joules_per_unit"].notna())  # a meter may have failed in one repeat alone
    frame["meter"] = read.groupby(cell).first().where(frame["n_metered"] > 0, _why(good, cell))
    frame["source"] = [joined_sources(rows) for _, rows in good["source"].groupby(cell)]
    return table(frame.assign(evidence="measured").reset_index(drop=True), COSTS_COLUMNS)


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
    meters = good["meter"].groupby(cell).first()
    return meters.where(meters.str.startswith("no meter").fillna(False), NO_READING)


def priced_cells(summary: pd.DataFrame, costs: pd.DataFrame) -> list[MeasuredCell]:
    """Return the cells that left a record, each with its price and power: what an answer reads of the measured ones."""
    prices = costs[[*CELL, "usd_per_hour", "price", "watts", *JOULES]]
    attempted = summary[summary["n_recorded"].fillna(0) > 0]
    priced = without_rehearsals(attempted).merge(prices, on=CELL, how="left")
    host_joules = priced["host_joules_per_million"].fillna(0.0) + priced["memory_joules_per_million"].fillna(0.0)
    priced["watts_beside"] = host_joules / priced["joules_per_million"] * priced["watts"]
    cells = priced[[field.name for field in fields(MeasuredCell)]].to_dict("records")
    return [MeasuredCell(**{str(name): value for name, value in cell.items() if not pd.isna(value)}) for cell in cells]

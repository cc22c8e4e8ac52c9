"""Tables of what work costs: money, energy and time, and which device is cheapest or fastest."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import FASTER, SLOWER, decided, geometric, paired
from whichdevice.study.tables.hardware import SECONDS_AN_HOUR, Sheet, prices_of
from whichdevice.study.tables.measured import (
    OPERATIONS,
    WORK,
    at_common_share,
    enough_repeats,
    joined_sources,
    measured_values,
    setting_text,
    without_rehearsals,
)

MILLION = 1e6
NO_READING = "no meter: it was not read around the steady windows"

COSTS_COLUMNS = columns_of("costs")


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
    frame = first[[*CELL, "kind", "replicas", "device_name", "unit"]].copy()
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
    frame["joules_between"] = (1 - good["seconds"] / good["metered_seconds"]).clip(lower=0).groupby(cell).max()
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


USD, JOULES = "usd_per_million", "joules_per_million"
MORE, LESS = "more", "less"

COST_CHOICES_COLUMNS = columns_of("cost_choices")


@makes("for each piece of work the cheapest and the lowest-energy settings of every device", COST_CHOICES_COLUMNS)
def make_cost_choices(sources: Sources) -> pd.DataFrame:
    """Return table `cost_choices`.

    A piece of work is one workload in one number format at the largest share of its data that most devices measured,
    for single operations of one size too. Backend, loop and batch size are free: of each device's settings with enough
    good repeats those with the lowest geometric mean stand here. They are chosen from the very repeats that are then
    compared, so that a device with many nearly equal settings is slightly favoured.
    """
    return cost_choice_table(sources.table("runs"), sources.study, sources.sheet)


def cost_choice_table(runs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for every quantity, piece of work and device with a number; with one device there is no ratio."""
    good = with_energy(at_common_share(without_rehearsals(measured_values(runs))))
    hourly = prices_of(good, study, sheet)["usd_per_hour"]
    values = {
        USD: MILLION / SECONDS_AN_HOUR / good["throughput"] * hourly,
        JOULES: good["joules_per_unit"] * MILLION,
    }
    parts = [part for name, value in values.items() for part in choices(good.assign(value=value), name)]
    return table(pd.concat(parts, ignore_index=True) if parts else [], COST_CHOICES_COLUMNS)


def choices(good: pd.DataFrame, quantity: str) -> Iterator[pd.DataFrame]:
    """The rows of one quantity, a family, of runs with column `value`; nothing where no run has a number."""
    good = good[good["value"] > 0]
    if good.empty:
        return
    size = good["batch_size"].where(good["unit"].isin(OPERATIONS), 0)
    work = good.groupby([*(good[name] for name in [*WORK, "model"]), size], dropna=False, sort=False).ngroup()
    choice = pd.Series(list(zip(work, good["device"], strict=True)), good.index)
    cell = good.groupby(CELL, dropna=False, sort=False).ngroup()
    logs = pd.Series(np.log(good["value"].astype("float64")), good.index)
    means = logs.groupby(cell).transform("mean")
    complete = means.where(enough_repeats(cell.groupby(cell).transform("size"), choice))
    chosen = good[cell == cell.loc[complete.groupby(choice).transform("idxmin")].to_numpy()]
    cell, work, means = cell.loc[chosen.index], work.loc[chosen.index], means.loc[chosen.index]
    lowest = chosen["device"].loc[means.groupby(work).transform("idxmin")].set_axis(chosen.index)
    first = chosen[~cell.duplicated()].set_index(cell[~cell.duplicated()])
    bounds = geometric(chosen["value"], cell)
    yield (
        first[[*CELL, "unit", "model"]]
        .assign(
            quantity=quantity,
            value=bounds["mean"],
            value_low=bounds["low"],
            value_high=bounds["high"],
            n_value=bounds["n"],
            lowest=lowest.groupby(cell).first(),
            source=pd.Series({key: joined_sources(rows) for key, rows in chosen["source"].groupby(cell)}),
            evidence="measured",
        )
        .join(_judged(chosen.assign(cell=cell, work=work, lowest=lowest)))
    )


def _judged(chosen: pd.DataFrame) -> pd.DataFrame:
    """Each device's choice against the lowest, repeat by repeat."""
    kept = ["work", "repeat", "value", "machine", "session"]
    base = chosen.loc[chosen["device"] == chosen["lowest"], kept]
    pairs = chosen[chosen["device"] != chosen["lowest"]].merge(base, on=["work", "repeat"], suffixes=("", "_base"))
    if pairs.empty:
        return pd.DataFrame(index=pd.Index([], name="cell"))
    logs = pd.Series(np.log(pairs["value"] / pairs["value_base"]), pairs.index)
    judged = decided(paired(logs, pairs["cell"]))
    judged["verdict"] = judged["verdict"].replace({FASTER: MORE, SLOWER: LESS})
    both = pd.concat(
        [
            pairs[["cell", "machine", "session"]],
            pairs[["cell", "machine_base", "session_base"]].set_axis(["cell", "machine", "session"], axis="columns"),
        ]
    )
    counts = both.groupby("cell")[["machine", "session"]].nunique()
    judged["setting"] = pd.Series(
        {key: setting_text(*row) for key, row in zip(counts.index, counts.to_numpy(), strict=True)}
    )
    return judged


PER_MILLION = "seconds_per_million"

FASTEST_COLUMNS = columns_of("fastest")


@makes("for each piece of work the fastest settings of every device, compared", FASTEST_COLUMNS)
def make_fastest(sources: Sources) -> pd.DataFrame:
    """Return table `fastest`.

    Table `cost_choices` defines a piece of work, and how settings are chosen and judged; here time is the cost.
    """
    return fastest_table(sources.table("runs"))


def fastest_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for every piece of work and device that measured it, at the largest share of the data most of them did."""
    good = at_common_share(without_rehearsals(measured_values(runs)))
    parts = list(choices(good.assign(value=MILLION / good["throughput"]), PER_MILLION))
    return table(pd.concat(parts, ignore_index=True) if parts else [], FASTEST_COLUMNS)

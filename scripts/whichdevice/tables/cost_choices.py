"""Table `cost_choices`: for each piece of work the cheapest and the lowest-energy settings of every device, compared.

A piece of work is one workload in one number format at the largest share of its data that most devices measured, for
single operations of one size too. Backend, loop and batch size are free: of each device's settings with enough good
repeats those with the lowest geometric mean stand here. They are chosen from the very repeats that are then compared,
so that a device with many nearly equal settings is slightly favoured.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd

from whichdevice.config.model import Study
from whichdevice.tables.base import CELL, CELL_COLUMNS, Column, Sources, table
from whichdevice.tables.costs import MILLION, with_energy
from whichdevice.tables.measured import (
    OPERATIONS,
    SETTING,
    WORK,
    at_common_share,
    enough_repeats,
    joined_sources,
    measured_values,
    setting_text,
    without_rehearsals,
)
from whichdevice.tables.sheet import SECONDS, Sheet, prices_of
from whichdevice.tables.statistics import DECISION_COLUMNS, FASTER, SLOWER, decided, geometric, paired

USD, JOULES = "usd_per_million", "joules_per_million"
MORE, LESS = "more", "less"

COLUMNS: dict[str, Column] = {
    "quantity": Column("text", f"{USD} or {JOULES}; all rows of one are one family"),
    **CELL_COLUMNS,
    "unit": Column("text", "what a million is of"),
    "model": Column(
        "text", "workload file, weights and operations of an example; two models of one name are two works"
    ),
    "value": Column("float", "US dollars or joules per million units, geometric mean over processes"),
    "value_low": Column("float", "lower end of the 95 % interval"),
    "value_high": Column("float", "upper end of the 95 % interval"),
    "n_value": Column("int", "runs behind it"),
    "lowest": Column("text", "the device with the lowest geometric mean for this work"),
    "ratio": Column("float", "this device / the lowest, above 1 takes more; geometric mean of paired repeats"),
    "ratio_low": Column("float", "lower end of the 95 % interval"),
    "ratio_high": Column("float", "upper end of the 95 % interval"),
    **DECISION_COLUMNS,
    "verdict": Column("text", f"{MORE} or {LESS} than the lowest, same within 5 % or undecided, by the rule of speeds"),
    "n": Column("int", "pairs"),
    "setting": SETTING,
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured; no other evidence enters this table"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return cost_choice_table(sources.studied, sources.study, sources.sheet)


def cost_choice_table(runs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for every quantity, piece of work and device with a number; with one device there is no ratio."""
    good = with_energy(at_common_share(without_rehearsals(measured_values(runs))))
    hourly = prices_of(good, study, sheet)["usd_per_hour"]
    values = {
        USD: MILLION / SECONDS / good["throughput"] * hourly,
        JOULES: good["joules_per_unit"] * MILLION,
    }
    parts = [part for name, value in values.items() for part in choices(good.assign(value=value), name)]
    return table(pd.concat(parts, ignore_index=True) if parts else [], COLUMNS)


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

"""Make table `time_to_target`.

The config's `target` wins on any data. A recipe's target is what its publication reached, to two digits on the easy
side; it counts on the real data. On stand-in data, whose qualities say nothing about the real ones, a recipe may have
one that was chosen here, or none.

A run reaches the target with the first epoch that ends at or beyond it; one that never does counts as never, for the
epochs that it was given, also where measure.timeout ended it: left out, the slow ones would. Each run learns with its
own seed. A run that failed otherwise says nothing of how long learning takes.
"""

from typing import NamedTuple

import numpy as np
import pandas as pd

from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Target
from whichdevice.study.config.model import Study
from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import geometric
from whichdevice.study.tables.hardware import SECONDS_AN_HOUR, Sheet, prices_of
from whichdevice.study.tables.measured import disturbed

STANDIN = "standin"
LEARNED = ("ok", "timed_out")  # statuses of runs whose epochs count
START_PARTS = ["start", "initialise", "load", "build", "first_step"]
TAKEN = ["epochs", "seconds", "seconds_from_start", "joules", "usd"]
TARGET_COLUMNS = columns_of("time_to_target")


class Goal(NamedTuple):
    """A target as it is applied to runs: `value` of `quantity`, a column of table `epochs`; or why there is none."""

    value: float | None
    quantity: str
    higher_is_better: bool
    source: str


def goal_of(
    study: Study, workload: str, source: str | None, metric: str | None, higher_is_better: bool, validated: bool
) -> Goal:
    """Return the target for runs of a workload, by the data that they read and what they recorded of each epoch."""
    kind = "loss" if metric is None else "metric"
    higher = higher_is_better and metric is not None
    configured = study.workloads[workload].target if workload in study.workloads else None
    if configured is not None:
        place = f"config: workloads.{workload}.target"
        return Goal(configured, f"validation_{kind}" if validated else kind, higher, place)
    target = recipe_target(study, workload)
    quantity = kind if target is not None and target.training else f"validation_{kind}"
    missing = f"set workloads.{workload}.target"
    if target is None:
        return Goal(None, quantity, higher, f"no target: {missing}")
    if not target.training and not validated:
        return Goal(None, quantity, higher, f"no target: the published one is of validation data; {missing}")
    if source == STANDIN and target.standin is None:
        return Goal(None, quantity, higher, f"no target on stand-in data: {missing}")
    if source == STANDIN:
        return Goal(target.standin, quantity, higher, "chosen for stand-in data; nobody published it")
    return Goal(target.value, quantity, higher, target.source if target.own else f"published: {target.source}")


def recipe_target(study: Study, workload: str) -> Target | None:
    """The target of a workload's recipe; None without one, or where its file is gone."""
    module = study.workloads[workload].module if workload in study.workloads else None
    model = Model.find(module or workload)
    return None if model is None else model.recipe.target


@makes("what it takes until a cell's runs first reach the quality that their workload has to reach", TARGET_COLUMNS)
def make_time_to_target(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return time_to_target_table(sources.table("runs"), sources.table("epochs"), sources.study, sources.sheet)


def time_to_target_table(runs: pd.DataFrame, epochs: pd.DataFrame, study: Study, sheet: Sheet) -> pd.DataFrame:
    """A row for every cell and data source whose runs learned; where there is no target, its row says why."""
    good = runs[runs["status"].isin(LEARNED) & (runs["evidence"] == "measured") & runs["run"].isin(epochs["run"])]
    good = good.reset_index(drop=True)
    cell = good.groupby([*CELL, "source"], dropna=False, sort=False).ngroup()
    curves = _curves(good, epochs, cell, study)
    prices = prices_of(good, study, sheet)
    taken = _taken(good, curves, prices["usd_per_hour"])
    kept = ~cell.duplicated()
    frame = good.loc[kept, [*CELL, "kind", "device_name", "metric", "source", "meter"]].set_index(cell[kept])
    by_cell = curves.groupby("cell")
    for name in ("target", "quantity", "target_source", "higher"):
        frame[name] = by_cell[name].first()
    frame["better"] = frame["higher"].map({True: "higher", False: "lower"})
    frame["best"] = by_cell["quality"].max().where(frame["higher"], by_cell["quality"].min())
    frame["n"], frame["n_seeds"] = good.groupby(cell).size(), good["seed"].groupby(cell).nunique()
    frame["n_timed_out"] = (good["status"] == "timed_out").astype(int).groupby(cell).sum()
    frame["n_disturbed"] = disturbed(good).astype(int).groupby(cell).sum()
    frame["given_epochs"] = curves.groupby("place").size().groupby(cell).min()
    frame["n_reached"] = np.isfinite(taken["epochs"]).groupby(cell).sum().where(frame["target"].notna())
    frame["price"] = prices.loc[kept, "price"].set_axis(cell[kept])
    frame = frame.join(_over_runs(taken, cell).where(frame["target"].notna()))
    return table(frame.assign(evidence="measured"), TARGET_COLUMNS).reset_index(drop=True)


def _curves(good: pd.DataFrame, epochs: pd.DataFrame, cell: pd.Series, study: Study) -> pd.DataFrame:
    """The epochs of all runs in order, each with its run's place and cell, its target and its quality of that kind."""
    place = pd.Series(good.index, good["run"])
    curves = epochs[epochs["run"].isin(place.index)]
    curves = curves.assign(place=curves["run"].map(place)).sort_values(["place", "epoch"], kind="stable")
    curves = curves.assign(cell=cell.loc[curves["place"]].to_numpy())
    curves = curves.join(_goals(good, curves, cell, study), on="cell")
    quality = pd.Series(np.nan, curves.index)
    for name, part in curves.groupby("quantity"):
        quality.loc[part.index] = part[name]
    there = (quality >= curves["target"]).where(curves["higher"].astype(bool), quality <= curves["target"])
    return curves.assign(quality=quality, there=there)


def _goals(good: pd.DataFrame, curves: pd.DataFrame, cell: pd.Series, study: Study) -> pd.DataFrame:
    """The target of each cell: columns target, quantity, higher and target_source."""
    timed = curves["validation_seconds"].notna()  # a diverged run was validated, and has no loss
    validated = timed.groupby(curves["place"]).any().groupby(cell).all()
    better = curves["higher_is_better"].fillna(True).groupby(curves["cell"]).first()
    kept = ~cell.duplicated()
    first = good.loc[kept, ["workload", "source", "metric"]].astype("object").set_index(cell[kept]).sort_index()
    known = first.where(first.notna(), None).itertuples(index=False, name=None)
    goals = [
        goal_of(study, workload, source, metric, bool(higher), bool(checked))
        for (workload, source, metric), higher, checked in zip(known, better, validated, strict=True)
    ]
    goals_found = pd.DataFrame(goals, index=first.index, columns=list(Goal._fields)).astype({"value": "float64"})
    return goals_found.set_axis(["target", "quantity", "higher", "target_source"], axis="columns")


def _taken(good: pd.DataFrame, curves: pd.DataFrame, hourly: pd.Series) -> pd.DataFrame:
    """Return what each run took, by its place; infinite if it never reached the target, missing if nobody counted."""
    spent = curves["seconds"] + curves["validation_seconds"].fillna(0.0)
    sums = pd.DataFrame({"epochs": 1.0, "seconds": spent, "joules": curves["joules"]}).groupby(curves["place"]).cumsum()
    reached = curves[curves["there"]].drop_duplicates("place")
    taken = sums.loc[reached.index].set_index(reached["place"].to_numpy()).reindex(good.index, fill_value=np.inf)
    start = good[START_PARTS].astype("float64").sum(axis=1, skipna=False)
    taken["seconds_from_start"] = (taken["seconds"] + start).where(np.isfinite(taken["epochs"]), np.inf)
    taken["usd"] = (taken["seconds_from_start"] / SECONDS_AN_HOUR * hourly).where(np.isfinite(taken["epochs"]), np.inf)
    metered = curves["joules"].notna().groupby(curves["place"]).all()
    taken["joules"] = taken["joules"].where(metered)
    taken["usd"] = taken["usd"].where(hourly.notna())
    return taken[TAKEN]


def _over_runs(taken: pd.DataFrame, cell: pd.Series) -> pd.DataFrame:
    """Medians of what every run of a cell counted; means and intervals only of what every run reached."""
    columns = {}
    for name in TAKEN:
        values = taken[name]
        columns[f"{name}_median"] = values.groupby(cell).median().where(values.notna().groupby(cell).all())
        means = geometric(values.where(np.isfinite(values)), cell).where(np.isfinite(values).groupby(cell).all())
        columns |= {name: means["mean"], f"{name}_low": means["low"], f"{name}_high": means["high"]}
    return pd.DataFrame(columns)

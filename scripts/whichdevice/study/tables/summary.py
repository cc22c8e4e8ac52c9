"""Make table `summary`."""

from typing import Any

import pandas as pd

from whichdevice.study.tables import makes
from whichdevice.study.tables.base import CELL, Sources, columns_of, table
from whichdevice.study.tables.decision_rule import arithmetic, geometric, noise_split
from whichdevice.study.tables.measured import disturbed, timed
from whichdevice.study.tables.runs import NOT_MEASURED, PIPELINE_COLUMNS

INTERVALS = ["step_time", "throughput", "latency_p50", "latency_p99", "prefill_time", "epoch_time", "first_step"]
GEOMETRIC = ["tflops", "cold_tflops", "start", "initialise", "load", "build"]
LEARNED = ["learning_time", "training_metric", "validation_metric", "loss", "validation_loss"]
LEARNED_BOUNDS = ["validation_metric", "validation_loss"]
FIRST = [
    "metric", "unit", "kind", "replicas", "module", "mode", "parameters", "training_examples", "steps_per_epoch",
    "steps_per_sequence", "flops_per_step", "bytes_per_step", "prompt", "cache_bytes", "host_memory", *PIPELINE_COLUMNS,
]  # fmt: skip
JOINED = ["source", "device_name", *columns_of("types")]
UTILISATION = columns_of("utilisation")
SUMMARY_COLUMNS = columns_of("summary")


@makes("one row per cell, its repeats as one number with an interval", SUMMARY_COLUMNS)
def make_summary(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return table(_with_utilisation(sources.once(cells_of_runs), sources.table("roofline")), SUMMARY_COLUMNS)


def cells_of_runs(sources: Sources) -> pd.DataFrame:
    """Return the table before table `roofline`, which is made from it, adds its columns."""
    return summary_table(sources.table("runs"))


def _with_utilisation(summary: pd.DataFrame, roofline: pd.DataFrame) -> pd.DataFrame:
    """`summary` with the utilisation of each cell."""
    kept = roofline[[*CELL, *UTILISATION]]
    return summary.drop(columns=[name for name in UTILISATION if name in summary]).merge(kept, on=CELL, how="left")


def summary_table(runs: pd.DataFrame) -> pd.DataFrame:
    """Summarise `runs` by cell, in its order.

    Speeds are of `timed` runs; learning is of the runs that ended well.
    """
    runs = runs[runs["workload"].notna()]
    cell = runs.groupby(CELL, sort=False, dropna=False).ngroup()
    first = runs.groupby(cell, sort=False).first()
    good = timed(runs)
    of = cell.loc[good.index]
    frame = first[CELL].copy()
    frame["n"] = runs.groupby(cell, sort=False).size()
    frame["n_recorded"] = (runs["status"] != NOT_MEASURED).astype(int).groupby(cell, sort=False).sum()
    ended = good[good["status"] == "ok"]
    frame["n_ok"] = ended.groupby(of.loc[ended.index]).size().reindex(frame.index, fill_value=0)
    frame["n_timed"] = good.groupby(of).size().reindex(frame.index, fill_value=0)
    frame["evidence"] = pd.Series("measured", frame.index).where(frame["n_timed"] > 0)
    frame["n_disturbed"] = disturbed(good).astype(int).groupby(of).sum()
    frame["n_trending"] = good["trend"].isin(["rising", "falling"]).astype(int).groupby(of).sum()
    frame["n_untested"] = good["trend"].isna().astype(int).groupby(of).sum()
    for name in INTERVALS:
        means = geometric(good[name], of)
        frame[[name, f"{name}_low", f"{name}_high"]] = means[["mean", "low", "high"]].reindex(frame.index)
    frame[list(columns_of("noise"))] = noise_split(good, of).reindex(frame.index)
    for name in GEOMETRIC:
        frame[name] = geometric(good[name], of)["mean"]
    frame = frame.join(_learned(ended, of.loc[ended.index]))
    for name in ["peak_host", "peak_device"]:
        frame[name] = good[name].astype("float64").groupby(of).max()
    known = runs.groupby(cell, sort=False)[FIRST].first()  # the first that is not missing
    frame[FIRST] = known
    for name in JOINED:
        frame[name] = _joined(good[name], of)
    frame["status"] = _status(runs, cell)
    frame["n_too_large"] = runs["status"].isin(["out_of_memory", "refused"]).astype(int).groupby(cell, sort=False).sum()
    return table(frame.reset_index(drop=True), SUMMARY_COLUMNS)


def _learned(good: pd.DataFrame, of: pd.Series) -> pd.DataFrame:
    """Return what the runs of each cell learned; no mean over some alone, which would hide those that diverged."""
    learned = good[good["learned_epochs"].notna()]
    of = of.loc[learned.index]
    epochs, known = learned["learned_epochs"].groupby(of), learned[LEARNED].notna()
    validated = known["validation_loss"].groupby(of).transform("any")
    diverged = ~known["loss"] | (validated & ~known["validation_loss"])
    counts = pd.DataFrame({"n_learned": epochs.size(), "n_diverged": diverged.astype(int).groupby(of).sum()})
    counts["n_cut"] = learned["cut"].fillna(False).astype(int).groupby(of).sum()
    counts["learned_epochs"], counts["fewest_epochs"] = epochs.max(), epochs.min()
    values = learned[LEARNED].astype("float64").where(known.groupby(of).transform("all"))
    counts = counts.join(values.groupby(of).mean())
    for name in LEARNED_BOUNDS:
        counts[[f"{name}_low", f"{name}_high"]] = arithmetic(values[name], of)
    return counts


def _joined(values: pd.Series, groups: pd.Series) -> pd.Series:
    present = values.dropna().astype("object")
    return present.groupby(groups.loc[present.index]).agg(lambda texts: " + ".join(dict.fromkeys(texts)))


def _status(runs: pd.DataFrame, cell: pd.Series) -> pd.Series:
    """`ok`, or the counts of each other status with the first reason."""
    text: dict[Any, str] = {}
    size = cell.value_counts()
    bad = runs[runs["status"] != "ok"]
    for key, group in bad.groupby(cell.loc[bad.index], sort=False):
        counts = group["status"].value_counts(sort=False)
        parts = ", ".join(f"{count} {str(status).replace('_', ' ')}" for status, count in counts.items())
        reasons = group["reason"].dropna()
        reason = f": {reasons.iloc[0]}" if len(reasons) else ""
        if len(counts) == 1 and counts.index[0] == NOT_MEASURED and len(group) == size[key]:
            text[key] = f"not measured{reason}"
        else:
            text[key] = f"{size[key] - len(group)} of {size[key]} ok, {parts}{reason}"
    return pd.Series(text, dtype="object").reindex(size.index).fillna("ok")

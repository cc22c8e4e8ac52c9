"""Make table `summary`."""

from collections.abc import Mapping
from typing import Any

import pandas as pd

from whichdevice.tables import makes
from whichdevice.tables.base import CELL, CELL_COLUMNS, TYPE_COLUMNS, Column, Sources, table
from whichdevice.tables.decision_rule import NOISE_SUMMARY_COLUMNS as NOISE_COLUMNS
from whichdevice.tables.decision_rule import arithmetic, geometric, noise_split
from whichdevice.tables.measured import disturbed, timed
from whichdevice.tables.runs import NOT_MEASURED, PIPELINE_COLUMNS

COLD = ["start", "initialise", "load", "build", "first_step", "warm_up"]
TIME_COLUMNS = {
    "epoch_time": "s, computed: steps per epoch x step time, geometric mean",
    "first_epoch_time": "s, computed: first step and the rest at steady speed, geometric mean",
}
LATENCY = {
    "latency_p50": "ms, mode predict: median time of a call, geometric mean over processes",
    "latency_p99": "ms, mode predict: 99th percentile, geometric mean over processes; empty: fewer than 100 calls",
}
PREFILL = {
    "prefill_time": "s, mode generate: the prompts of a batch, geometric mean over processes",
    "prefill_throughput": "tokens of the prompts per second, geometric mean over processes",
}
INTERVALS = ["step_time", "throughput", *LATENCY, *PREFILL, *TIME_COLUMNS, *COLD]
GEOMETRIC = ["tflops", "cold_tflops"]
LEARNED = {
    "learned_epoch_time": "s, learned epochs without the first, training only, mean",
    "validation_time": "s, validation after each of these epochs, mean",
    "learning_time": "s, all learned epochs with validation, mean",
    "training_metric": "training quality at the end, mean over learning repeats",
    "validation_metric": "validation quality at the end, mean over learning repeats",
    "loss": "training loss at the end, mean over learning repeats",
    "validation_loss": "validation loss at the end, mean over learning repeats",
}
ENDS = {"low": "lower", "high": "upper"}
LEARNED_BOUNDS = ["learned_epoch_time", "validation_metric", "validation_loss"]
FIRST = [
    "metric",
    "unit",
    "kind",
    "replicas",
    "module",
    "mode",
    "parameters",
    "training_examples",
    "steps_per_epoch",
    "steps_per_sequence",
    "flops_per_step",
    "bytes_per_step",
    "prompt",
    "cache_bytes",
    "host_memory",
    *PIPELINE_COLUMNS,
]
JOINED = ["source", "device_name", *TYPE_COLUMNS]


def _ends(name: str) -> dict[str, Column]:
    return {f"{name}_{end}": Column("float", f"{words} end of its 95 % interval") for end, words in ENDS.items()}


def _bounded(texts: Mapping[str, str]) -> dict[str, Column]:
    """Each mean and both ends of its 95 % interval."""
    columns: dict[str, Column] = {}
    for name, text in texts.items():
        columns |= {name: Column("float", text), **_ends(name)}
    return columns


UTILISATION: dict[str, Column] = {
    "mfu": Column(
        "float", "model FLOP utilisation: analytic operations / the best product of any backend in that format"
    ),
    "mfu_sheet": Column("float", "model FLOP utilisation against the sheet's peak"),
}
SUMMARY_COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "module": Column("text", "workload file"),
    "mode": Column("text", "train, predict or generate; empty: a single operation, or no record"),
    "status": Column("text", "what became of the cell's runs"),
    "n_too_large": Column("int", "runs that ran out of memory or were refused for it"),
    "evidence": Column("text", "measured; only such runs enter this table's numbers"),
    "n_ok": Column("int", "runs that ended well"),
    "n_timed": Column("int", "runs behind the speed: these, and those that ran out of time after a whole steady state"),
    "n_recorded": Column("int", "runs that left a record"),
    "n": Column("int", "runs asked for"),
    "n_disturbed": Column(
        "int", "runs disturbed by the machine, also when repeated, or while they learned; they count"
    ),
    "n_trending": Column("int", "runs whose step times still had a trend at the end; they count"),
    "n_untested": Column("int", "runs with too few windows to test for a trend; they count"),
    "unit": Column("text", "what throughput counts"),
    "step_time": Column("float", "s, geometric mean over processes"),
    "step_time_low": Column("float", "s, lower end of the 95 % interval"),
    "step_time_high": Column("float", "s, upper end of the 95 % interval"),
    "throughput": Column("float", "units per second, geometric mean over processes"),
    "throughput_low": Column("float", "units per second, lower end of the 95 % interval"),
    "throughput_high": Column("float", "units per second, upper end of the 95 % interval"),
    **_bounded(LATENCY),
    **_bounded(PREFILL),
    "prompt": Column("int", "mode generate: tokens of each prompt"),
    "cache_bytes": Column("float", "bytes of the batch's keys and values"),
    **NOISE_COLUMNS,
    "tflops": Column("float", "TFLOP/s in steady state, geometric mean"),
    **UTILISATION,
    "cold_tflops": Column("float", "TFLOP/s of the first step, compilation included, geometric mean"),
    **_bounded(TIME_COLUMNS),
    **_bounded({name: f"s, {name.replace('_', ' ')}, geometric mean" for name in COLD}),
    "n_learned": Column("int", "runs that learned; what they learned has a mean only where each of them has a number"),
    "n_diverged": Column("int", "of these runs, those whose training or validation loss ended as no number"),
    "n_cut": Column("int", "of these runs, those that train.seconds ended before their epochs were over"),
    "learned_epochs": Column("float", "epochs of the run that learned most"),
    "fewest_epochs": Column("float", "epochs of the run that learned fewest"),
    "metric": Column("text", "name of the quality metric"),
    **{name: Column("float", text) for name, text in LEARNED.items()},
    **{name: column for bound in LEARNED_BOUNDS for name, column in _ends(bound).items()},
    "peak_host": Column("float", "bytes, largest peak memory of the process; of PyTorch's one per replica, added up"),
    "host_memory": Column("float", "bytes, memory of the host"),
    "peak_device": Column("float", "bytes, largest peak memory on the device"),
    "parameters": Column("int", "weights"),
    "training_examples": Column("int", "training examples used"),
    "steps_per_epoch": Column("int", "steps per epoch"),
    "steps_per_sequence": Column("int", "length of the sequences really used, recurrent workloads"),
    "flops_per_step": Column("float", "analytic floating-point operations of a step, all replicas"),
    "bytes_per_step": Column("float", "analytic estimate of the bytes that a step moves, all replicas; mostly too low"),
    **PIPELINE_COLUMNS,
    "source": Column("text", "where the data came from"),
    "device_name": Column("text", "name of the device"),
    **TYPE_COLUMNS,
}


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
    frame[list(NOISE_COLUMNS)] = noise_split(good, of).reindex(frame.index)
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
    epochs, known = learned["learned_epochs"].groupby(of), learned[list(LEARNED)].notna()
    validated = known["validation_loss"].groupby(of).transform("any")
    diverged = ~known["loss"] | (validated & ~known["validation_loss"])
    counts = pd.DataFrame({"n_learned": epochs.size(), "n_diverged": diverged.astype(int).groupby(of).sum()})
    counts["n_cut"] = learned["cut"].fillna(False).astype(int).groupby(of).sum()
    counts["learned_epochs"], counts["fewest_epochs"] = epochs.max(), epochs.min()
    values = learned[list(LEARNED)].astype("float64").where(known.groupby(of).transform("all"))
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

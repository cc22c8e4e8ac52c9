"""Table `generation`: time of the prompts and of single tokens, one row per measured cell of mode generate.

A decoding step makes one token of each sequence in the batch; the prompt is the first half of each sequence.
"""

import pandas as pd

from whichdevice.tables.base import CELL_COLUMNS, Column, Sources, table, with_intervals

BOUNDED = {
    "prefill_time": "s, the prompts of a batch, geometric mean over processes",
    "prefill_throughput": "tokens of the prompts per second",
    "step_time": "s, a token of each sequence, geometric mean over processes",
    "throughput": "generated tokens per second, all sequences",
}
COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "batch_size": Column("int", "sequences, over all replicas"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "device_name": Column("text", "name of the device"),
    "module": Column("text", "workload file"),
    "prompt": Column("int", "tokens of each prompt"),
    "n_timed": Column("int", "processes"),
    **with_intervals(BOUNDED),
    "cache_bytes": Column("float", "bytes of the batch's keys and values at their full length"),
    "peak_host": Column("float", "bytes, largest peak memory of the process, cache included"),
    "peak_device": Column("float", "bytes, largest peak memory on the device, cache included"),
    "flops_per_step": Column("float", "analytic floating-point operations of a decoding step"),
    "n_disturbed": Column("int", "processes disturbed by the machine; they count"),
    "evidence": Column("text", "measured"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return generation_table(sources.table("summary"))


def generation_table(summary: pd.DataFrame) -> pd.DataFrame:
    """The measured cells of table `summary` that generate, in its order."""
    generated = summary["mode"].eq("generate").fillna(False) & (summary["n_timed"].fillna(0) > 0)
    return table(summary[generated].reset_index(drop=True), COLUMNS)

"""Tables of inference: predictions and generated tokens."""

import pandas as pd

from whichdevice.tables import makes
from whichdevice.tables.base import CELL_COLUMNS, Column, Sources, table, with_intervals

INFERENCE_BOUNDED = {
    "latency_p50": "ms, median time of a call, geometric mean over processes",
    "latency_p99": "ms, 99th percentile, geometric mean over processes; empty: a process timed fewer than 100 calls",
    "throughput": "predictions per second, geometric mean over processes",
    "first_step": "s, trace, compilation and the first call, geometric mean over processes",
}
INFERENCE_COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "batch_size": Column("int", "examples in a call, over all replicas"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "device_name": Column("text", "name of the device"),
    "module": Column("text", "workload file"),
    "n_timed": Column("int", "processes"),
    **with_intervals(INFERENCE_BOUNDED),
    "flops_per_step": Column("float", "analytic floating-point operations of a call, forward pass alone"),
    "n_disturbed": Column("int", "processes disturbed by the machine; they count"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured"),
}


@makes("latency and throughput of predictions, one row per measured cell of mode predict", INFERENCE_COLUMNS)
def make_inference(sources: Sources) -> pd.DataFrame:
    """Return table `inference`.

    A call is one batch from inputs in host memory to predictions in host memory; the next one begins when it has ended.
    So throughput is batch size over mean latency, without batches on their way at the same time.
    """
    return inference_table(sources.table("summary"))


def inference_table(summary: pd.DataFrame) -> pd.DataFrame:
    """The measured cells of table `summary` that predict, in its order."""
    predicted = summary["mode"].eq("predict").fillna(False) & (summary["n_timed"].fillna(0) > 0)
    return table(summary[predicted].reset_index(drop=True), INFERENCE_COLUMNS)


GENERATION_BOUNDED = {
    "prefill_time": "s, the prompts of a batch, geometric mean over processes",
    "prefill_throughput": "tokens of the prompts per second",
    "step_time": "s, a token of each sequence, geometric mean over processes",
    "throughput": "generated tokens per second, all sequences",
}
GENERATION_COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "batch_size": Column("int", "sequences, over all replicas"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "device_name": Column("text", "name of the device"),
    "module": Column("text", "workload file"),
    "prompt": Column("int", "tokens of each prompt"),
    "n_timed": Column("int", "processes"),
    **with_intervals(GENERATION_BOUNDED),
    "cache_bytes": Column("float", "bytes of the batch's keys and values at their full length"),
    "peak_host": Column("float", "bytes, largest peak memory of the process, cache included"),
    "peak_device": Column("float", "bytes, largest peak memory on the device, cache included"),
    "flops_per_step": Column("float", "analytic floating-point operations of a decoding step"),
    "n_disturbed": Column("int", "processes disturbed by the machine; they count"),
    "evidence": Column("text", "measured"),
}


@makes("time of the prompts and of single tokens, one row per measured cell of mode generate", GENERATION_COLUMNS)
def make_generation(sources: Sources) -> pd.DataFrame:
    """Return table `generation`.

    A decoding step makes one token of each sequence in the batch; the prompt is the first half of each sequence.
    """
    return generation_table(sources.table("summary"))


def generation_table(summary: pd.DataFrame) -> pd.DataFrame:
    """The measured cells of table `summary` that generate, in its order."""
    generated = summary["mode"].eq("generate").fillna(False) & (summary["n_timed"].fillna(0) > 0)
    return table(summary[generated].reset_index(drop=True), GENERATION_COLUMNS)

"""Table `inference`: latency and throughput of predictions, one row per measured cell of mode predict.

A call is one batch from inputs in host memory to predictions in host memory; the next one begins when it has ended. So
throughput is batch size over mean latency, without batches on their way at the same time.
"""

import pandas as pd

from whichdevice.tables.base import CELL_COLUMNS, Column, Sources, table, with_intervals

BOUNDED = {
    "latency_p50": "ms, median time of a call, geometric mean over processes",
    "latency_p99": "ms, 99th percentile, geometric mean over processes; empty: a process timed fewer than 100 calls",
    "throughput": "predictions per second, geometric mean over processes",
    "first_step": "s, trace, compilation and the first call, geometric mean over processes",
}
COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "batch_size": Column("int", "examples in a call, over all replicas"),
    "kind": Column("text", "cpu, gpu or tpu"),
    "replicas": Column("int", "chips or cores that share a batch"),
    "device_name": Column("text", "name of the device"),
    "module": Column("text", "workload file"),
    "n_timed": Column("int", "processes"),
    **with_intervals(BOUNDED),
    "flops_per_step": Column("float", "analytic floating-point operations of a call, forward pass alone"),
    "n_disturbed": Column("int", "processes disturbed by the machine; they count"),
    "source": Column("text", "where the data came from"),
    "evidence": Column("text", "measured"),
}


def make(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return inference_table(sources.table("summary"))


def inference_table(summary: pd.DataFrame) -> pd.DataFrame:
    """The measured cells of table `summary` that predict, in its order."""
    predicted = summary["mode"].eq("predict").fillna(False) & (summary["n_timed"].fillna(0) > 0)
    return table(summary[predicted].reset_index(drop=True), COLUMNS)

"""Table `serving`: latency and throughput of prediction services, one row per cell and number of clients.

Beside each latency stand two others of the same runs: a bare call of the loaded model, and a bare round trip of the
same request to an address of the same server that does nothing. What is left is JSON and the waiting between parts.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.errors import StudyError
from whichdevice.records.store import read_record
from whichdevice.records.timings import Latencies, Serving
from whichdevice.tables.columns import CELL, CELL_COLUMNS, Column, one_line, table
from whichdevice.tables.intervals import geometric

BOUNDED = {
    "p50": "s, median latency of a request",
    "p99": "s, 99th percentile of the latency",
    "requests_per_second": "requests answered per second, all clients together",
    "predictions_per_second": "examples predicted per second, all clients together",
    "bare_call_p50": "s, median of a bare call of the loaded model with the same examples, without HTTP and JSON",
    "bare_http_p50": "s, median of one client's round trip with the same body to an address that does nothing",
}
KEY = [*CELL, "clients"]
COLUMNS: dict[str, Column] = {
    **CELL_COLUMNS,
    "batch_size": Column("int", "examples in a request"),
    "clients": Column("int", "clients that ask at the same time, each again as soon as it has its answer"),
    "kind": Column("text", "cpu or gpu"),
    "device_name": Column("text", "name of the device"),
    "model": Column("text", "workload file whose model is served"),
    "n": Column("int", "processes"),
    **{
        name + end: Column("float", text + words)
        for name, text in BOUNDED.items()
        for end, words in (
            ("", ", geometric mean over processes"),
            ("_low", ": lower end of its 95 % interval"),
            ("_high", ": upper end of its 95 % interval"),
        )
    },
    "requests": Column("int", "requests answered, all processes together"),
    "failed": Column("int", "requests that were not"),
    "request_bytes": Column("int", "size of a request's body"),
    "response_bytes": Column("int", "size of an answer's body"),
    "workers": Column("int", "predictions at the same time"),
    "weights": Column("text", "what the served weights are"),
    "evidence": Column("text", "measured"),
}


def serving_table(runs: pd.DataFrame) -> pd.DataFrame:
    """A row for each cell and number of clients, from the records of the good runs in `runs` that served."""
    good = runs[(runs["status"] == "ok") & (runs["evidence"] == "measured") & (runs["module"] == "serve")]
    found = pd.DataFrame([row for _, run in good.iterrows() for row in _rows(run)])
    if found.empty:
        return table([], COLUMNS)
    cell = found.groupby(KEY, sort=False, dropna=False).ngroup()
    frame = found[~cell.duplicated()].set_index(cell[~cell.duplicated()])
    for name in BOUNDED:
        bounds = geometric(found[name], cell)
        frame[[name, f"{name}_low", f"{name}_high"]] = bounds[["mean", "low", "high"]]
    frame["n"] = cell.value_counts()
    for name in ("requests", "failed"):
        frame[name] = found[name].groupby(cell).sum()
    return table(frame.assign(evidence="measured").reset_index(drop=True), COLUMNS)


def _rows(run: pd.Series) -> Iterator[dict[str, Any]]:
    try:
        serving = read_record(Path(run["record"])).serving
    except StudyError:
        return
    if serving is None:
        return
    for load in serving.loads:
        yield {**run[[*CELL, "kind", "device_name"]], **_row(serving, load, int(run["batch_size"]))}


def _row(serving: Serving, load: Latencies, batch_size: int) -> dict[str, Any]:
    rate = load.requests / load.seconds if load.seconds else None
    return {
        "clients": load.clients,
        "model": one_line(serving.model),
        "p50": load.p50,
        "p99": load.p99,
        "requests_per_second": rate,
        "predictions_per_second": None if rate is None else rate * batch_size,
        "bare_call_p50": serving.bare_call.p50 if serving.bare_call else None,
        "bare_http_p50": serving.bare_http.p50 if serving.bare_http else None,
        "requests": load.requests,
        "failed": load.failed,
        "weights": one_line(serving.weights),
        **serving.model_dump(include={"request_bytes", "response_bytes", "workers"}),
    }

"""Make table `forecasts`."""

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from whichdevice.config.tpus import devices_of
from whichdevice.errors import StudyError
from whichdevice.forecast.answer import answer
from whichdevice.forecast.targets import find_target
from whichdevice.records.products import CompiledRecord, read_compiled
from whichdevice.tables import makes
from whichdevice.tables.base import Column, Sources, table
from whichdevice.tables.hardware import Sheet, device_rows

COLUMNS: dict[str, Column] = {
    "device": Column("text", "row of config/hardware.csv"),
    "devices": Column("int", "GPUs, TPU chips, or cores on TPU v2 and v3, that share the batch"),
    "slice": Column("text", "TPU slice"),
    "kind": Column("text", "gpu or tpu"),
    "workload": Column("text", "workload, as the config names it"),
    "module": Column("text", "workload file"),
    "precision": Column("text", "number format"),
    "batch_size": Column("int", "examples per step over all devices; for matmul, N"),
    "sequence_length": Column("int", "steps per sequence, where the config sets it"),
    "mode": Column(
        "text",
        "train: a training step; predict: the forward pass; prefill: the prompts; decode: a token",
    ),
    "status": Column("text", "ok, does_not_fit, refused, failed, timed_out, out_of_memory (of this host), unavailable"),
    "reason": Column("text", "why, for every status but ok"),
    "evidence": Column("text", "forecast: may name candidates, decides nothing"),
    "step_time": Column("float", "s, forecast of one step: median of the larger of the device's and the host's time"),
    "step_time_low": Column("float", "s, lower end of its 80 % interval"),
    "step_time_high": Column("float", "s, upper end of its 80 % interval"),
    "throughput": Column("float", "units per s at the forecast step time"),
    "unit": Column("text", "what throughput counts"),
    "known_device": Column("flag", "whether published times of this kind of device were among those it was tested on"),
    "known_family": Column("flag", "whether published times of this kind of model were"),
    "software": Column("text", "what runs the step: xla, xla on TPU, eager or torch.compile"),
    "family": Column("text", "the kind of model that the program is"),
    "chip": Column("text", "the device without form and memory; rows of one chip share their own error"),
    "device_time": Column("float", "s, median without the host"),
    "log_sd_shared": Column("float", "spread of log time that all devices of a question share"),
    "log_sd_own": Column("float", "spread of log time of the chip alone"),
    "host_time": Column(
        "float",
        "s, in which the host sends off the arrays and kernels of the program, by one measurement",
    ),
    "host_log_sd": Column("float", "its log spread"),
    "note": Column("text", "what makes the interval wider, or the answer another"),
    "own_step_time": Column("float", "s, fastest measured step on this very device, in this number format"),
    "residual": Column("float", "own_step_time / step_time"),
    "fits": Column("flag", "whether the memory needed is available"),
    "memory_needed": Column("float", "bytes on one device"),
    "memory_available": Column("float", "bytes that are left to a program on one device"),
    "memory_is_lower_bound": Column("flag", "the workspace of cuDNN's convolutions is not known"),
    "memory_tight": Column("flag", "so near to the memory available that the step may or may not fit"),
    "weights": Column("float", "bytes, with buffers; of a traced step, as the next three"),
    "gradients": Column("float", "bytes"),
    "optimizer": Column("float", "bytes of its state"),
    "activations": Column("float", "bytes that the forward pass keeps for the backward pass"),
    "context": Column("float", "bytes of the GPU's memory that a program cannot have: CUDA's context and workspaces"),
    "way": Column("text", "how GPUs share a traced step, and what makes it fit: checkpointing, passes"),
    "changes": Column("text", "JSON: what to change so that it takes less memory, bytes then and how much longer"),
    "largest_batch": Column("int", "largest batch found to fit, confirmed by a compile"),
    "largest_batch_reason": Column("text", "why none was found, or a much larger one may fit"),
    "usd_per_hour": Column("float", "cheapest on-demand price of these devices"),
    "price": Column("text", "who offers it, and when that was read; or why there is none"),
    "operations": Column("float", "of matrix products and convolutions, on one device"),
    "nbytes": Column("float", "to and from off-chip memory of one device"),
    "kernels": Column("float", "on one device"),
    "collectives": Column("int", "on one device"),
    "collective_bytes": Column("float", "on one device"),
    "compile_seconds": Column("float", "s, on this host"),
    "program_device": Column("text", "the card whose program this is, where it is another of the same architecture"),
    "versions": Column("text", "of the compiler and what feeds it"),
    "code_hash": Column("text", "code that the record depends on"),
    "record": Column("text", "path of the record"),
}
SAME = ("workload", "batch_size", "sequence_length")  # what a forecast and a measured cell have in common


@makes("one row per program that was compiled for a device. Nobody ran them; times are forecasts", COLUMNS)
def make_forecasts(sources: Sources) -> pd.DataFrame:
    """Return the table of a study."""
    return forecast_table(sources.compiled_paths, sources.table("summary"), sources.once(device_rows), sources.sheet)


def forecast_table(
    paths: Iterable[Path], summary: pd.DataFrame, devices: dict[str, str | None], sheet: Sheet
) -> pd.DataFrame:
    """A row per compiled record that exists; one that cannot be read is a row with its reason.

    `summary` is the table of measured cells, `devices` the sheet's row of each of the study's devices.
    """
    return table([_compared(row, summary, devices, sheet) for row in _rows(paths)], COLUMNS)


def table_of_records(records: Iterable[CompiledRecord], sheet: Sheet) -> pd.DataFrame:
    """The same table of records that are no files, where nothing was measured."""
    rows = (_row(record, Path()) for record in records)
    return table([row | (_price(row, sheet) if row.get("step_time") else {}) for row in rows], COLUMNS)


def _rows(paths: Iterable[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        if not path.is_file():
            continue
        try:
            yield _row(read_compiled(path), path)
        except StudyError as error:
            yield {"device": path.parts[-3], "status": "failed", "reason": str(error), "record": path.as_posix()}


def _row(record: CompiledRecord, path: Path) -> dict[str, Any]:
    asked, facts, said = record.asked, record.facts, answer(record)
    case = said["case"] or {}
    row = {name: said[name] for name in COLUMNS if name in said}
    parts = said["memory_parts"] or {}
    row |= {name: parts.get(name) for name in ("weights", "gradients", "optimizer", "activations")}
    if parts and facts is not None and facts.memory and facts.memory_available:
        row["context"] = facts.memory - facts.memory_available
    row["changes"] = json.dumps(said["changes"]) if said["changes"] else None
    row |= {
        "devices": asked.devices,
        "kind": find_target(asked.device, asked.devices).kind,
        "module": asked.module,
        "batch_size": asked.batch_size,
        "step_time": said["step_time"],
        "step_time_low": said["step_time_low"],
        "step_time_high": said["step_time_high"],
        "known_device": case.get("device") == "known" if case else None,
        "known_family": case.get("family") == "known" if case else None,
        "note": case.get("note") or None,
        "memory_needed": said["memory_bytes"],
        "memory_available": said["memory_available_bytes"],
        "nbytes": said["bytes"],
        "versions": "; ".join(f"{name} {number}" for name, number in sorted(record.versions.items())) or None,
        "code_hash": record.code_hash,
        "record": path.as_posix(),
    }
    if facts is not None and facts.kernels is not None:
        row["collectives"] = sum(each.count for each in facts.collectives.values())
        row["collective_bytes"] = sum(each.nbytes for each in facts.collectives.values())
    return row


def _compared(
    row: dict[str, Any], summary: pd.DataFrame, devices: dict[str, str | None], sheet: Sheet
) -> dict[str, Any]:
    """The row beside what was measured on the same device, and with its price."""
    step = row.get("step_time")
    if not step:
        return row
    if row["mode"] == "prefill":
        summary = summary.assign(step_time=summary["prefill_time"])
    cells = summary[summary["step_time"].notna()]
    for name in SAME:
        value = row[name]
        cells = cells[cells[name].isna() if value is None else (cells[name] == value).fillna(False)]
    here = [name for name, hardware in devices.items() if hardware == row["device"]]
    own = cells[cells["device"].isin(here) & (cells["precision"] == row["precision"])]
    own = own[(own["replicas"] == row["devices"]).fillna(False)]
    if len(own):
        row |= {"own_step_time": own["step_time"].min(), "residual": own["step_time"].min() / step}
    return row | _price(row, sheet)


def _price(row: dict[str, Any], sheet: Sheet) -> dict[str, Any]:
    """Of an hour of all devices."""
    offer = sheet[row["device"]].cheapest
    if offer is None:
        return {"price": f"no price: the price sheet has none for {row['device']}"}
    chips = math.ceil(row["devices"] / devices_of(row["device"]))
    return {"usd_per_hour": offer.usd_per_hour * chips, "price": offer.words}

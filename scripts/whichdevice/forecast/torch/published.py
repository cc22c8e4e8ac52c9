"""Published times and memory of language models' training in PyTorch, and the traces of their steps.

config/llm_published.csv has what others measured (llm-foundry, LitGPT, torchtune, torchtitan; 1 to 512 GPUs),
config/llm_digests.json the traces, each of one rank's batch: `on_gpus` adds what the ranks send each other.
`make forecasts` traces what is missing. A row whose device, length or batch is not known gives no time.
"""

import csv
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from whichdevice.config.hardware import HardwareRow, hardware_rows
from whichdevice.files import CONFIG
from whichdevice.forecast.torch.several import accumulated, on_gpus
from whichdevice.forecast.torch.trace import Step, Trace, trace_step
from whichdevice.forecast.work import Work
from whichdevice.models.hugging_face import configuration
from whichdevice.models.tuning import Tuning

PUBLISHED = CONFIG / "llm_published.csv"
DIGESTS = CONFIG / "llm_digests.json"
DEVICES = {"H100 96 GB HBM2e, 2.4 TB/s, 500 W": "H100 SXM", "A100": "A100 SXM 80GB"}
BANDWIDTH = {"H100 96 GB HBM2e, 2.4 TB/s, 500 W": 2400.0}  # GB/s, where it is not the sheet's
ADAPTERS = {"litgpt": (8, "attention"), "torchtune": (8, "all")}  # rank and layers of LoRA by source


@dataclass(frozen=True)
class Published:
    """One line of the table: numbers of one GPU; `length` is the longest sequence where they differ."""

    id: str
    source: str
    model: str
    method: str
    weights: str
    software: str
    sharing: str
    gpus: int
    device: str
    batch: int
    length: int | None
    accumulation: int
    checkpointing: str
    tokens_per_s: float | None
    peak_gb: float | None
    status: str
    notes: str

    @property
    def program(self) -> str:
        """What is traced: rows of one program differ in devices, in how they share, and in the software."""
        length, light = self.length or 0, self.checkpointing == "full"
        return f"{self.model} {self.method} {self.weights} {self.batch} {length}{' checkpointing' if light else ''}"

    @property
    def group(self) -> str:
        """The source that it is left out with."""
        return self.source.partition("@")[0].rpartition("/")[2]

    @property
    def sheet(self) -> HardwareRow:
        """The sheet's row of its device."""
        row = hardware_rows()[DEVICES.get(self.device, self.device)]
        return row.model_copy(update={"mem_bw_gbs": BANDWIDTH.get(self.device, row.mem_bw_gbs)})

    @property
    def seconds(self) -> float | None:
        """Of one optimiser's step."""
        if not self.tokens_per_s or not self.length or "differ" in self.notes:
            return None
        return self.accumulation * self.batch * self.length / self.tokens_per_s

    @property
    def master(self) -> bool:
        """Whether weights are kept in float32, and multiplied in 16 bits."""
        return self.method == "full" and self.weights in ("float32 masters", "")

    @property
    def tuning(self) -> Tuning:
        """How it is trained, as its source says."""
        method = "qlora" if self.weights.startswith("nf4") else self.method
        rank, layers = ADAPTERS.get(self.group, (8, "all"))
        optimizer = "AdamW8bit" if "8-bit" in self.notes else "AdamW"
        return Tuning(method, rank, layers, self.checkpointing == "full", optimizer=optimizer)

    def trace(self) -> Trace:
        """The step of one rank, in 16 bits and alone."""
        return _trace(self.model, self.tuning, self.batch, self.length or 0)

    def shared(self, trace: Trace) -> Trace:
        """The step of one rank of all its GPUs."""
        sharing = self.sharing if self.sharing != "one" else "ddp"
        return on_gpus(accumulated(trace, self.accumulation), self.gpus, sharing, self.master, self.accumulation)  # type: ignore[arg-type]


def published(path: Path = PUBLISHED) -> list[Published]:
    """Every line of the table."""
    with path.open(encoding="utf-8", newline="") as file:
        return [_line(row) for row in csv.DictReader(file)]


def _line(row: Mapping[str, str]) -> Published:
    return Published(
        **{name: row[name] for name in ("id", "source", "model", "method", "weights", "software", "sharing", "device")},
        gpus=int(row["gpus"]),
        batch=int(row["batch"]),
        length=int(row["length"]) if row["length"] else None,
        accumulation=int(row["accumulation"] or 1),
        checkpointing=row["checkpointing"],
        tokens_per_s=float(row["tokens_per_s"]) if row["tokens_per_s"] else None,
        peak_gb=float(row["peak_gb"]) if row["peak_gb"] else None,
        status=row["status"],
        notes=row["notes"],
    )


def traced(path: Path = DIGESTS) -> Iterator[tuple[Published, Trace]]:
    """Each row of which a step is known, with the step of one of its ranks."""
    digests = read_digests(path)
    for line in published():
        if line.program in digests:
            yield line, line.shared(digests[line.program])


@cache
def read_digests(path: Path = DIGESTS) -> Mapping[str, Trace]:
    """The committed traces by program."""
    found = json.loads(path.read_text(encoding="utf-8"))["programs"] if path.is_file() else {}
    return {name: Trace.from_dict(each | {"work": _spread(each["work"])}) for name, each in found.items()}


def write_digests(path: Path = DIGESTS) -> None:
    """Trace what is missing, and write one line a program."""
    known = dict(read_digests(path))
    wanted = {line.program: line for line in published() if line.length and not line.method.startswith("Adapter")}
    for name, line in wanted.items():
        if name not in known:
            known[name] = line.trace()
    rows = (f'  "{name}": {json.dumps(_packed(known[name]), separators=(",", ":"))}' for name in sorted(wanted))
    path.write_text('{\n "programs": {\n' + ",\n".join(rows) + "\n }\n}\n", encoding="utf-8")


def _packed(trace: Trace) -> dict[str, Any]:
    """A trace as numbers of few digits."""
    items = [
        [each.kind, each.precision, *(float(f"{n:.5g}") for n in (each.operations, each.bytes, each.count))]
        for each in trace.work.items
    ]
    memory = {name: float(f"{value:.5g}") for name, value in trace.memory.items()}
    return {"work": items, "memory": memory, "parameters": trace.parameters, "trained": trace.trained, "notes": []}


def _spread(items: list[list[Any]]) -> dict[str, Any]:
    rows = [[*each, None, 1] for each in items]
    return {"platform": "gpu", "items": rows, "unknown_loops": 0, "unknown_calls": 0, "software": "eager"}


def _trace(model: str, tuning: Tuning, batch: int, length: int) -> Trace:
    import torch

    found = configuration(model)
    if found.kind == "gpt2":  # with as many places as a sequence has words
        found = replace(found, fields={**found.fields, "n_positions": length})

    def build(*layers: int) -> Any:
        return tuning.applied(found.model(*layers), model)

    def words(size: int) -> dict[str, Any]:
        return dict.fromkeys(("input_ids", "labels"), torch.zeros(size, length, dtype=torch.long))

    def loss(module: Any, given: dict[str, Any]) -> Any:
        return module(**given).loss

    return trace_step(Step(build, words, loss, tuning.optimizer_for, "bfloat16", found.layers), batch)


__all__ = ["Published", "Work", "published", "read_digests", "traced", "write_digests"]

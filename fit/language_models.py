"""Published times and memory of language models' training in PyTorch, and the traces of their steps.

fit/data/llm_published.csv has what others measured (llm-foundry, LitGPT, torchtune, torchtitan; 1 to 512 GPUs),
fit/data/llm_digests.json the traces, each of one rank's batch: `on_gpus` adds what the ranks send each other.
`make forecasts` traces what is missing. LitGPT's steps were traced with its own model, by code that is in this file's
history. Times are compared where a step's device, length and settings are known; published peaks are in
memory_cases.csv.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from pydantic.dataclasses import dataclass

from fit.fitting import DATA, TRACES, read_gzip, read_lines, sheet
from fit.traces import sums, write
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.torch.several import accumulated, on_gpus
from whichdevice.forecast.torch.trace import Step, Trace, trace_step
from whichdevice.models.hugging_face import configuration
from whichdevice.models.lora import tuned
from whichdevice.models.tuning import Tuning

LIBRARY = "language models"
PUBLISHED = DATA / "llm_published.csv"
DIGESTS = DATA / "llm_digests.json"
DEVICES = {"H100 96 GB HBM2e, 2.4 TB/s, 500 W": "H100 SXM", "A100": "A100 SXM 80GB"}
BANDWIDTH = {"H100 96 GB HBM2e, 2.4 TB/s, 500 W": 2400.0}  # GB/s, where it is not the sheet's
LITGPT = "litgpt"
ADAPTERS = {LITGPT: (8, "attention", 0.05), "torchtune": (8, "all", 0.0)}  # rank, layers, dropout of LoRA by source


@dataclass(frozen=True)
class Published:
    """One line of the table: numbers of one GPU; `length` is the longest sequence where they differ."""

    id: str
    source: str
    model: str
    sharing: str
    gpus: int
    device: str
    batch: int
    status: str
    method: str = ""
    weights: str = ""
    software: str = ""
    length: int | None = None
    accumulation: int = 1
    checkpointing: str = ""
    tokens_per_s: float | None = None
    peak_gb: float | None = None
    notes: str = ""

    @property
    def program(self) -> str:
        """The name of what is traced: rows of one program differ in devices, in how they share, and in the software."""
        tuning = self.tuning
        light = ", checkpointing" if tuning.gradient_checkpointing else ""
        optimizer = "" if tuning.optimizer == "AdamW" else f", {tuning.optimizer}"
        library = f", {LITGPT}{', scales in float32' if self.weights == 'nf4' else ''}" if self.group == LITGPT else ""
        return f"{self.model}, {tuning.method}, {self.batch} x {self.length}{light}{optimizer}{library}"

    @property
    def group(self) -> str:
        """The source that it is left out with."""
        return self.source.partition("@")[0].rpartition("/")[2]

    @property
    def sheet(self) -> HardwareRow:
        """The sheet's row of its device."""
        row = sheet()[DEVICES.get(self.device, self.device)]
        return row.model_copy(update={"mem_bw_gbs": BANDWIDTH.get(self.device, row.mem_bw_gbs)})

    @property
    def seconds(self) -> float | None:
        """The time of one optimiser's step."""
        if not self.tokens_per_s or not self.length or "differ" in self.notes:
            return None
        return self.accumulation * self.batch * self.length / self.tokens_per_s

    @property
    def master(self) -> bool:
        """Return whether weights are kept in float32, and multiplied in 16 bits."""
        return self.method == "full" and self.weights in ("float32 masters", "")

    @property
    def tuning(self) -> Tuning:
        """How it is trained, as its source says."""
        method = "qlora" if self.weights.startswith("nf4") else self.method
        adapters = ADAPTERS.get(self.group, (8, "all", 0.0))
        optimizer = "AdamW8bit" if "8-bit" in self.notes else "AdamW"
        return Tuning(method, *adapters, self.checkpointing == "full", optimizer=optimizer)

    def trace(self) -> Trace:
        """The step of one rank, in 16 bits and alone."""
        if self.group == LITGPT:
            raise StudyError(f"{self.id}: LitGPT's steps were traced with its own model: see this file's history")
        return language_model_trace(self.model, self.tuning, self.batch, self.length or 0, self.group == "llm-foundry")

    def shared(self, trace: Trace) -> Trace:
        """The step of one rank of all its GPUs."""
        sharing = self.sharing if self.sharing != "one" else "ddp"
        return on_gpus(accumulated(trace, self.accumulation), self.gpus, sharing, self.master, self.accumulation)  # type: ignore[arg-type]


def published() -> list[Published]:
    """Every line of the table."""
    return read_lines(Published, PUBLISHED)


def traced() -> Iterator[tuple[Published, Trace]]:
    """Each row of which a step is known, with the step of one of its ranks."""
    digests = read_digests()
    for line in published():
        if line.program in digests:
            yield line, line.shared(digests[line.program])


@cache
def read_digests(path: Path = DIGESTS) -> Mapping[str, Trace]:
    """The committed traces by program."""
    return {name: unpacked(digest) for name, digest in json.loads(path.read_text(encoding="utf-8")).items()}


def write_digests() -> None:
    """Trace what is missing, and write one line a program."""
    wanted = {line.program: line for line in published() if line.length and not line.method.startswith("Adapter")}
    compiled = {line.program for line in published() if line.software == "torch.compile"}
    known = {name: read_digests().get(name) or line.trace() for name, line in wanted.items()}
    digests = {name: packed(known[name], name in compiled) for name in sorted(wanted)}
    write_lines(DIGESTS, digests)


def write_lines(path: Path, digests: Mapping[str, Any]) -> None:
    """Write one line a program."""
    lines = (f' "{name}": {json.dumps(digest, separators=(",", ":"))}' for name, digest in digests.items())
    path.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


def unpacked(digest: Mapping[str, Any]) -> Trace:
    """The trace that `packed` wrote; where it has no compiled step, the other one stands for it."""
    work, fused = digest["work"], digest.get("fused", digest["work"])
    return Trace.from_dict({**digest, "work": _spread(work), "fused": _spread(fused, "torch.compile")})


def packed(trace: Trace, compiled: bool = False) -> dict[str, Any]:
    """A trace as numbers of few digits; with the step by torch.compile where it is `compiled`."""
    works = {"work": trace.work} | ({"fused": trace.fused} if compiled else {})
    items = {
        name: [
            [item.kind, item.precision, *map(_short, (item.operations, item.bytes, item.count))] for item in work.items
        ]
        for name, work in works.items()
    }
    memory = {name: _short(value) for name, value in trace.memory.items()}
    return {**items, "memory": memory, "parameters": trace.parameters, "trained": trace.trained, "notes": []}


def _short(number: float) -> float:
    """Five digits of a number."""
    short = float(f"{number:.5g}")
    return int(short) if short.is_integer() else short


def _spread(items: list[list[Any]], software: str = "eager") -> dict[str, Any]:
    rows = [[*item, None, 1] for item in items]
    return {"platform": "gpu", "items": rows, "unknown_loops": 0, "unknown_calls": 0, "software": software}


def language_model_trace(
    model: str, tuning: Tuning, batch: int, length: int, loss_in_16_bits: bool, words_known: int | None = None
) -> Trace:
    """A step on sequences of `length`; transformers' own loss writes the scores of all words out in float32."""
    import torch

    chosen = configuration(model)
    if words_known is not None:
        chosen = replace(chosen, fields={**chosen.fields, "vocab_size": words_known})
    if chosen.kind == "gpt2":
        chosen = replace(chosen, fields={**chosen.fields, "n_positions": length})

    def build(*layers: int) -> Any:
        return tuned(chosen.model(*layers), tuning, model)

    def words(size: int) -> Any:
        return torch.zeros(size, length, dtype=torch.long)

    def loss(module: Any, given: Any) -> Any:
        if loss_in_16_bits:
            return torch.nn.functional.cross_entropy(module(input_ids=given).logits.flatten(0, 1), given.flatten())
        return module(input_ids=given, labels=given).loss

    return trace_step(Step(build, words, loss, tuning.optimizer_for, "bfloat16", chosen.layers), batch)


# Times

# Not the step that is traced here: other products, parts on the host, another optimiser, an unclear row.
OTHER_STEPS = ("unclear", "float8", "host", "8-bit", "optimizer", "same")


def timed_rows() -> Iterator[tuple[list[Any], list[Any]]]:
    """Each published time of a step as it is traced here, as fit/data/traces.json.gz has it: question and row.

    A step whose source does not say whether it is compiled counts as operation by operation.
    """
    for line, trace in traced():
        if line.status != "ok" or not line.seconds or line.method == "decode":
            continue
        if any(words in line.notes for words in OTHER_STEPS):
            continue
        compiled = line.software == "torch.compile"
        work = {"torch.compile": sums(trace.fused)} if compiled else {"eager": sums(trace.work)}
        light = ", checkpointing" if line.tuning.gradient_checkpointing else ""
        shape = f"{line.length}, {line.tuning.method}{light}, {line.gpus} x {line.sharing}"
        size = line.batch * line.accumulation
        bandwidth = [BANDWIDTH[line.device]] if line.device in BANDWIDTH else []
        yield (
            [LIBRARY, line.model, shape, "train", "mixed_bfloat16", size, work, []],
            [line.group, line.id, 0, next(iter(work)), line.sheet.device, size, line.seconds * 1e3, *bandwidth],
        )


def write_times() -> None:
    """Put the times and works of fit/data/llm_published.csv into fit/data/traces.json.gz, for its old ones."""
    document = read_gzip(TRACES)
    places = [place for place, line in enumerate(document["questions"]) if line[0] != LIBRARY]
    number = {place: count for count, place in enumerate(places)}
    rows = [[*line[:2], number[line[2]], *line[3:]] for line in document["rows"] if line[2] in number]
    questions = [document["questions"][place] for place in places]
    for question, row in timed_rows():
        rows.append([*row[:2], len(questions), *row[3:]])
        questions.append(question)
    write(document | {"questions": questions, "rows": rows})

"""Define the records of counted steps.

A record has what was counted of one step for one device, and its work: memory in bytes, operations, bytes and kernels,
all of one device. Fields of a step that was not counted are None or empty. Nothing in it was measured: a forecast is
made of `work`.
"""

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whichdevice.base.files import write_atomically
from whichdevice.base.parts import Integer, Part, Redacted, no_newer_than, read_as

COMPILED_SCHEMA_VERSION = 4
CompileStatus = Literal["ok", "does_not_fit", "failed", "timed_out", "out_of_memory", "refused", "unavailable"]
Mode = Literal["train", "predict", "prefill", "decode"]  # the last two are of mode generate
GENERATING: tuple[Mode, ...] = ("prefill", "decode")


class ProgramRequest(Part):
    """The request for a forecast of one step on one device."""

    device: str  # row of config/hardware.csv
    devices: Integer = 1  # that share the batch: GPUs, TPU chips, or cores on v2 and v3
    workload: str
    module: str
    precision: str
    batch_size: Integer  # over all devices; for matmul N
    mode: Mode = "train"
    sequence_length: Integer | None = None
    options: dict[str, Any] = Field(default_factory=dict)  # of a model file, from the config
    largest_batch: bool = False
    longest_sequence: bool = False
    timeout: float = 900.0

    @property
    def path(self) -> str:
        """`<device>[-x<n>]/<workload>-<precision>-b<batch>[-sequence_length=<n>][-<mode>]`, spaces as `_`."""
        several = f"-x{self.devices}" if self.devices > 1 else ""
        length = f"-sequence_length={self.sequence_length}" if self.sequence_length is not None else ""
        mode = "" if self.mode == "train" else f"-{self.mode}"
        device = re.sub(r"[^\w.+-]+", "_", self.device).strip("_")
        return f"{device}{several}/{self.workload}-{self.precision}-b{self.batch_size}{length}{mode}"


class Collective(Part):
    """All collectives of one kind in a step; bytes of the larger side, on one device."""

    count: Integer
    nbytes: float


class Change(Part):
    """A change of a step so that it takes less memory."""

    name: str
    memory_needed: float
    time: float  # of a step, over the unchanged one's


class Pass(Part):
    """A pass of so many examples through a device: what it needs, and the time of an example."""

    batch: Integer
    checkpointing: bool
    memory_needed: float
    time: float  # of an example, over its time in the step that was asked for


class CompileFacts(Part):
    """The facts that a count shows."""

    memory: float  # of one device, by the sheet
    memory_available: float  # that is left to a program
    memory_needed: float | None = None
    memory_missing: float | None = None  # by how much it does not fit; None where it fits
    memory_tight: bool = False  # so near to what is available that it may or may not fit
    memory_parts: dict[str, float] = Field(
        default_factory=dict
    )  # of a trace: weights, gradients, optimizer, activations
    changes: list[Change] = Field(default_factory=list)  # of a traced step that does not fit
    passes: list[Pass] = Field(default_factory=list)  # where it is asked for: of all sizes that fit
    pass_batch: Integer | None = None  # examples of one pass, on one device
    checkpointing: bool = False
    operations: float | None = None  # of matrix products and convolutions
    nbytes: float | None = None  # to and from off-chip memory
    kernels: float | None = None
    forward_share: float | None = None  # of the device's time: before the backward pass of a traced training step
    forward_kernels: float | None = None  # of the kernels
    arrays: Integer | None = None  # that a call of a compiled step hands over
    fit: bool = False  # whether Keras' `fit` makes the call
    host_time: float | None = None  # in which the asking machine sends the step off, by its own rates; None: not known
    collectives: dict[str, Collective] = Field(default_factory=dict)
    unit: str = "example"  # what throughput counts
    units_per_step: float | None = None
    way: str | None = None  # of a traced step: how GPUs share it, checkpointing, passes
    notes: list[str] = Field(default_factory=list)  # in what the step is another than the one that the device would run
    largest_batch: Integer | None = None  # by a line between two sizes
    largest_batch_reason: str | None = None  # why none was found
    longest_sequence: Integer | None = None  # tokens that fit with one example in a pass; 0: none does


class CompiledRecord(Part):
    """One step of a workload on one target."""

    schema_version: Annotated[Integer, no_newer_than(COMPILED_SCHEMA_VERSION)] = COMPILED_SCHEMA_VERSION
    asked: ProgramRequest
    status: CompileStatus
    reason: Redacted | None = None  # one line, for every status but ok
    versions: dict[str, str] = Field(default_factory=dict)  # of the framework's packages
    code_hash: str
    facts: CompileFacts | None = None
    work: dict[str, Any] | None = None  # forecast.work.Work.digest()


def write_compiled(record: CompiledRecord, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def read_compiled(path: Path) -> CompiledRecord:
    """Read one record; raises StudyError that names the file when it is cut, garbled or of another schema."""
    return read_as(CompiledRecord, path, f"a compiled record, schema {COMPILED_SCHEMA_VERSION}")

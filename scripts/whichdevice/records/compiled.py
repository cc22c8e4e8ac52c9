"""The record of one compiled step: what the TPU compiler states, and the device time modelled from its program.

Times are seconds, memory is bytes on one device, operations are those of the products over all devices. Fields of a
step that did not compile are None or empty. Nothing in here was measured on a TPU.
"""

from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from whichdevice.records.part import Evidence, Integer, Part, no_newer_than
from whichdevice.records.redaction import Told
from whichdevice.records.store import read_as, write_atomically

COMPILED_SCHEMA_VERSION = 1
CompileStatus = Literal["ok", "does_not_fit", "failed", "unavailable"]


class CompileRequest(Part):
    """What was asked of the compiler."""

    topology: str  # as in configs, e.g. v2-2x2
    workload: str
    module: str
    precision: str
    batch_size: Integer  # global; for matmul N
    sequence_length: Integer | None = None
    options: dict[str, Any] = Field(default_factory=dict)  # of a model file, from the config
    dataset: str | None = None
    largest_batch: bool = False
    timeout: float = 900.0
    steps: Literal[1] = 1  # training steps in the program

    @property
    def path(self) -> str:
        """`<topology>/<workload>-<precision>-b<batch>[-sequence_length=<n>]`, below results/<study>/compiled."""
        length = f"-sequence_length={self.sequence_length}" if self.sequence_length is not None else ""
        return f"{self.topology}/{self.workload}-{self.precision}-b{self.batch_size}{length}"


class Collective(Part):
    """All collectives of one kind in a step; bytes of the larger side, on one device."""

    count: Integer
    nbytes: float


class CompileFacts(Part):
    """What the compiler states."""

    evidence: Evidence = "compiled"
    devices: Integer
    hbm: float  # of one device, by the sheet
    hbm_available: float  # that the compiler leaves to a program
    compile_seconds: float | None = None
    memory_needed: float | None = None
    memory_missing: float | None = None  # by how much it does not fit; None where it fits
    arguments: float | None = None
    outputs: float | None = None
    aliased: float | None = None  # outputs in an argument's place, counted once in memory_needed
    temporary: float | None = None
    code: float | None = None
    collectives: dict[str, Collective] = Field(default_factory=dict)
    program_flops: float | None = None
    analytic_flops: float | None = None
    flops_ratio: float | None = None  # program / analytic
    largest_batch: Integer | None = None  # found to fit and confirmed by a compile; a little more may fit
    largest_batch_compiles: Integer | None = None
    largest_batch_reason: str | None = None  # why none was found, or a much larger one may fit


class ModelledTime(Part):
    """The modelled device time of one step: no input, no host, no dispatch (docs/tpu-model.md)."""

    evidence: Evidence = "modelled"
    low: float
    high: float | None  # None where cycles or trip counts are missing; then the time is ≥ low
    bytes_with_cycles: float  # share of the bytes moved whose instructions carry the compiler's cycles
    unknown_trip_counts: Integer
    low_by_category: dict[str, float] = Field(default_factory=dict)
    high_by_category: dict[str, float] = Field(default_factory=dict)  # empty without a high end


class CompiledRecord(Part):
    """One workload, precision and batch on one TPU slice."""

    schema_version: Annotated[Integer, no_newer_than(COMPILED_SCHEMA_VERSION)] = COMPILED_SCHEMA_VERSION
    asked: CompileRequest
    status: CompileStatus
    reason: Told | None = None  # one line, for every status but ok
    versions: dict[str, str] = Field(default_factory=dict)  # jax, jaxlib, libtpu, keras
    code_hash: str
    checksum: str | None = None  # of the dataset whose shapes the program has
    facts: CompileFacts | None = None
    modelled: ModelledTime | None = None


def write_compiled(record: CompiledRecord, path: Path) -> None:
    """Replace the record at `path` atomically; the old one stays whole until then."""
    write_atomically(record.model_dump_json(indent=1), path)


def read_compiled(path: Path) -> CompiledRecord:
    """Read one record; raises StudyError that names the file when it is cut, garbled or of another schema."""
    return read_as(CompiledRecord, path, f"a compiled record, schema {COMPILED_SCHEMA_VERSION}")

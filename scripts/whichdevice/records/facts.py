"""What a run turned out to work on: workload, machine, software, data."""

from pydantic import Field

from whichdevice.records.part import Integer, Part
from whichdevice.records.redaction import Told

PREDICTION = "prediction"  # unit of mode predict, whatever is predicted
WHOLE_COUNT = "every product of the traced step"  # in `flops_counted`; anything else is unknown or a lower bound


class WorkloadFacts(Part):
    """What the workload turned out to be on this data."""

    unit: str = "example"  # what throughput counts: image, sequence, window, product
    input_shape: list[Integer] = Field(default_factory=list)
    target_shape: list[Integer] = Field(default_factory=list)
    parameters: Integer = 0
    trainable_parameters: Integer = 0
    training_examples: Integer = 0
    validation_examples: Integer = 0
    steps_per_epoch: Integer = 0
    flops_per_step: float | None = None  # analytic, forward and backward, all replicas; None is unknown
    flops_counted: str | None = None  # how, and what was not counted
    bytes_per_step: float = 0.0  # analytic lower bound: weights, activations and input moved once
    estimated_memory: float = 0.0  # host bytes that the run was expected to need
    metric: str | None = None  # name of the quality metric, e.g. accuracy
    higher_is_better: bool = True
    model_summary: str | None = None
    remarks: list[Told] = Field(default_factory=list)  # what its label hides: other number formats, a loss that is nan


class Machine(Part):
    """What the run ran on."""

    device_name: str | None = None
    device_count: Integer = 1
    cpu: str | None = None
    cores: Integer | None = None  # logical processors that the process may use
    physical_cores: Integer | None = None  # cores behind those, as the system tells them
    threads: Integer | None = None  # threads given to the framework
    memory: Integer | None = None
    architecture: str | None = None
    last_level_cache: Integer | None = None  # bytes of all that it may fill, as the system tells them
    instruction_sets: list[str] = Field(default_factory=list)  # of the host, those that matter for speed
    operating_system: str | None = None
    driver: str | None = None
    device_memory: Integer | None = None  # bytes of one device
    device_memory_free: Integer | None = None  # bytes of the first device before the run; less: others hold it
    power_limit: float | None = None  # watts that one GPU may draw
    clock_max: float | None = None  # Hz, highest clock of a GPU's multiprocessors
    clock: float | None = None  # Hz, of the first GPU's multiprocessors right after the timed windows
    identity: str | None = None  # hash that tells machines of a kind apart; it names none


class Types(Part):
    """Number formats really used; `emulated` says how where the device has no such product in hardware."""

    storage: str  # of weights as the optimiser keeps them; of operands for a single operation
    product: str
    sum: str  # of the terms of a product
    emulated: str | None = None


class Software(Part):
    """Which code and which settings produced the numbers."""

    python: str | None = None
    versions: dict[str, str] = Field(default_factory=dict)
    git_commit: str | None = None
    code_hash: str | None = None
    flags: dict[str, Told] = Field(default_factory=dict)  # resolved: jit_compile, oneDNN, threads ...
    types: Types | None = None


class DataFacts(Part):
    """Which data the run read."""

    dataset: str
    source: str
    checksum: str

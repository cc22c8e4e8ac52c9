"""Define the record of one run: everything asked, found and timed, enough to recompute each number in the report.

Times are seconds, memory is bytes, rates are per second. A record holds no user names, host names or
absolute paths. Fields that a failed run never reached are None or empty.
"""

from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field, model_validator

from whichdevice.base.parts import Evidence, Integer, Part, Redacted, no_newer_than

Status = Literal["ok", "out_of_memory", "timed_out", "failed", "refused"]
PREDICTION = "prediction"  # unit of mode predict, whatever is predicted
SCHEMA_VERSION = 5  # 1 has `profile` in what was asked, before 4 there are `loop` and `breakdown`; 5 added `curve`


class Request(Part):
    """Everything that was asked of a run: the cell, the repeat and every setting that can change its numbers."""

    former = frozenset({"profile", "slowdown", "loop", "breakdown"})
    device: str
    kind: str
    replicas: Integer
    workload: str
    module: str
    mode: Literal["train", "predict", "generate"] | None = "train"  # of the model; None: a single operation
    backend: str
    precision: str
    batch_size: Integer
    fraction: float
    sequence_length: Integer | None
    repeat: Integer
    seed: Integer
    epochs: Integer
    steps_per_epoch: Integer | None
    validation: bool
    learn: bool
    learn_seconds: float | None = None  # time budget of learning; None: as long as its epochs take
    seconds: float
    min_steps: Integer
    timeout: float
    dataset: str | None
    source: str | None
    options: dict[str, Any] = Field(default_factory=dict)  # of a model file, from the config

    @model_validator(mode="before")
    @classmethod
    def _of_the_only_loop(cls, given: Any) -> Any:
        if isinstance(given, dict) and given.get("loop", "epoch") != "epoch":
            raise ValueError(f"is of loop {given['loop']}, which this version does not run")
        return given


class Memory(Part):
    """Peak memory of the measured process and of the device, in bytes."""

    peak_host: Integer | None = None
    peak_device: Integer | None = None


class MeteredPart(Part):
    """Energy of one part of a run, and the time between the meter's readings around it."""

    joules: float
    seconds: float


class Energy(Part):
    """Joules of a whole run, process start to end, and by which meter; without a meter, the reason."""

    joules: float | None = None
    meter: str | None = None
    reason: str | None = None
    update: float | None = None  # seconds between two new values of the meter
    parts: dict[str, MeteredPart] = Field(default_factory=dict)  # `steady`, and `epoch 1` ... with validation
    beside: dict[str, "Energy"] = Field(default_factory=dict)  # `host`: its processors; `memory`: the host's


class Noise(Part):
    """A fixed kernel before and after the run, and what else the machine did meanwhile."""

    former = frozenset({"bursts_before", "bursts_after", "load_after", "steal_timed", "throttled_timed", "clocks"})
    calibration_kernel: str = "a product shared by all cores"  # what was timed, in records that do not say it
    calibration_before: float | None = None  # seconds of fixed work on all cores, fastest
    calibration_after: float | None = None
    calibration_change: float | None = None  # after / before, on all cores
    load_before: float | None = None  # one-minute load average
    others: float | None = None  # share of the usable cores kept busy by other processes
    steal: float | None = None  # share of processor time stolen by the hypervisor during the run
    others_timed: float | None = None  # over the timed windows alone
    throttled: float | None = None  # share of our processors' time in which a container's limit held the run up
    severity: float | None = None  # the largest of what was watched, against its bound; above 1: disturbed
    not_repeated: str | None = None  # why a disturbed run was not repeated
    disturbed: bool = False
    reasons: list[str] = Field(default_factory=list)


class WorkloadFacts(Part):
    """The facts of the workload on this data."""

    former = frozenset({"target_shape", "model_summary"})
    unit: str = "example"  # what throughput counts: image, sequence, window, product
    input_shape: list[Integer] = Field(default_factory=list)
    parameters: Integer = 0
    trainable_parameters: Integer = 0
    training_examples: Integer = 0
    validation_examples: Integer = 0
    steps_per_epoch: Integer = 0
    flops_per_step: float | None = None  # of products and convolutions, as forecasts count; None is unknown
    flops_counted: str | None = None  # how, and what was not counted
    bytes_per_step: float = 0.0  # that its kernels move, as forecasts count
    estimated_memory: float = 0.0  # host bytes that the run was expected to need
    metric: str | None = None  # name of the quality metric, e.g. accuracy
    higher_is_better: bool = True
    remarks: list[Redacted] = Field(default_factory=list)  # what its label hides: other formats, a loss that is nan


class Machine(Part):
    """The machine that the run ran on."""

    former = frozenset({"architecture", "instruction_sets", "power_limit", "clock_max", "clock"})
    device_name: str | None = None
    device_count: Integer = 1
    cpu: str | None = None
    cores: Integer | None = None  # logical processors that the process may use
    physical_cores: Integer | None = None  # cores behind those, as the system reports them
    threads: Integer | None = None  # threads given to the framework
    memory: Integer | None = None
    last_level_cache: Integer | None = None  # bytes of all that it may fill, as the system reports them
    operating_system: str | None = None
    driver: str | None = None
    device_memory: Integer | None = None  # bytes of one device
    device_memory_free: Integer | None = None  # bytes of the first device before the run; less: others hold it
    identity: str | None = None  # hash that differs between machines of a kind; it names none


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
    flags: dict[str, Redacted] = Field(default_factory=dict)  # resolved: jit_compile, oneDNN, threads ...
    types: Types | None = None


class DataFacts(Part):
    """Which data the run read."""

    dataset: str
    source: str
    checksum: str


class Cold(Part):
    """Everything before steady state, each timed apart. `first_step` holds trace, compilation and one step."""

    start: float | None = None  # process start to framework imported
    initialise: float | None = None  # device taken: CUDA context, TPU system
    load: float | None = None  # dataset opened and placed
    build: float | None = None  # model built
    first_step: float | None = None
    warm_up: list[tuple[Integer, float]] = Field(default_factory=list)  # (steps, seconds) discarded windows
    warm_up_epochs: float | None = None  # first step and warm-up, in epochs; below 1: an epoch outlasts the time budget
    warm_up_end: str | None = None  # what ended it: which test, and its result


class Steady(Part):
    """Steady state: every window as (steps, seconds) and the totals a process counts with."""

    former = frozenset({"flops_per_second", "epoch_time", "trend_p"})
    windows: list[tuple[Integer, float]] = Field(default_factory=list)
    steps: Integer = 0
    seconds: float = 0.0
    step_time: float | None = None  # seconds / steps
    throughput: float | None = None  # units per second
    trend: Literal["none", "rising", "falling"] | None = None  # of the step times; None: too few windows to test
    drift: float | None = None  # Theil-Sen change of the step time over the windows, as a share of their median


class PipelineRate(Part):
    """The rate of an input pipeline alone with a number of workers; 0: the training's own process."""

    workers: Integer
    examples_per_second: float
    first_seconds: float  # of the first batch, which is not in the rate
    written: bool = True  # whether the file has so many, as far as there are cores
    asked: Integer | None = None  # how many it asks for; None: as many as there are cores, or none
    batch_seconds: float = 0.0  # at this rate, of a batch or of the part of one that is timed


class Pipeline(Part):
    """The input pipeline of the model's file or script alone, no model taking part."""

    origin: Literal["own"] = "own"
    rates: list[PipelineRate]


class Learning(Part):
    """How learning ended: after all epochs, by a callback of the recipe, or when train.seconds were over."""

    ended_by: Literal["epochs", "callback", "seconds"] | None = None  # None: nothing was learned to an end


class Epoch(Part):
    """One learning epoch."""

    epoch: Integer  # from 1
    steps: Integer | None = None  # of an epoch that train.seconds ended early; None: all of them
    seconds: float  # training only
    validation_seconds: float | None = None
    loss: float | None = None
    metric: float | None = None
    validation_loss: float | None = None
    validation_metric: float | None = None
    learning_rate: float | None = None


class Point(Part):
    """A point of a learning curve. Losses and metrics of training are means since the point before."""

    steps: Integer  # so far
    seconds: float  # of training and evaluation so far
    loss: float | None = None  # None: before the first step
    metric: float | None = None
    validation_loss: float | None = None  # of a part of the held-out data, as is its metric
    validation_metric: float | None = None


class Latency(Part):
    """How long single calls took in steady state, from inputs in host memory to predictions in host memory."""

    former = frozenset({"seconds", "mean", "p90", "longest"})
    calls: Integer
    p50: float
    p99: float | None = None  # None: fewer than 100 calls, of which none need be above it


class Generated(Part):
    """The prompt's part of mode generate; steady state is of single tokens."""

    former = frozenset({"length", "first_prefill", "warm_up"})
    prompt: Integer  # tokens of each sequence that are given
    cache_bytes: float  # of keys and values, of all sequences
    prefill: Steady = Field(default_factory=Steady)  # a step is the prompt of every sequence; throughput in its tokens


class Attempt(Part):
    """An attempt at the run that does not count, because the other one was quieter."""

    number: Integer  # 1 or 2
    learned: bool  # the record's epochs, results, artefacts, memory and energy of epochs are of this attempt
    status: Status
    reason: Redacted | None = None
    noise: Noise
    cold: Cold
    steady: Steady
    energy: Energy
    started: AwareDatetime
    ended: AwareDatetime


class Artefact(Part):
    """A file kept beside the record, relative to the record's folder."""

    file: str
    sha256: str


class Record(Part):
    """One run."""

    former = frozenset({"breakdown"})
    schema_version: Annotated[Integer, no_newer_than(SCHEMA_VERSION)] = SCHEMA_VERSION
    study: str
    run: str  # <device>/<workload>/<cell>/r<repeat>
    evidence: Evidence = "measured"
    status: Status
    reason: Redacted | None = None  # one line, for every status but ok
    asked: Request
    workload: WorkloadFacts | None = None
    machine: Machine = Field(default_factory=Machine)
    software: Software = Field(default_factory=Software)
    data: DataFacts | None = None
    cold: Cold = Field(default_factory=Cold)
    steady: Steady = Field(default_factory=Steady)
    epochs: list[Epoch] = Field(default_factory=list)
    curve: list[Point] = Field(default_factory=list)  # of learning with a time budget
    learning: Learning = Field(default_factory=Learning)
    pipeline: Pipeline | None = None
    latency: Latency | None = None  # of mode predict
    generated: Generated | None = None  # of mode generate
    results: dict[str, Any] = Field(default_factory=dict)  # final numbers, e.g. validation_accuracy
    memory: Memory = Field(default_factory=Memory)
    energy: Energy = Field(default_factory=Energy)
    noise: Noise = Field(default_factory=Noise)
    artefacts: dict[str, Artefact] = Field(default_factory=dict)
    attempts: list[Attempt] = Field(default_factory=list)  # others than the one that counts
    started: AwareDatetime
    ended: AwareDatetime

    @property
    def learned_epochs(self) -> float:
        """How many epochs were learned, with the part of the last one where train.seconds ended it."""
        steps = self.epochs[-1].steps if self.epochs else None
        if steps is None or self.workload is None:
            return len(self.epochs)
        return len(self.epochs) - 1 + steps / self.workload.steps_per_epoch

"""What a run timed and learned: cold start, steady state, its breakdown, epochs, latency of predictions."""

from typing import Literal

from pydantic import Field

from whichdevice.records.part import Integer, Part
from whichdevice.records.redaction import Told


class Cold(Part):
    """Everything before steady state, each timed apart. `first_step` holds trace, compilation and one step."""

    start: float | None = None  # process start to framework imported
    initialise: float | None = None  # device taken: CUDA context, TPU system
    load: float | None = None  # dataset opened and placed
    build: float | None = None  # model built
    first_step: float | None = None
    warm_up: list[tuple[Integer, float]] = Field(default_factory=list)  # (steps, seconds) discarded windows
    warm_up_epochs: float | None = None  # first step and warm-up, in epochs; below 1: an epoch outlasts the time budget
    warm_up_end: str | None = None  # what ended it: which test, and what that said


class Steady(Part):
    """Steady state: every window as (steps, seconds) and the totals a process counts with."""

    windows: list[tuple[Integer, float]] = Field(default_factory=list)
    steps: Integer = 0
    seconds: float = 0.0
    step_time: float | None = None  # seconds / steps
    throughput: float | None = None  # units per second
    flops_per_second: float | None = None
    epoch_time: float | None = None  # computed: steps_per_epoch * step_time
    trend: Literal["none", "rising", "falling"] | None = None  # of the step times; None: too few windows to tell
    trend_p: float | None = None  # of the Mann-Kendall test
    drift: float | None = None  # Theil-Sen change of the step time over the windows, as a share of their median


class Breakdown(Part):
    """What one step's time went to, in seconds a step; the four parts add up to `step_time`."""

    method: str | None = None
    step_time: float | None = None  # of the loop as timed, again, beside its variants
    input: float | None = None  # choosing and converting the batch
    host: float | None = None  # the loop around the step, as `method` says
    compute: float | None = None
    other: float | None = None  # starting a call, waiting for it and reading its result
    rounds: list[dict[str, tuple[Integer, float]]] = Field(default_factory=list)  # variant: (steps, seconds)
    notes: list[str] = Field(default_factory=list)
    reason: Told | None = None  # why there is none


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


class Latency(Part):
    """How long single calls took in steady state, from inputs in host memory to predictions in host memory."""

    calls: Integer
    seconds: float  # of all of them
    mean: float
    p50: float
    p90: float
    p99: float | None = None  # None: fewer than 100 calls, of which none need be above it
    longest: float

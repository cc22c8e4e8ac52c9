"""Facts that a look at a training script finds, as plain data, and the script's own objects that it hands on."""

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, Literal

from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import KERAS
from whichdevice.models.pipeline import Rate

RECORDER = "whichdevice.forecast.torch.recorder"  # takes down a PyTorch script's kernels; its layer is above this one
HOST = "whichdevice.forecast.host"  # measures how fast this machine sends a step off
COUNTER = "whichdevice.forecast.count.recorded"  # counts the programs of others
SHARED = "Its GPUs share {batch} examples: --gpus says how many they are."
SAMPLE = 1024  # examples that are read of data that come one after the other

Per = Literal["epoch", "step"]
Keeps = Literal["batch", "examples", "steps"]
"""What does not change with the number of GPUs: the batch, which they share; else the batch of each, and of the whole
training its examples or its steps."""


@dataclass(frozen=True)
class Evaluation:
    """Forward passes that come again and again besides the steps of a training."""

    batches: float | None  # each time, in one process; None: not known
    batch_size: int
    every: float | None  # epochs or steps between two times; None: not known
    per: Per = "epoch"
    work: float = 1.0  # of the forward pass of a step, at the same batch
    split: bool = False  # whether several GPUs share the batches
    passes: int = 1  # batches of a step of the script's loop, as it counts them


@dataclass(frozen=True)
class Conditions:
    """Conditions that a script finds where it runs until its training starts."""

    gpus: int = 1  # that the script sees
    values: bool = False  # whether its first step is computed to see it: without values it fails
    timed: bool = False  # whether it trains for a few steps, which are timed
    precision: str | None = None  # that is tried: float32 or mixed; None: the script's own


AS_WRITTEN = Conditions()


@dataclass(frozen=True)
class Found:
    """The training of a script, as plain data; None: the script does not show it."""

    framework: str
    batch_size: int
    examples: int | None = None  # of one epoch
    epochs: int | None = None
    steps_per_epoch: int | None = None
    precision: str = "single"  # as a config's forecast.precision has it
    compiled: bool = False  # whether a PyTorch script calls torch.compile
    unit: str = "example"
    line: int | None = None  # of the script, where its training starts
    notes: tuple[str, ...] = ()  # sentences for the answer: what runs on the host, how lengths vary
    pipeline: tuple[Rate, ...] = ()  # of what gives its batches; empty where arrays in memory do
    unknown: str | None = None  # why its examples or epochs are not known: which loop has no end that shows
    # GPUs that it asks for, itself or in its text's command; None: several, their number not shown
    asks: int | None = 1
    keeps: Keeps = "batch"
    between: float = 0.0  # seconds between two steps, on the host: where frames of an environment are collected
    evaluations: tuple[Evaluation, ...] = ()  # what it does besides its steps
    conditions: Conditions = AS_WRITTEN  # in which it ran
    memory: int = field(default=0, compare=False)  # bytes that it took to its first step

    def declaration(self) -> Declaration:
        """Return it as constants of a model file; `examples` limits what is read of streamed data."""
        most = max(SAMPLE, 2 * self.batch_size)
        return Declaration(
            batch_size=self.batch_size,
            epochs=self.epochs or 1,
            steps_per_epoch=self.steps_per_epoch,
            examples=None if self.examples and self.examples <= most else most,  # few end by themselves
            unit=self.unit,
            functions=frozenset({"model", "data", *(() if self.framework == KERAS else ("optimizer",))}),
            by_compile=True,
            framework=self.framework,
        )


@dataclass
class Script:
    """A script that was stopped: what was found, and what was recorded of its step, as plain data."""

    found: Found
    recorded: SimpleNamespace
    batches: Any = None  # what gives them one after the other, if anything does

"""What was asked of a run."""

from typing import Any, Literal

from pydantic import Field

from whichdevice.records.part import Integer, Part


class Request(Part):
    """What was asked of a run: the cell, the repeat and every setting that can change its numbers."""

    device: str
    kind: str
    replicas: Integer
    workload: str
    module: str
    mode: Literal["train", "predict"] | None = "train"  # what is done with the model; None: a single operation has none
    backend: str
    precision: str
    batch_size: Integer
    fraction: float
    loop: str
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
    profile: bool
    breakdown: bool = False
    dataset: str | None
    source: str | None
    options: dict[str, Any] = Field(default_factory=dict)  # of a model file, from the config
    slowdown: float = 0.0  # planted: share by which every timed window is made longer; 0 for everything but self-checks

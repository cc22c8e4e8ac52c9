"""Timed steps that people share: one file of results/commons/ a card, without names of models, people or machines.

`whichdevice share` writes it for a pull request; `make forecasts` reads each file as a source of its own.
"""

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, PositiveFloat

from whichdevice.base.files import write_atomically
from whichdevice.base.parts import Part, read_as

COMMONS = Path("results/commons")


class TimedStep(Part):
    """One step that somebody timed, by what it consists of."""

    mode: Literal["train", "predict", "prefill", "decode"]
    precision: str
    batch: PositiveFloat
    seconds: PositiveFloat
    work: dict[str, Any]  # forecast.work.Work.digest(), which names its software

    @property
    def name(self) -> str:
        """A name that says nothing of the model, the same for the same step on another card."""
        text = json.dumps(self.work, sort_keys=True)
        return f"step {hashlib.sha256(text.encode()).hexdigest()[:8]}"


class SharedCard(Part):
    """The times that one person took on one card."""

    schema_version: Literal[1] = 1
    device: str  # row of config/hardware.csv
    versions: dict[str, str] = Field(default_factory=dict)
    steps: list[TimedStep]


def write_card(card: SharedCard, folder: Path = COMMONS) -> Path:
    """Write the file, named by what it holds."""
    text = card.model_dump_json(indent=1) + "\n"
    path = folder / f"{card.device.replace(' ', '_')}-{hashlib.sha256(text.encode()).hexdigest()[:8]}.json"
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(text, path)
    return path


def read_cards(folder: Path = COMMONS) -> Iterator[tuple[str, SharedCard]]:
    """Every shared file with its name; raises StudyError that names one that cannot be read."""
    for path in sorted(folder.glob("*.json")):
        yield path.stem, read_as(SharedCard, path, "a shared card, schema 1")


def card_of(device: str, steps: Sequence[TimedStep], versions: dict[str, str]) -> SharedCard:
    """One card's steps; of a step that was timed twice the fastest."""
    fastest: dict[tuple[str, str, str, float], TimedStep] = {}
    for step in sorted(steps, key=lambda step: -step.seconds):
        fastest[step.name, step.mode, step.precision, step.batch] = step
    return SharedCard(device=device, versions=versions, steps=list(fastest.values()))

"""The steps of well-known models, traced or compiled once: `tools/explorer_steps.py` makes steps.json.gz anew.

    model = known_models()["resnet50"]
    model.steps["mixed 16 bits"]["128"]       # what a step of 128 images does, on any device

A step of PyTorch is a trace, of a pass of `4` examples, or `4c` with checkpointing where a step may be several passes.
A step of Keras has one count for all devices. What a TPU makes of a step is kept next to it. A forecast is a sum
over the kinds of work, so sums are kept.
"""

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from whichdevice.forecast.work import Item, Software

KEPT_STEPS = Path(__file__).parent / "steps.json.gz"
MIXED, HALF, SINGLE = "mixed 16 bits", "16-bit weights", "TF32 or float32"
LORA, QLORA = "LoRA", "QLoRA (4-bit weights)"
ADAPTERS = (LORA, QLORA)
BATCHES = (1, 8, 32, 128)  # of a language model, whose steps may be several passes
MEMORY_PARTS = (  # of a trace's memory; the last three of decoders
    "weights", "gradients", "optimizer", "working", "peak", "activations", "logits", "single", "inputs",
)  # fmt: skip
GROUPS = {
    "hf": "Language, text and speech (Hugging Face)", "timm": "Images: classifiers (timm)", "own": "Others",
    "keras": "In Keras, compiled by XLA: workloads of WhichDevice",
}  # fmt: skip


@dataclass(frozen=True)
class KnownModel:
    """A well-known model with its steps, by training and by batch or pass."""

    name: str
    library: str  # one of GROUPS
    unit: str
    tokens: int | None  # of a sequence
    steps: Mapping[str, Mapping[str, Any]]

    @property
    def software(self) -> Software:
        """Return what runs its steps."""
        return "xla" if self.library == "keras" else "eager"

    @property
    def has_passes(self) -> bool:
        """Return whether a step may be several passes."""
        return self.library == "hf"

    @property
    def batches(self) -> tuple[int, ...]:
        """Return the batch sizes that the page offers."""
        if self.has_passes:
            return BATCHES
        return tuple(sorted({int(size) for sizes in self.steps.values() for size in sizes}))


def known_models() -> dict[str, KnownModel]:
    """Return all models by name, in the page's order."""
    kept = json.loads(gzip.decompress(KEPT_STEPS.read_bytes()))
    return {name: KnownModel(name, **model) for name, model in kept.items()}


def items_of(sums: list[list[Any]]) -> tuple[Item, ...]:
    """Return the work that was kept as sums over its kinds."""
    return tuple(
        Item(kind, precision, operations / count, nbytes / count, count)
        for kind, precision, operations, nbytes, count in sums
    )

"""Tune a PyTorch model: all of its weights or LoRA's, in 4 bits, with checkpointing, by which optimiser.

A model file states it in constants, an `hf:` model takes it as options of the same names in small letters:

    METHOD = "lora"                  full, lora or qlora (frozen weights in 4 bits)
    LORA_RANK = 16
    LORA_LAYERS = "attention"        all linear layers but the last, or those of queries and values alone
    LORA_DROPOUT = 0.05
    GRADIENT_CHECKPOINTING = True
    GRADIENT_ACCUMULATION = 8        batches of a step
    PRECISION = "bfloat16"           where the question names no number format
    OPTIMIZER = "AdamW8bit"          its two moments take a byte each; or a name of torch.optim

The layers that follow from it are in models/lora.py.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from whichdevice.base.errors import StudyError

METHODS = ("full", "lora", "qlora")
LAYERS = ("all", "attention")
FORMATS = ("float32", "tf32", "bfloat16", "mixed_bfloat16", "mixed_float16")
OPTIMIZERS = ("AdamW", "AdamW8bit", "SGD")


@dataclass(frozen=True)
class Tuning:
    """The way in which a model is trained; `precision` is None where the question decides."""

    method: str = "full"
    lora_rank: int = 16
    lora_layers: str = "all"
    lora_dropout: float = 0.0
    gradient_checkpointing: bool = False
    gradient_accumulation: int | None = None  # None: as it fits, or at once
    precision: str | None = None
    optimizer: str = "AdamW"
    float8: bool = False  # products of linear layers in 8 bits, as torchao's and TransformerEngine's, compiled

    @classmethod
    def of(cls, given: Mapping[str, Any], label: str) -> Self:
        """Return it as a model's options say; raises StudyError that names the option and what it may be."""
        choices = {"precision": FORMATS, "method": METHODS, "lora_layers": LAYERS, "optimizer": OPTIMIZERS}
        for name, value in given.items():
            if isinstance(value, Exception):  # of a file's constant
                raise StudyError(f"{label}: {name.upper()} {value}")
            if name in choices:
                right, needed = value in choices[name], f"one of {', '.join(choices[name])}"
            elif name == "lora_dropout":
                right, needed = isinstance(value, int | float) and 0 <= value < 1, "a number from 0 to 1"
            elif name in ("gradient_checkpointing", "float8"):
                right, needed = isinstance(value, bool), "true or false"
            else:
                right, needed = type(value) is int and value > 0, "a whole number above 0"
            if not right:
                raise StudyError(f"{label}: {name} is {value!r}; it must be {needed}")
        return cls(**given)

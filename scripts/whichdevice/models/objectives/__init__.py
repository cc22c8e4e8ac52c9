"""Objectives of a model of Hugging Face, other than the next word or a class: one file an objective.

    --option objective=dpo     objectives/dpo.py, which defines a class of `Objective` by that name: Dpo

An objective says what an example is made of and wraps the model: its `forward` takes one batch and gives a `loss`.
Everything else follows: kernels, memory by part, several GPUs, LoRA, checkpointing, what to change.
"""

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar

from whichdevice.base.errors import StudyError
from whichdevice.models.shapes import Tree

DEFAULT = "sft"  # the model's own loss


class Objective(ABC):
    """The way from an example to a loss."""

    unit: ClassVar[str] = "sequence"
    tasks: ClassVar[tuple[str, ...]] = ("CausalLM",)  # of transformers' classes
    options: ClassVar[tuple[str, ...]] = ()
    in_one_pass: ClassVar[bool] = False  # whether the examples of a step see each other
    note: ClassVar[str] = ""  # on what an example is, or what a step leaves out

    def __init__(self, given: Mapping[str, Any], label: str) -> None:
        self.given, self.label = given, label

    @abstractmethod
    def shapes(self, vocabulary: int) -> tuple[Tree, Tree]:
        """Return what the wrapped model takes for one example: inputs, targets, both by name."""

    @abstractmethod
    def module(self, model: Any, reference: Callable[[], Any] | None) -> Any:
        """Return the module that is trained; `reference` makes a frozen copy, None: `model` without its adapters."""

    def number(self, name: str, usual: float, least: float = 0.0) -> float:
        """Return an option that is a number; raises StudyError on anything else."""
        value = self.given.get(name)
        if value is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int | float) or value < least:
            raise StudyError(f"{self.label}: {name} is {value!r}; it must be a number of at least {least:g}")
        return float(value)


# Of models that turn a text into a vector; one that orders or sorts texts is a classifier.
EMBEDDING = re.compile(r"^sentence-transformers/|(^|[/-])(bge|e5|gte|sbert|embed(?!ded)\w*)(?=[-_]|$)", re.IGNORECASE)
CLASSIFIER = re.compile("rerank|classif", re.IGNORECASE)
EMBED_TASKS = ("SequenceClassification", "CausalLM")  # of models that can learn that


def usual_objective(name: str, task: Callable[[], str]) -> str:
    """Return what people train a model of this name for, and of this task, which is asked for where the name fits."""
    embeds = EMBEDDING.search(name) and not CLASSIFIER.search(name) and task() in EMBED_TASKS
    return "contrastive" if embeds else DEFAULT


def names() -> list[str]:
    """Return all objectives, the usual one first."""
    return [DEFAULT, *sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))]


def find_objective(name: str) -> type[Objective] | None:
    """Return the class of an objective, None for the model's own loss; raises StudyError where there is none."""
    if name == DEFAULT:
        return None
    if name not in names():
        raise StudyError(f"objective {name!r}: there are {', '.join(names())}")
    objective: type[Objective] = getattr(import_module(f"{__name__}.{name}"), name.capitalize())
    return objective

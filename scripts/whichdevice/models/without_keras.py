"""Measure a model of PyTorch or JAX without Keras: what both frameworks' model files have in common."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.consistency import check_declared
from whichdevice.models.data import VALIDATION_SHARE
from whichdevice.models.model_file import Adapter, ModelFile
from whichdevice.models.shapes import Array, Tree, mapped, packed
from whichdevice.models.workloads.base import Arrays, Options, Split

TRIED = 2  # examples that a model is tried on, enough for batch statistics


class NativeModel(ABC):
    """A model that is not Keras'."""

    kind = "model"  # the name of the user's class

    @abstractmethod
    def sizes(self) -> tuple[int, int]:
        """Numbers of the model: all weights and statistics, and the trained ones."""

    def count_params(self) -> int:
        """All weights and statistics."""
        return self.sizes()[0]

    @abstractmethod
    def save_weights(self, path: Path) -> None:
        """Write the trained values to a file."""

    @abstractmethod
    def learning_rate(self) -> float | None:
        """Return the rate of its optimiser, or None where the optimiser does not say."""

    @property
    @abstractmethod
    def output_shape(self) -> list[int]:
        """Shape of what the model gives for one example, found once; raises what the file's functions raise."""


class NativeFile(ModelFile):
    """A model file of PyTorch or JAX, whose model has no part of Keras."""

    def __init__(self, adapter: Adapter, options: Options) -> None:
        super().__init__(adapter, options)
        self._first = Arrays()

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """Return them as for a Keras model; raises StudyError where there are sample weights."""
        train, validation = super().splits(arrays)
        if "weights" in train.arrays:
            raise StudyError(f"{self.address.label}: data() gives sample weights; only Keras models take them")
        self._first = {name: np.array(values[:TRIED]) for name, values in train.arrays.items()}
        return train, validation

    def _shapes_of_model(self) -> tuple[Tree, Tree]:
        raise StudyError(f"{self.address.label}: it needs INPUT and TARGET, or a function data()")

    def _built(self) -> Any:
        """Return what the file's `model` returns."""
        check_declared(self.declared, self.address.label)
        with self._explaining("model()"):
            return self._called("model")

    def _wrong_model(self, built: Any, needed: str) -> StudyError:
        what = "None" if built is None else f"a {type(built).__name__}"
        return StudyError(f"{self.address.label}: model() returns {what}; {needed} is needed")

    @abstractmethod
    def _named_loss(self, name: Any, constant: str = "LOSS") -> Callable[[Any, Any], Any]:
        """The framework's loss (output, target) of that name, given in `constant`; raises StudyError without one."""

    @abstractmethod
    def _accuracy(self, output: Any, target: Any) -> Any:
        """1 for each right class, else 0."""

    def _named_metric(self, name: Any) -> Callable[[Any, Any], Any]:
        return self._accuracy if name == "accuracy" else self._named_loss(name, "METRIC")

    @property
    def first(self) -> Arrays:
        """The first training examples by path."""
        if not self._first:
            self.splits({})
        return self._first

    def few(self) -> Arrays:
        """The first training examples; no more are generated or read."""
        examples = max(2 * TRIED, VALIDATION_SHARE)  # some of which validate
        self.declared = replace(self.declared, examples=examples)
        return self.first

    @property
    def inputs(self) -> Tree:
        """Shapes and types of one input."""
        return mapped(lambda array: Array(array.shape[1:], str(array.dtype)), packed(self.first, "inputs"))

    def example(self, model: NativeModel) -> Tree:
        """Return the shapes and types of the data."""
        return self.inputs

    def outputs(self, model: NativeModel) -> Tree:
        """Return the shape of the tensor that stands for the model's output."""
        return Array(tuple(model.output_shape))

    def host_inputs(self, train: Split, index: np.ndarray) -> Tree:
        """Inputs of the examples `index`, as NumPy arrays."""
        return packed({name: np.ascontiguousarray(values[index]) for name, values in train.arrays.items()}, "inputs")


def examples_of(arrays: Mapping[str, Any]) -> tuple[Any, Any]:
    """Inputs and targets of arrays by their paths."""
    return packed(arrays, "inputs"), packed(arrays, "targets")


def call_arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what a module is called with: a dict by name, a tuple by place."""
    if isinstance(inputs, dict):
        return (), dict(inputs)
    return (inputs if isinstance(inputs, tuple) else (inputs,)), {}

"""What model files of PyTorch and of JAX share: the data, and what a run asks of a model that is not Keras'."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.workloads.base import Arrays, Options, Split
from whichdevice.workloads.model_file import ModelFile
from whichdevice.workloads.native_model import NativeModel
from whichdevice.workloads.shapes import Array, Tree, mapped, packed

EXAMPLE = 2  # examples that a model is tried on: enough for batch statistics


class NativeFile(ModelFile):
    """A model file of PyTorch or JAX, whose model has no part of Keras."""

    loops = ("epoch", "fit")

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._first: Arrays = {}

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """As of a Keras model; raises StudyError where there are sample weights."""
        train, validation = super().splits(arrays)
        if "weights" in train.arrays:
            raise StudyError(f"{self.address.label}: data() gives sample weights; only Keras models take them")
        self._first = {name: np.array(values[:EXAMPLE]) for name, values in train.arrays.items()}
        return train, validation

    def _shapes_of_model(self) -> tuple[Tree, Tree]:
        raise StudyError(f"{self.address.label}: it needs INPUT and TARGET, or a function data()")

    @property
    def first(self) -> Arrays:
        """The first training examples by path."""
        if not self._first:
            self.splits({})
        return self._first

    @property
    def inputs(self) -> Tree:
        """Shapes and types of one input."""
        return mapped(lambda array: Array(array.shape[1:], str(array.dtype)), packed(self.first, "inputs"))

    def example(self, model: NativeModel) -> Tree:
        """As the data have it."""
        return self.inputs

    def outputs(self, model: NativeModel) -> Tree:
        """Of the tensor that stands for the model's output."""
        return Array(tuple(model.output_shape))

    def own_step(self, model: Any) -> bool:
        """Never: that is Keras'."""
        return False

    def host_inputs(self, train: Split, index: np.ndarray) -> Tree:
        """Inputs of the examples `index`, as NumPy arrays."""
        return packed({name: np.ascontiguousarray(values[index]) for name, values in train.arrays.items()}, "inputs")

"""What model files of PyTorch and of JAX share: inputs and targets, which may be dicts and tuples of arrays."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.workloads.base import Arrays, Options, Split
from whichdevice.workloads.declaration import Array
from whichdevice.workloads.generated_data import generate
from whichdevice.workloads.given_data import drawn
from whichdevice.workloads.model_file import EXAMPLES, SEED, ModelFile
from whichdevice.workloads.model_shapes import check_declared

EXAMPLE = 2  # examples that a model is tried on: enough for batch statistics


class NativeFile(ModelFile):
    """A model file of PyTorch or JAX. Data are a flat dict of arrays by path: `inputs`, `inputs/ids`, `targets`."""

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._first: Arrays = {}

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The data function's, else generated ones; `fraction` of the training data, drawn at random but the same."""
        check_declared(self.declared, self.path.name)
        train, validation = self._arrays()
        examples = len(next(iter(train.values())))
        count = max(1, round(examples * self.options.fraction))
        if count < examples:
            index = drawn(examples, count)
            train = {name: values[index] for name, values in train.items()}
        self._first = {name: np.array(values[:EXAMPLE]) for name, values in train.items()}
        return Split(train, count), Split(validation, len(next(iter(validation.values()))))

    @property
    def first(self) -> Arrays:
        """The first training examples by path."""
        if not self._first:
            self.splits({})
        return self._first

    def _arrays(self) -> tuple[Arrays, Arrays]:
        """Training and validation data by path."""
        declared = self.declared
        if self._has("data"):
            train, validation = self._data()
            return _flat(*train), _flat(*validation)
        if declared.input is None or declared.target is None:
            raise StudyError(f"{self.path.name}: it needs INPUT and TARGET, or a function data()")
        examples = declared.examples or max(EXAMPLES, self.options.batch_size)
        return self._generated(examples, SEED), self._generated(max(1, examples // 8), SEED + 1)

    def _generated(self, examples: int, seed: int) -> Arrays:
        inputs, targets = named(self.declared.input, "inputs"), named(self.declared.target, "targets")
        found: Arrays = {}
        for number, (name, array) in enumerate(inputs.items()):
            found[name] = generate(array, next(iter(targets.values())), examples, self.length, seed + 1000 * number)[0]
        for name, array in targets.items():
            same = [number for number, each in enumerate(inputs.values()) if each.shape == array.shape] or [0]
            source = list(inputs.values())[same[0]]
            found[name] = generate(source, array, examples, self.length, seed + 1000 * same[0])[1]
        return found

    def example_shape(self, model: Any) -> tuple[int | None, ...]:
        """Of the first input."""
        return tuple(next(iter(self.first.values())).shape[1:])

    @property
    def inputs(self) -> list[Array]:
        """Shape and type of one example of each input."""
        return [
            Array(array.shape[1:], str(array.dtype))
            for name, array in self.first.items()
            if name.partition("/")[0] == "inputs"
        ]

    def host_inputs(self, train: Split, index: np.ndarray) -> Any:
        """Inputs of the examples `index`, as NumPy arrays."""
        return packed({name: np.ascontiguousarray(values[index]) for name, values in train.arrays.items()}, "inputs")


def named(tree: Any, name: str) -> dict[str, Any]:
    """The leaves of a nested dict or tuple by their paths, which begin with `name`."""
    if isinstance(tree, Mapping):
        return {key: leaf for part in tree for key, leaf in named(tree[part], f"{name}/{part}").items()}
    if isinstance(tree, tuple | list):
        return {key: leaf for place, part in enumerate(tree) for key, leaf in named(part, f"{name}/#{place}").items()}
    return {name: tree}


def packed(flat: Mapping[str, Any], name: str) -> Any:
    """The nested dict or tuple again whose leaves are below `name`."""
    if name in flat:
        return flat[name]
    below = [key[len(name) + 1 :].partition("/")[0] for key in flat if key.startswith(f"{name}/")]
    parts = {part: packed(flat, f"{name}/{part}") for part in dict.fromkeys(below)}
    return tuple(parts.values()) if all(part.startswith("#") for part in parts) else parts


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """A nested dict or tuple of what the function gives for each leaf."""
    if isinstance(tree, Mapping):
        return {key: mapped(function, part) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        return tuple(mapped(function, part) for part in tree)
    return function(tree)


def _flat(inputs: Any, targets: Any) -> Arrays:
    return named(inputs, "inputs") | named(targets, "targets")

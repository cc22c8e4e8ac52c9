"""The contract of a workload: a training task or a single operation, written once for every backend and device.

    class MyNet(TrainingWorkload):
        recipe = Recipe("Author, 2026", batch_size=128, epochs=5)  # what makes the class a workload
        dataset = "mnist"

        def splits(self, arrays): ...          training and validation data, as NumPy arrays
        def batch(self, arrays, index): ...    inputs and targets of some examples
        def model(self): ...                   a Keras model, not compiled
        def loss(self, target, prediction): ...
        def optimizer(self): ...

A file of this folder with such a class, or with a function `model(options)`, is a built-in workload of the file's
name. An operation, such as a matrix product, is an `OperationWorkload`. Arrays are NumPy until a backend places them on
its device; after that only `keras.ops` touches them, so that the same lines run on TensorFlow, JAX and PyTorch.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.batch_order import BatchOrder, Permutations
from whichdevice.models.shapes import Array, Tree, leaves

Arrays = dict[str, Any]
TOKENS = ("token_ids", "input_ids")  # names of KerasHub and Hugging Face
NO_GENERATION = (
    "the model does not generate tokens: mode generate takes a causal model of KerasHub, one of Hugging Face in "
    "PyTorch, or a Keras file with the functions empty_cache and call_with_cache"
)


@dataclass(frozen=True)
class Recipe:
    """The publication's training, and where that is written."""

    source: str
    batch_size: int
    epochs: int = 0
    steps_per_epoch: int | None = None  # None: the whole training data, without the tail
    sequence_length: int | None = None


@dataclass(frozen=True)
class Options:
    """The axes of one run that a workload may depend on."""

    batch_size: int
    precision: str = "float32"
    fraction: float = 1.0
    sequence_length: int | None = None
    given: Mapping[str, Any] = field(default_factory=dict)  # the config's `options` of the workload
    read: set[str] = field(default_factory=set, compare=False, repr=False)  # names that were asked for

    def get(self, name: str, default: Any) -> Any:
        """One of the config's `options` of the workload, or the default."""
        self.read.add(name)
        return self.given.get(name, default)


@dataclass(frozen=True)
class Split:
    """Arrays to be placed on the device, and how many examples can be drawn from them."""

    arrays: Arrays
    examples: int
    batch_size: int | None = None  # of evaluation; None: the workload's

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(array.nbytes for array in self.arrays.values())


@dataclass(frozen=True)
class Generation:
    """The way in which a causal model continues sequences, in its framework's operations.

    `empty_cache(batch, length)` gives keys and values of so many tokens as nested arrays whose first axis is the batch.
    `call(tokens, cache, position)` takes tokens int32 [batch, new] and where the first one is in its sequence; it gives
    the scores of the token that follows the last, [batch, vocabulary], and the cache with the new tokens written.
    """

    empty_cache: Callable[[int, int], Any]
    call: Callable[[Any, Any, Any], tuple[Any, Any]]


def prompt_length(length: int) -> int:
    """Tokens of the prompt in a sequence of so many: half of it; the other half is generated."""
    return length // 2


def tokens_of(inputs: Tree) -> Any:
    """Return a model's inputs that are tokens, by their name or as the first ones; raises StudyError on others."""
    named = inputs if isinstance(inputs, dict) else {}
    tokens = next((named[name] for name in TOKENS if name in named), leaves(inputs)[0])
    if "int" not in str(tokens.dtype):
        raise StudyError(f"mode generate takes models of tokens; this one's inputs are {tokens.dtype}")
    return tokens


class Workload(ABC):
    """The facts that every workload states about itself."""

    recipe: Recipe
    dataset: ClassVar[str | None] = None
    unit: str = "example"  # what throughput counts
    framework: ClassVar[str] = "keras"  # else `torch` or `jax`: only that backend runs it, without Keras
    generates: bool = False  # whether it may have a `generation`; a model shows it when it is made

    def __init__(self, options: Options) -> None:
        self.options = options

    @property
    def sequence_length(self) -> int:
        """Steps per sequence: the option's, else the recipe's."""
        length = self.options.sequence_length or self.recipe.sequence_length
        if length is None:
            raise StudyError(f"{type(self).__name__}: needs a sequence_length")
        return length


class OperationWorkload(Workload):
    """A single operation repeated on the device, without data, learning or accuracy."""

    host_copies: ClassVar[float] = 3.0  # host memory, in units of bytes_per_step
    bounded: ClassVar[bool] = False  # whether no number of steps makes the state too large

    @abstractmethod
    def operands(self, random: np.random.Generator) -> tuple[np.ndarray, Arrays]:
        """The initial state and the constant operands, as NumPy arrays of float32."""

    @abstractmethod
    def step(self, state: Any, operands: Arrays) -> Any:
        """One step: the next state. Written in `keras.ops`; each step depends on the one before."""

    @property
    @abstractmethod
    def flops_per_step(self) -> float:
        """Floating-point operations of one step."""

    @property
    @abstractmethod
    def bytes_per_step(self) -> float:
        """The fewest bytes that one step moves: each operand read and each result written once."""

    @property
    def units_per_step(self) -> float:
        """The number of `unit` that a step is."""
        return 1.0

    @property
    def input_shape(self) -> list[int]:
        """Shape of the state."""
        return [self.options.batch_size] * 2


class TrainingWorkload(Workload):
    """A model, its data and how it is trained."""

    metric: str | None = "accuracy"
    higher_is_better: bool = True
    data_source: str = "generated"  # where there is no dataset: generated, or the file's own
    more_examples: str = ""  # in words, how to have more data where a batch is larger
    weights_file: ClassVar[str] = "model.weights.h5"  # that trained weights are kept in

    @abstractmethod
    def model(self) -> Any:
        """The Keras model, not compiled; its random initial weights come from Keras' global seed."""

    @abstractmethod
    def loss(self, target: Any, prediction: Any) -> Any:
        """Mean loss of a batch, a scalar."""

    @abstractmethod
    def optimizer(self) -> Any:
        """A fresh Keras optimiser."""

    @abstractmethod
    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """Training and validation data out of the prepared dataset's arrays."""

    def part(self, held_out: Split) -> Split:
        """Return as much of the held-out data as learning with a time budget evaluates: two batches."""
        return replace(held_out, examples=min(held_out.examples, 2 * self.options.batch_size))

    @abstractmethod
    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, ...]:
        """Inputs and targets of the examples `index` (int32 [batch]), out of placed arrays, in `keras.ops`.

        Each is an array, or a tuple or dict of arrays. Where the model's own step trains it, sample weights may follow,
        and targets may be missing.
        """

    def own_step(self, model: Any) -> bool:
        """Return whether a step is the model's own `train_step`, as `compile` set it up."""
        return False

    def check_options(self) -> None:
        """Called once data, model and optimiser are made; a model file refuses `options` that it never read."""

    def example(self, model: Any) -> Tree:
        """Shapes and types of one input, once there are data; the sequence's length where the model leaves it open."""
        length = self.options.sequence_length or self.recipe.sequence_length
        tensor = model.inputs[0]
        return Array(tuple(length if size is None else size for size in tensor.shape[1:]), str(tensor.dtype))

    def outputs(self, model: Any) -> Tree:
        """Shapes and types of one prediction; None: the model has no call."""
        tensor = model.outputs[0]
        return Array(tuple(tensor.shape[1:]), str(tensor.dtype))

    def generation(self, model: Any) -> Generation:
        """Return how the model generates tokens; raises StudyError where it does not."""
        raise StudyError(f"{type(self).__name__}: {NO_GENERATION}")

    def quality(self, target: Any, prediction: Any) -> Any:
        """Mean of the metric over a batch, a scalar; only called where `metric` is named."""
        raise NotImplementedError

    def order(self, examples: int, seed: int) -> BatchOrder:
        """Return the order of examples in batches: by default every one once an epoch, shuffled."""
        return Permutations(examples, self.options.batch_size, seed)

    def callbacks(self, folder: Path) -> list[Any]:
        """Keras callbacks that act on learning; `folder` takes what they keep."""
        return []

    def best_weights(self) -> Path | None:
        """Weights that the callbacks kept as the best, to be loaded after learning."""
        return None

    def steps_per_epoch(self, examples: int, asked: int | None = None) -> int:
        """Return the steps asked for, else whole batches of data; raises StudyError where none can be filled."""
        steps = examples // self.options.batch_size
        draws_again = asked and not isinstance(self.order(examples, 0), Permutations)  # and so fills any batch
        if steps < 1 and not draws_again:
            part = self.options.fraction < 1
            raise StudyError(
                f"batch_size {self.options.batch_size}: only {examples:,} training examples"
                f"{f' (fraction {self.options.fraction})' * part}; take a smaller batch"
                f"{' or a larger fraction' if part else self.more_examples}"
            )
        return asked or steps

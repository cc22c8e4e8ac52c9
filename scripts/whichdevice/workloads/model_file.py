"""A workload made of a model file: Keras model, shapes or data, loss, optimiser, metric (docs/start/your-model.md).

The file is imported when the model or its data are wanted, and not before: never by a step that only plans. What is
wrong in it then is a StudyError in one line.
"""

import inspect
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.python_source import string_constants
from whichdevice.workloads.base import Arrays, Options, Recipe, Split, Target, TrainingWorkload, defined_in
from whichdevice.workloads.declaration import Declaration, read_declaration
from whichdevice.workloads.file_errors import lacks_memory, told
from whichdevice.workloads.generated_data import concrete, generate
from whichdevice.workloads.given_data import Pair, drawn, pairs_of
from whichdevice.workloads.model_shapes import check_data, check_declared, check_model
from whichdevice.workloads.named_losses import named_loss, named_metric

EXAMPLES = 1024  # generated, where the file does not say how many; at least a batch
SEED = 1


def model_file_class(module: str, path: Path, load: Callable[[], ModuleType]) -> "type[ModelFile]":
    """The workload class of one model file; `load` imports it."""
    declared = read_declaration(path)
    goal = declared.goal
    fields = {
        "path": path,
        "declared": declared,
        "load": staticmethod(load),
        "unit": declared.unit,
        "metric": declared.metric or ("metric" if "metric" in declared.functions else None),
        "higher_is_better": _higher_is_better(declared),
        "data_source": "own" if "data" in declared.functions else "generated",
        "recipe": Recipe(
            source=declared.source or f"model file {path.name}",
            batch_size=declared.batch_size,
            epochs=declared.epochs,
            steps_per_epoch=declared.steps_per_epoch,
            sequence_length=declared.sequence_length,
            target=None if goal is None else Target(float(goal), f"GOAL in {path.name}", standin=float(goal), own=True),
        ),
        "__doc__": f"The workload of {path.name}.",
        "module": module,
    }
    return type("ModelFile", (ModelFile,), fields)


class ModelFile(TrainingWorkload):
    """What a model file gives, as a workload."""

    path: ClassVar[Path]
    module: ClassVar[str]
    declared: ClassVar[Declaration]
    load: ClassVar[Callable[[], ModuleType]]

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._shapes = self.declared.input, self.declared.target
        self._loss: Callable[[Any, Any], Any] | None = None
        self._quality: Callable[[Any, Any], Any] | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Other processes make the class anew from the file."""
        return _again, (self.module, self.options)

    @property
    def length(self) -> int | None:
        """Steps per sequence, where the file or the config has one."""
        return self.options.sequence_length or self.recipe.sequence_length

    def model(self) -> Any:
        """What the file's `model` returns, checked against its shapes."""
        check_declared(self.declared, self.path.name)
        with self._saying("model()"):
            built = self._called("model")
        check_model(built, *self._shapes, self.declared.loss, self.length, self.path.name)
        return built

    def optimizer(self) -> Any:
        """A fresh one, by the file's function or by its Keras name."""
        import keras

        with self._saying("optimizer()" if self._has("optimizer") else "OPTIMIZER"):
            made = (
                self._called("optimizer") if self._has("optimizer") else keras.optimizers.get(self.declared.optimizer)
            )
        if not isinstance(made, keras.optimizers.Optimizer):
            raise StudyError(
                f"{self.path.name}: optimizer() returns a {type(made).__name__}; a Keras optimiser is needed"
            )
        return made

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The data function's, else generated ones; `fraction` of the training data, drawn at random but the same."""
        check_declared(self.declared, self.path.name)
        train, validation = self._data()
        count = max(1, round(len(train[0]) * self.options.fraction))
        if count < len(train[0]):
            index = drawn(len(train[0]), count)
            train = train[0][index], train[1][index]
        return _split(train), _split(validation)

    def _data(self) -> tuple[Pair, Pair]:
        declared = self.declared
        if self._has("data"):
            where = f"{self.path.name}: data()"
            with self._saying("data()"):
                given = self._called("data")
                train, validation = pairs_of(given, declared.examples, where)
            self._shapes = check_data(train, validation[1], declared, self.length, where)
            return train, validation
        if declared.input is None or declared.target is None:
            raise StudyError(f"{self.path.name}: it needs INPUT and TARGET, or a function data()")
        examples = declared.examples or max(EXAMPLES, self.options.batch_size)
        shapes = declared.input, declared.target
        return (
            generate(*shapes, examples, self.length, SEED),
            generate(*shapes, max(1, examples // 8), self.length, SEED + 1),
        )

    def check_options(self) -> None:
        """Raise StudyError on one that the file neither asked for nor names: it would be measured without it.

        One that it names may be read later, by its loss, or under other settings.
        """
        unread = [name for name in self.options.given if name not in self.options.read]
        named = string_constants(self.path.read_bytes()) if unread else set()
        for name in unread:
            if name not in named:
                reads = ", ".join(sorted(self.options.read)) or "none"
                raise StudyError(f"{self.path.name}: options.{name} is never read; this file reads {reads}")

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Inputs and targets as they are; whole-number targets as int32."""
        from keras import ops

        target = ops.take(arrays["targets"], index, axis=0)
        if "float" not in str(target.dtype):
            target = ops.cast(target, "int32")
        return ops.take(arrays["inputs"], index, axis=0), target

    def example_shape(self, model: Any) -> tuple[int | None, ...]:
        """The data's, else as INPUT says."""
        given = self._shapes[0]
        return super().example_shape(model) if given is None else concrete(given, self.length)

    def own_objects(self) -> dict[str, Any]:
        """What the file defines."""
        return defined_in(self._source())

    def loss(self, target: Any, prediction: Any) -> Any:
        """The mean of what the file's loss gives for float32 predictions."""
        from keras import ops

        if self._loss is None:
            self._loss = self._function("loss") if self._has("loss") else named_loss(self.declared.loss, self.path.name)
        with self._saying("loss()" if self._has("loss") else f"LOSS {self.declared.loss}"):
            return ops.mean(ops.cast(self._loss(target, ops.cast(prediction, "float32")), "float32"))

    def quality(self, target: Any, prediction: Any) -> Any:
        """The mean of what the file's metric gives."""
        from keras import ops

        if self._quality is None:
            metric, loss = self.declared.metric, self.declared.loss
            has = self._has("metric")
            self._quality = self._function("metric") if has else named_metric(metric, loss, self.path.name)
        with self._saying("metric()" if self._has("metric") else f"METRIC {self.declared.metric}"):
            return ops.mean(ops.cast(self._quality(target, ops.cast(prediction, "float32")), "float32"))

    def _has(self, name: str) -> bool:
        return name in self.declared.functions

    def _function(self, name: str) -> Callable[..., Any]:
        found = getattr(self._source(), name, None)
        if not callable(found):
            raise StudyError(f"{self.path.name}: {name} is no function")
        return found

    def _source(self) -> ModuleType:
        return type(self).load()

    def _called(self, name: str) -> Any:
        """A function of the file, given the options where it takes them."""
        function = self._function(name)
        return function(self.options) if inspect.signature(function).parameters else function()

    @contextmanager
    def _saying(self, part: str) -> Iterator[None]:
        """What goes wrong inside is an error of the file in one line; a lack of memory stays what it is."""
        try:
            yield
        except StudyError:
            raise
        except Exception as error:
            if lacks_memory(error):
                raise
            traceback.print_exc()  # for the run's log
            import keras

            backend = keras.backend.backend()
            raise StudyError(f"{self.path.name}: {part} fails on {backend}: {told(error, self.path)}") from error


def _higher_is_better(declared: Declaration) -> bool:
    """What the file says; else not for a loss by its Keras name."""
    if declared.higher_is_better is not None:
        return declared.higher_is_better
    return "metric" in declared.functions or declared.metric in (None, "accuracy")


def _split(pair: Pair) -> Split:
    return Split({"inputs": pair[0], "targets": pair[1]}, len(pair[0]))


def _again(module: str, options: Options) -> Any:
    from whichdevice.workloads import workload_class

    return workload_class(module)(options)

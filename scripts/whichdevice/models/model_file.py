"""A workload made of a user's own model: shapes or data, loss, optimiser, metric (docs/reference/model-file.md).

The file is imported when the model or its data are wanted, and not before: never by a step that only plans. What is
wrong in it then is a StudyError in one line.
"""

import inspect
import linecache
import re
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.code_hash import string_constants
from whichdevice.base.errors import StudyError, lacks_memory
from whichdevice.base.files import csv_rows
from whichdevice.models.address import Address
from whichdevice.models.consistency import (
    check_data,
    check_declared,
    check_inputs,
    check_outputs,
    losses_by_path,
)
from whichdevice.models.data import drawn, generate, pipeline_in, size_of, splits_of
from whichdevice.models.declaration import GENERATING, Declaration, own_format
from whichdevice.models.framework import JAX, KERAS, TORCH
from whichdevice.models.losses import CLASSES_FROM_LOGITS, OF_DISTRIBUTIONS, named_loss, named_metric
from whichdevice.models.shapes import (
    Array,
    Signature,
    Tree,
    concrete,
    leaves,
    mapped,
    packed,
    signature_of,
)
from whichdevice.models.workloads.base import (
    NO_GENERATION,
    Arrays,
    Generation,
    Options,
    Recipe,
    Split,
    TrainingWorkload,
)

EXAMPLES = 1024  # generated, where the file does not say how many; at least a batch
SEED = 1
FRAMEWORKS = ("keras", "keras_hub", "torch", "tensorflow", "jax", "builtins")  # whose classes are nobody's own
LOOK_UPS = ("TextVectorization", "StringLookup", "IntegerLookup", "Hashing", "HashedCrossing")  # of TensorFlow
OWN_STEP = ("train_step", "compute_loss", "compute_metrics", "compile")  # methods of training
ERRORS = ("loss", "error", "mse", "mae", "entropy", "divergence")  # in names of metrics that are better when lower
COLOURS = re.compile(r"\x1b\[\d+m")
HINTS = csv_rows(Path(__file__).with_name("hints.csv"))  # words of an error's text, and what to do


@dataclass(frozen=True)
class Adapter:
    """The parts that make a workload of a user's model: its address, its constants, and what loads its functions."""

    address: Address
    declared: Declaration
    load: Callable[[], Any]  # gives what has the functions that are declared

    @cached_property
    def recipe(self) -> Recipe:
        """The training that the file states."""
        declared, label = self.declared, self.address.label
        return Recipe(
            source=declared.source or f"model {'file ' if self.address.kind == 'file' else ''}{label}",
            batch_size=declared.batch_size,
            epochs=declared.epochs,
            steps_per_epoch=declared.steps_per_epoch,
            sequence_length=declared.sequence_length,
        )

    @property
    def unit(self) -> str:
        """The unit that throughput counts."""
        return self.declared.unit

    @property
    def generates(self) -> bool:
        """Return whether the model may generate tokens, as far as the file shows without being run."""
        if self.address.kind == "built-in" or self.declared.framework == JAX:
            return {*GENERATING} <= self.declared.functions
        return True

    @property
    def data_source(self) -> str:
        """The origin of the data: the file itself, or generated."""
        return "own" if "data" in self.declared.functions else "generated"

    @property
    def usual_format(self) -> str:
        """The number format where a GPU has bfloat16 and nobody asks for another."""
        tuning = self.declared.tuning if self.declared.framework == TORCH else {}
        return "bfloat16" if own_format(tuning) == "bfloat16" else "mixed_bfloat16"


class ModelFile(TrainingWorkload):
    """A workload of what an adapter loads."""

    def __init__(self, adapter: Adapter, options: Options) -> None:
        super().__init__(options)
        self.adapter, self.address, self.declared = adapter, adapter.address, adapter.declared
        self.recipe, self.unit = adapter.recipe, adapter.unit
        self.generates, self.data_source = adapter.generates, adapter.data_source
        self.metric, self.higher_is_better = _metric_name(self.declared), _higher_is_better(self.declared)
        self.more_examples = "" if self.data_source == "own" else ", or raise EXAMPLES in the file"
        self._shapes: tuple[Tree, Tree] = self.declared.input, self.declared.target
        self._signature: Signature | None = None
        self.has_pipeline = False  # whether the file's data come in batches, one after the other; known once read
        self._weighted = False  # whether the data have sample weights
        self._by_keras = False  # whether a step is the model's own train_step

    @property
    def length(self) -> int | None:
        """Steps per sequence, where the file or the config has one."""
        return self.options.sequence_length or self.recipe.sequence_length

    def model(self) -> Any:
        """Return the file's model, checked against its shapes; compiled where Keras' own step trains it."""
        label = self.address.label
        check_declared(self.declared, label)
        with self._explaining("model()"):
            built = self._called("model")
            self._signature = signature = signature_of(built, self._shapes[0], label)
        if (layer := next(filter(looks_up, getattr(built, "layers", ())), None)) is not None:
            raise StudyError(
                f"{label}: layer {layer.name} looks up on the host: call it in data(), or ask about the script"
            )
        given, target = self._shapes
        if given is not None:
            check_inputs(given, signature, self.length, label)
        self._by_keras = self._needs_own_step(built, signature)
        if not built.compiled and self.declared.loss is None and not self._has("loss"):
            raise StudyError(f"{label}: it needs LOSS and OPTIMIZER, or a model that is compiled: model.compile(...)")
        check_outputs(target, signature, self.declared.loss, self.length, label)
        if self._by_keras:
            with self._explaining("model()"):
                self._compile(built, signature)
        return built

    def own_step(self, model: Any) -> bool:
        """Return whether the model's own `train_step` trains it, as Keras' `compile` set it up."""
        return self._by_keras

    def _needs_own_step(self, model: Any, signature: Signature) -> bool:
        several = signature.outputs is None or len(leaves(signature.outputs)) != 1 or self._shapes[1] is None
        return bool(model.compiled or several or self._weighted or overridden(model))

    def _compile(self, model: Any, signature: Signature) -> None:
        """Compile as the file's constants say, unless the model is compiled; then the file must not say otherwise."""
        label, declared = self.address.label, self.declared
        if model.compiled:
            said = [name for name in ("loss", "optimizer", "metric") if getattr(declared, name) or self._has(name)]
            if said:
                raise StudyError(
                    f"{label}: model() returns a compiled model, and the file has {said[0].upper()}, too: leave one out"
                )
            if self.metric is None and (name := _compiled_metric(model)) is not None:
                self.metric, self.higher_is_better = name, not any(word in name.lower() for word in ERRORS)
            return
        outputs = len(leaves(signature.outputs)) if signature.outputs is not None else 1
        for name in ("loss", "metric"):
            if self._has(name) and outputs > 1:
                raise StudyError(
                    f"{label}: {name}() takes one output, the model has {outputs}: give {name.upper()} by output, "
                    f"e.g. {name.upper()} = {{'first': 'mse', 'second': 'mae'}}"
                )
        loss = self._function("loss") if self._has("loss") else mapped(_keras_loss, declared.loss)
        metric = self._function("metric") if self._has("metric") else declared.metric
        metrics = None if metric is None else [metric] if not isinstance(metric, dict | tuple) else _lists(metric)
        weights = _lists(declared.loss_weights)
        model.compile(optimizer=self.optimizer(), loss=_lists(loss), loss_weights=weights, metrics=metrics)

    def optimizer(self) -> Any:
        """A fresh one, by the file's function or by its Keras name."""
        import keras

        label = self.address.label
        with self._explaining("optimizer()" if self._has("optimizer") else "OPTIMIZER"):
            has = self._has("optimizer")
            made = self._called("optimizer") if has else keras.optimizers.get(self.declared.optimizer)
        if not isinstance(made, keras.optimizers.Optimizer):
            raise StudyError(f"{label}: optimizer() returns a {type(made).__name__}; a Keras optimiser is needed")
        return made

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The data function's, else generated ones; `fraction` of the training data, drawn at random but the same."""
        check_declared(self.declared, self.address.label)
        train, validation = self._data()
        self._weighted = "weights" in train
        count = max(1, round(size_of(train) * self.options.fraction))
        if count < size_of(train):
            index = drawn(size_of(train), count)
            train = {key: array[index] for key, array in train.items()}
        return Split(train, size_of(train)), Split(validation, size_of(validation))

    def _data(self) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
        declared = self.declared
        if self._has("data"):
            where = f"{self.address.label}: data()"
            with self._explaining("data()"):
                given = self._called("data")
                self.has_pipeline = pipeline_in(given, declared.input) is not None
                train, validation = splits_of(given, declared.examples, where, declared.input)
            self._shapes = check_data(train, validation, declared, self.length, where)
            return train, validation
        if declared.input is None or (declared.target is None and not declared.by_compile):
            self._shapes = self._shapes_of_model()
        input_, target = self._shapes
        if target is not None:
            target = mapped(_as_distribution, target, packed(losses_by_path(declared.loss, target), ""))
        examples = declared.examples or max(EXAMPLES, self.options.batch_size)
        return (
            generate(input_, target, examples, self.length, SEED),
            generate(input_, target, max(1, examples // 8), self.length, SEED + 1),
        )

    def _shapes_of_model(self) -> tuple[Tree, Tree]:
        """Return shapes of one input and one target, as the compiled model takes and gives them."""
        label = self.address.label
        with self._explaining("model()"):
            built = self._called("model")
            signature = signature_of(built, self.declared.input, label)
        if not built.compiled and self.declared.loss is None:
            raise StudyError(f"{label}: it needs INPUT, TARGET, LOSS and OPTIMIZER, or a model that is compiled")
        below = _vocabulary(built)
        taken = signature.inputs
        inputs = mapped(lambda array: array if "float" in array.dtype else replace(array, below=below), taken)
        inputs = mapped(lambda array: replace(array, dtype=_plain_type(array.dtype)), inputs)
        loss = self.declared.loss if self.declared.loss is not None else built.loss
        target = self.declared.target
        if target is None and loss is not None and signature.outputs is not None:
            losses = losses_by_path(loss, signature.outputs)
            target = mapped(_target_of, signature.outputs, packed(losses, ""))
        return self.declared.input or inputs, target

    def check_options(self) -> None:
        """Raise StudyError on an option that the file never read and does not name: the run would be without it.

        One that it names may be read later, by its loss, or under other settings.
        """
        unread = [name for name in self.options.given if name not in self.options.read]
        if not unread:
            return
        files = [path for path in self.address.files() if path.suffix == ".py"]
        known = {name for path in files for name in string_constants(path.read_bytes())}
        for name in unread:
            if name not in known:
                reads = ", ".join(sorted(self.options.read)) or "none"
                raise StudyError(f"{self.address.label}: options.{name} is never read; this file reads {reads}")

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, ...]:
        """Inputs, targets and sample weights, as far as there are any; whole-number targets as int32."""
        from keras import ops

        def taken(key: str) -> Any:
            rows = ops.take(arrays[key], index, axis=0)
            whole = key.startswith("targets") and "float" not in str(rows.dtype)
            return ops.cast(rows, "int32") if whole else rows

        rows = {key: taken(key) for key in arrays}
        parts = [packed(rows, name) for name in ("inputs", "targets", "weights")]
        return tuple(part for place, part in enumerate(parts) if part is not None or place == 0)

    def example(self, model: Any) -> Tree:
        """The data's shapes, else as INPUT says, else the model's."""
        given = self._shapes[0]
        if given is None and self._signature is not None:
            given = self._signature.inputs
        if given is None:
            return super().example(model)
        return mapped(lambda array: replace(array, shape=concrete(array, self.length)), given)

    def outputs(self, model: Any) -> Tree:
        """Return the outputs that were seen when the model was made."""
        return super().outputs(model) if self._signature is None else self._signature.outputs

    def generation(self, model: Any) -> Generation:
        """Return how the file's functions generate, else how a causal model of KerasHub does."""
        if {*GENERATING} <= self.declared.functions:
            empty, call = (partial(self._generated, name, model) for name in GENERATING)
            return Generation(empty, call)
        if hasattr(model, "call_with_cache") and hasattr(model, "backbone"):
            return _of_hub(model)
        raise StudyError(f"{self.address.label}: {NO_GENERATION}")

    def _generated(self, name: str, *given: Any) -> Any:
        with self._explaining(f"{name}()"):
            return self._function(name)(*given)

    def pipeline(self) -> Any:
        """Return what of the file gives training batches one after the other; None where its data are arrays."""
        if not self._has("data"):
            return None
        with self._explaining("data()"):
            return pipeline_in(self._called("data"), self.declared.input)

    def loss(self, target: Any, prediction: Any) -> Any:
        """The mean of what the file's loss gives for float32 predictions."""
        from keras import ops

        with self._explaining("loss()" if self._has("loss") else f"LOSS {self.declared.loss}"):
            return ops.mean(ops.cast(self._loss_function(target, ops.cast(prediction, "float32")), "float32"))

    def quality(self, target: Any, prediction: Any) -> Any:
        """The mean of what the file's metric gives."""
        from keras import ops

        with self._explaining("metric()" if self._has("metric") else f"METRIC {self.declared.metric}"):
            return ops.mean(ops.cast(self._metric_function(target, ops.cast(prediction, "float32")), "float32"))

    @cached_property
    def _loss_function(self) -> Callable[[Any, Any], Any]:
        """The file's `loss`, or the one of that name."""
        return self._function("loss") if self._has("loss") else self._named_loss(self.declared.loss)

    @cached_property
    def _metric_function(self) -> Callable[[Any, Any], Any]:
        """The file's `metric`, or the one of that name."""
        return self._function("metric") if self._has("metric") else self._named_metric(self.declared.metric)

    def _named_loss(self, name: Any) -> Callable[[Any, Any], Any]:
        return named_loss(name, self.address.label)

    def _named_metric(self, name: Any) -> Callable[[Any, Any], Any]:
        return named_metric(name, self.declared.loss, self.address.label)

    def _has(self, name: str) -> bool:
        return name in self.declared.functions

    def _function(self, name: str) -> Callable[..., Any]:
        wanted = self.address.function if name == "model" and self.address.kind == "function" else name
        function = getattr(self.adapter.load(), wanted, None)
        if not callable(function):
            raise StudyError(f"{self.address.label}: {wanted} is no function")
        return function

    def _called(self, name: str) -> Any:
        return called_with(self._function(name), self.options)

    @contextmanager
    def _explaining(self, part: str) -> Iterator[None]:
        """Raise what goes wrong inside as an error of the file in one line; a lack of memory stays what it is."""
        try:
            yield
        except StudyError:
            raise
        except (Exception, SystemExit) as error:
            if lacks_memory(error):
                raise
            traceback.print_exc()  # for the run's log
            line = error_line(error, self.address)
            on = f" on {sys.modules[KERAS].backend.backend()}" if self.framework == KERAS else ""
            raise StudyError(f"{self.address.label}: {part} fails{on}: {line}") from error


def _of_hub(model: Any) -> Generation:
    """Return how a causal task of KerasHub generates; its cache is [batch, layers, 2, length, heads, width]."""
    from keras import ops

    backbone = model.backbone
    heads = getattr(backbone, "num_query_heads", None) or backbone.num_heads
    width = getattr(backbone, "head_dim", None) or backbone.hidden_dim // heads
    kept = getattr(backbone, "num_key_value_heads", heads)

    def empty_cache(batch: int, length: int) -> Any:
        return ops.zeros((batch, backbone.num_layers, 2, length, kept, width), model.compute_dtype)

    def call(tokens: Any, cache: Any, position: Any) -> tuple[Any, Any]:
        scores, _, filled = model.call_with_cache(tokens, cache, position)
        return ops.cast(scores[:, -1], "float32"), filled

    return Generation(empty_cache, call)


def called_with(function: Callable[..., Any], options: Options) -> Any:
    """Return what a function of a file returns, given the options where it takes them."""
    first = next(iter(inspect.signature(function).parameters.values()), None)
    if first is None or first.kind not in (first.POSITIONAL_ONLY, first.POSITIONAL_OR_KEYWORD):
        return function()
    return function(options) if first.name == "options" or first.default is first.empty else function()


def all_layers(model: Any) -> Iterator[Any]:
    """Yield a model or layer, its layers, and the layers in these."""
    yield model
    for layer in getattr(model, "layers", ()):
        yield from all_layers(layer)


def looks_up(layer: Any) -> bool:
    """Return whether a layer or one inside of it looks words or numbers up, which runs on the host."""
    return any(type(part).__name__ in LOOK_UPS for part in all_layers(layer))


def overridden(model: Any) -> list[str]:
    """Methods of training that the model's class defines."""
    import keras

    classes = [kind for kind in type(model).__mro__ if kind.__module__.partition(".")[0] not in FRAMEWORKS]
    return [name for name in OWN_STEP if any(name in vars(kind) for kind in classes) and hasattr(keras.Model, name)]


def require_jax_step(model: Any) -> None:
    """Raise StudyError on a train_step of the model's own that has not the form of Keras on JAX."""
    if "train_step" in overridden(model) and len(inspect.signature(model.train_step).parameters) < 2:
        raise StudyError(
            "the model's own train_step(data) is written for TensorFlow or PyTorch, and forecasts count it in JAX; "
            "write it as Keras on JAX takes it, train_step(state, data), or write compute_loss(x, y, y_pred, ...)"
        )


def error_words(error: BaseException) -> str:
    """An error's type and message in one line."""
    lines = [line.strip() for line in COLOURS.sub("", str(error)).splitlines() if line.strip()]
    for number, line in enumerate(lines[:-1]):
        if line.endswith("Error encountered:"):  # Keras puts the cause below its own words
            lines = lines[number + 1 :]
            break
    message = next((line for line in lines if not line.startswith(("Exception encountered", "in user code"))), "")
    return f"{type(error).__name__}: {message}" if message else type(error).__name__


def error_line(error: BaseException, address: Address) -> str:
    """An error's type and message in one line, with the last line of one's own files that it passed, and a hint."""
    place = own_place(error, address)
    line = linecache.getline(str(place[0]), place[1]) if place and not isinstance(error, OSError | LookupError) else ""
    searched = str(error) + line
    hint = next((f"; {row['advice']}" for row in HINTS if row["words"] in searched), "")
    return f"{error_words(error)}{own_line(error, address)}{hint}"


def own_line(error: BaseException, address: Address) -> str:
    """The last line of one's own files that an error passed, e.g. ` (line 12)` or ` (blocks.py, line 12)`; else ''."""
    place = own_place(error, address)
    if place is None or address.path is None:
        return ""
    return f" (line {place[1]})" if place[0] == address.path.resolve() else f" ({place[0].name}, line {place[1]})"


def own_place(error: BaseException, address: Address) -> tuple[Path, int] | None:
    """The last file and line of one's own code that an error, or what caused it, passed; None: it passed none."""
    if address.path is None or address.kind in ("saved", "library"):
        return None
    main = address.path.resolve()
    files = {main, *(path.resolve() for path in address.files())}
    frames: list[tuple[Path, int]] = []
    inner: BaseException | None = error
    while inner is not None and not frames:
        passed = traceback.extract_tb(inner.__traceback__)
        called = [(Path(frame.filename).resolve(), frame.lineno or 0) for frame in passed]
        frames = [frame for frame in called if frame[0] in files]
        inner = inner.__cause__ or inner.__context__
    return frames[-1] if frames else None


def _metric_name(declared: Declaration) -> str | None:
    if "metric" in declared.functions:
        return "metric"
    parts = leaves(declared.metric) if declared.metric is not None else []
    return next((part for part in parts if isinstance(part, str)), None)


def _higher_is_better(declared: Declaration) -> bool:
    """Return what the file says; else not for a loss by its Keras name."""
    if declared.higher_is_better is not None:
        return declared.higher_is_better
    return "metric" in declared.functions or _metric_name(declared) in (None, "accuracy")


def _compiled_metric(model: Any) -> str | None:
    """The name of the first metric that the model was compiled with, if it has one."""
    try:
        config = model.get_compile_config() or {}
    except Exception:  # a function that Keras cannot write down: the logs name it
        return None
    return _first_name([config.get("metrics"), config.get("weighted_metrics")])


def _first_name(given: Any) -> str | None:
    """The first metric among those that Keras wrote down, by output or all together."""
    if isinstance(given, Mapping) and "class_name" in given:
        config = given.get("config")
        return str(config.get("name", given["class_name"]) if isinstance(config, Mapping) else config)
    parts = given.values() if isinstance(given, Mapping) else given if isinstance(given, list | tuple) else ()
    return given if isinstance(given, str) else next(filter(None, map(_first_name, parts)), None)


def _keras_loss(name: Any) -> Any:
    import keras

    return keras.losses.SparseCategoricalCrossentropy(from_logits=True) if name == CLASSES_FROM_LOGITS else name


def _lists(tree: Tree) -> Tree:
    """Tuples as lists, which Keras' `compile` takes."""
    if isinstance(tree, dict):
        return {key: _lists(part) for key, part in tree.items()}
    return [_lists(part) for part in tree] if isinstance(tree, tuple) else tree


def _loss_words(loss: Any) -> str:
    name = loss if isinstance(loss, str) else getattr(loss, "__name__", type(loss).__name__)
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()


def _target_of(output: Array, loss: Any) -> Array:
    """Return what a target of this output is by its loss."""
    words = _loss_words(loss)
    if "sparse" in words:
        return Array(output.shape[:-1], "int32", output.shape[-1] or 2)
    if "binary" in words:
        return Array(output.shape, "int32", 2)
    return _as_distribution(Array(output.shape), loss)


def _as_distribution(target: Array, loss: Any) -> Array:
    words = _loss_words(loss)
    return replace(target, distribution=True) if words in OF_DISTRIBUTIONS and target.dtype == "float32" else target


def _vocabulary(model: Any) -> int:
    """The least number of rows of the model's embeddings: whole-number inputs stay below it."""
    import keras

    layers = all_layers(model)
    return min((layer.input_dim for layer in layers if isinstance(layer, keras.layers.Embedding)), default=2)


def _plain_type(dtype: str) -> str:
    return "float32" if "float" in dtype else "uint8" if dtype == "uint8" else "int32"

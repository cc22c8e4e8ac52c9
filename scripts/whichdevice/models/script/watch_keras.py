"""Training of a Keras script: the model's own `train_step`, which `fit` and `train_on_batch` call for each batch.

`fit` runs as it is, but calls `train_step` outside of a compiled function, so that it shows each batch. That is lowered
on TensorFlow or JAX, whichever backend the script has. The arguments of `fit` say how long it trains.
"""

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import wraps
from importlib import import_module
from types import ModuleType
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.consistency import check_declared
from whichdevice.models.data import generate, training_part
from whichdevice.models.declaration import read_declaration
from whichdevice.models.framework import JAX, KERAS
from whichdevice.models.model_file import LOOK_UPS, called_with
from whichdevice.models.script.amounts import Length
from whichdevice.models.script.found import COUNTER, Evaluation
from whichdevice.models.script.frames import caller
from whichdevice.models.script.programs import ProgramWatcher, refused
from whichdevice.models.script.run import ScriptRun
from whichdevice.models.shapes import leaves, mapped, packed
from whichdevice.models.workloads.base import Options

ON_HOST = "{names}: on the host, with the input pipeline."
NO_EPOCH = "fit(epochs={epochs}, initial_epoch={initial_epoch}) trains no epoch: epochs is the number of the last one"


class Watching(ProgramWatcher):
    """Watches `fit` and `train_on_batch` of Keras models."""

    package = "Keras"
    missing = "nothing called fit"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self._is_inside = False  # of `fit`

    def attach(self, package: ModuleType) -> None:
        """Replace what trains."""
        if package.__name__ != KERAS:
            self.run.stop(StudyError(f"{self.run.path.name}: it trains with Keras 2 (tf_keras): write it for Keras 3"))
        for method in ("fit", "train_on_batch"):
            self.replace(package.Model, method, self._in_place_of(getattr(package.Model, method)))

    def _in_place_of(self, method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @wraps(method)
        def train(*args: Any, **kwargs: Any) -> Any:
            if self.run.over or self._is_inside:
                return method(*args, **kwargs)
            given = signature.bind(*args, **kwargs)
            given.apply_defaults()
            self._is_inside = True
            try:
                return self._trained(method, given)
            finally:
                self._is_inside = False

        return train

    def _trained(self, method: Callable[..., Any], given: inspect.BoundArguments) -> Any:
        """Let a model train, and see its batches."""
        import keras

        model, periods = given.arguments["self"], self.periods
        periods.framework, periods.keras, periods.frame = KERAS, True, caller()
        train_step = model.train_step
        if method.__name__ == "fit":
            self._of_fit(given.arguments)
        on_jax = keras.backend.backend() == JAX
        step = self._on_jax(model, train_step) if on_jax else self._on_tensorflow(model, train_step)
        model.run_eagerly, model.train_step = True, step
        if model.compiled:
            model.make_train_function(force=True)
        try:
            return method(*given.args, **given.kwargs)
        finally:
            model.run_eagerly, model.train_step, periods.frame = False, train_step, None
            if model.compiled:
                model.make_train_function(force=True)

    def _of_fit(self, given: dict[str, Any]) -> None:
        """Note how long `fit` trains, and what it evaluates."""
        import keras

        first, last = int(given["initial_epoch"] or 0), int(given["epochs"] or 1)
        if last <= first:
            self.run.stop(refused(self.run, NO_EPOCH.format(**given)))
        periods, x = self.periods, given["x"]
        arrays = [leaf for leaf in leaves(x) if hasattr(leaf, "shape")] if not hasattr(x, "element_spec") else []
        if arrays:
            periods.examples = int(len(arrays[0]) * (1.0 - (given["validation_split"] or 0.0)))
        elif given["x"] is not None:
            periods.batches = given["x"]
        model = given["self"]

        class Steps(keras.callbacks.Callback):  # type: ignore[misc]
            """Reads the number of steps of an epoch, as Keras knows it."""

            def on_train_begin(self, logs: Any = None) -> None:
                steps = self.params.get("steps")
                if not steps:
                    periods.stated = Length(unknown="how many batches its data give does not show")
                    return
                periods.stated = Length(float(steps), last - first)
                trained = sum(math.prod(one.shape) for one in model.trainable_weights)
                weights = sum(math.prod(one.shape) for one in model.weights)
                work = 3 / (1 + 2 * trained / weights) if weights else 1.0  # of which a forward pass is a part
                evaluations = _validation(given, last - first)
                periods.evaluations = tuple(replace(one, work=work) for one in evaluations)

        callbacks = given["callbacks"] or []
        given["callbacks"] = [Steps(), *(callbacks if isinstance(callbacks, list | tuple) else [callbacks])]

    def _on_jax(self, model: Any, own: Any) -> Callable[..., Any]:
        watching: Any = self.run.watcher(JAX)
        jitted = import_module(type(watching).__module__).original_jit(own, donate_argnums=(0,))

        def step(state: Any, data: Any) -> Any:
            data = tuple(part for part in data) if isinstance(data, list) else data
            self._recurrent(model, leaves(data))
            program = watching.program(own.__func__, jitted, (state, data), {})
            return watching.run_program(program, jitted, (state, data), {})

        return step

    def _on_tensorflow(self, model: Any, own: Any) -> Callable[..., Any]:
        watching: Any = self.run.watcher("tensorflow")

        def step(data: Any) -> Any:
            with watching.at_rest():
                self._recurrent(model, leaves(data))
                try:
                    program, lowered = watching.program((own.__func__, id(model)), (own, (data,), {}))
                except StudyError as error:
                    self.run.stop(refused(self.run, str(error)))
                self._name_left_out(model, lowered)

                def compute() -> dict[str, Any]:
                    return {name: value.numpy() for name, value in self._compiled(own, model)(data).items()}

                return watching.computed(program, lowered.held, compute)

        return step

    def _compiled(self, own: Any, model: Any) -> Callable[..., Any]:
        """Return a model's step as TensorFlow runs it."""
        import tensorflow as tf

        if not self.run.conditions.timed:
            return own  # type: ignore[no-any-return]
        if not hasattr(model, "_timed_step"):
            model._timed_step = tf.function(own, reduce_retracing=True)
        return model._timed_step  # type: ignore[no-any-return]

    def _recurrent(self, model: Any, data: Any) -> None:
        """Note layers whose loops stand for cuDNN's."""
        length = next((int(one.shape[1]) for one in data if len(one.shape) > 1 and one.shape[1]), None)
        if not self.periods.recurrent:
            self.periods.recurrent, note = import_module(COUNTER).recurrent_layers(model, length)
            if note and note not in self.periods.counted_notes:
                self.periods.counted_notes.append(note)

    def _name_left_out(self, model: Any, lowered: Any) -> None:
        """Name what is left out of a step: layers that look up, in place of their operations."""
        layers = [model]
        for layer in layers:  # with those inside of others
            layers += getattr(layer, "layers", ())
        kinds = (type(layer).__name__ for layer in layers)
        names = ", ".join(dict.fromkeys(kind for kind in kinds if kind in LOOK_UPS))
        self.say(ON_HOST.format(names=names) if names and lowered.named else lowered.note)

    def finish(self, variables: Mapping[str, Any]) -> None:
        """Train what a model file's functions give: it is run as a script where it looks words up."""
        if not self.periods.turns and inspect.isfunction(variables.get("model")):
            _fit(self.run, variables)


def _fit(run: ScriptRun, file: Mapping[str, Any]) -> None:
    """Train a model file's model with its data, or with arrays that its constants describe."""
    declared = read_declaration(run.path)
    check_declared(declared, run.path.name)
    options = Options(declared.batch_size)
    built = called_with(file["model"], options=options)
    if not built.compiled:
        chosen = {name: file.get(name, getattr(declared, name)) for name in ("loss", "metric")}
        optimizer = called_with(file["optimizer"], options=options) if "optimizer" in file else declared.optimizer
        built.compile(optimizer, chosen["loss"], metrics=[chosen["metric"]] if chosen["metric"] else None)
    if "data" in file:
        given = training_part(called_with(file["data"], options=options))
    else:
        arrays = generate(declared.input, declared.target, 2 * declared.batch_size, declared.sequence_length, 0)
        given = tuple(packed(arrays, name) for name in ("inputs", "targets"))
    given = mapped(_as_words, given)
    parts = dict(zip(("x", "y", "sample_weight"), given if isinstance(given, tuple) else (given,), strict=False))
    built.fit(**parts, batch_size=declared.batch_size, epochs=declared.epochs or 1, verbose=0)


def _as_words(array: Any) -> Any:
    """Words as tensors of TensorFlow, which alone has them."""
    if getattr(getattr(array, "dtype", None), "kind", "") not in ("U", "S", "O"):
        return array
    import tensorflow as tf

    return tf.constant(array)


def _validation(given: Mapping[str, Any], epochs: int) -> list[Evaluation]:
    """Return the validation of `fit`, by its arguments."""
    data, split = given["validation_data"], given["validation_split"]
    if data is None and not split:
        return []
    freq, size = given["validation_freq"] or 1, given["validation_batch_size"] or given["batch_size"] or 32
    arrays = [leaf for leaf in leaves(data if data is not None else given["x"]) if hasattr(leaf, "shape")]
    batches = given["validation_steps"]
    if arrays and not hasattr(data, "element_spec"):
        count = len(arrays[0])
        count = count if data is not None else count - int(count * (1 - split))
        size, batches = min(size, count), batches or -(-count // size)
    elif not batches:
        try:
            batches = len(data)
        except Exception:  # of a stream, or of the script's own object
            batches = None
    return [Evaluation(batches, size, freq if isinstance(freq, int | float) else epochs / max(1, len(freq)))]

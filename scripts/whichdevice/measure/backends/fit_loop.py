"""Plain `model.fit`, as most people train: one call of the compiled step per batch, fed from the host."""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from whichdevice.measure.backends.base import Means, TrainingLoop, loss_and_metric
from whichdevice.models.workloads.base import TrainingWorkload

Feed = Callable[[np.ndarray], Any]


class FitLoop(TrainingLoop):
    """Trains through `model.fit`; everything but training is left to the backend's own loop on the same model.

    `feed` turns batches of example numbers, int32 [steps, batch], into something that `model.fit` takes.
    """

    # Each call of `fit` builds an iterator and callbacks anew, as once an epoch in practice.
    window_seconds = 3.0
    whole_epochs = True

    def __init__(self, workload: TrainingWorkload, model: Any, inner: TrainingLoop, feed: Feed) -> None:
        self._workload, self._model, self._inner, self._feed = workload, model, inner, feed
        import keras

        self._has_metric = workload.metric is not None
        self._own = workload.own_step(model)
        if self._own:  # compiled as its file says
            self._initial = {id(held): keras.ops.convert_to_numpy(held) for held in _optimizer_variables(model)}
            return
        metrics = [_named("quality", workload.quality)] if self._has_metric else []
        model.compile(optimizer=model.optimizer, loss=_vector_loss(workload), metrics=metrics)

    def run(self, batches: np.ndarray) -> Means:
        """Train; `fit` has read every step's loss when it returns."""
        history = self._model.fit(self._feed(batches), epochs=1, shuffle=False, verbose=0).history
        if self._own:
            last = {name: values[-1] for name, values in history.items()}
            loss, metric = (float(value) for value in loss_and_metric(last, self._workload.metric))
            return Means(loss, metric if self._has_metric else None)
        return Means(float(history["loss"][-1]), float(history["quality"][-1]) if self._has_metric else None)

    def fed(self, batches: np.ndarray) -> Iterable[Any]:
        """Return what `fit` is given."""
        given = self._feed(batches)
        return given if hasattr(given, "__iter__") else (given[place] for place in range(len(given)))

    def reset(self) -> None:
        """Initial weights, optimiser and random state, in the Keras model."""
        self._inner.reset()
        self._inner.publish()
        if self._own:  # its own optimisers, and what each built when it first ran
            for variable in _optimizer_variables(self._model):
                variable.assign(self._initial.get(id(variable), np.zeros(variable.shape)))

    def evaluate(self) -> Means | None:
        """Evaluate as the backend's own loop does; None for a model that has no call."""
        if self._workload.outputs(self._model) is None:
            return None
        self._inner.adopt()
        return self._inner.evaluate()

    def predict(self, index: np.ndarray) -> np.ndarray:
        """Predict as the backend's own loop does; no numbers for a model that has no call."""
        if self._workload.outputs(self._model) is None:
            return np.zeros((len(index), 0), np.float32)
        self._inner.adopt()
        return self._inner.predict(index)


def _optimizer_variables(model: Any) -> list[Any]:
    """Return the variables of every optimiser that the model holds: an own step may use several."""
    import keras

    held = [model.optimizer, *(part for part in vars(model).values() if isinstance(part, keras.optimizers.Optimizer))]
    return [variable for optimizer in held if optimizer is not None for variable in optimizer.variables]


def _vector_loss(workload: TrainingWorkload) -> Callable[[Any, Any], Any]:
    """The loss as [1]: of a scalar, Keras with tf.distribute adds up the replicas' gradients instead of averaging."""
    from keras import ops

    return _named("loss", lambda target, prediction: ops.reshape(workload.loss(target, prediction), (1,)))


def _named(name: str, function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Keras names its logs after the function; a bound method's name cannot be set."""

    def call(target: Any, prediction: Any) -> Any:
        return function(target, prediction)

    call.__name__ = name
    return call

"""What every loop needs of a model: its own losses, the logs of its own step, predictions as one array."""

from collections.abc import Mapping, Sequence
from typing import Any

from whichdevice.errors import StudyError
from whichdevice.workloads.base import TrainingWorkload
from whichdevice.workloads.model_file import overridden
from whichdevice.workloads.shapes import in_mode, leaves


def total_loss(loss: Any, own: Sequence[Any]) -> Any:
    """The loss with the model's own ones (regularisers, `add_loss`), added up as `fit` adds them."""
    from keras import ops

    for each in own:
        loss = ops.add(loss, ops.sum(each))
    return loss


def check_own_step(model: Any, loop: str) -> None:
    """Raise StudyError where the loop would not run the step that the model has of its own."""
    own = [name for name in overridden(model) if name == "train_step"]
    if loop == "epoch" and own:
        raise StudyError("the model has a train_step of its own, which loop epoch does not run: take loop: fit")
    if loop == "epoch" and model.run_eagerly:
        raise StudyError("the model is compiled with run_eagerly, which loop epoch does not do: take loop: fit")


def needs_optimizer(model: Any) -> bool:
    """Whether `model.optimizer` trains it; a train_step of its own may take others, and builds what it takes."""
    return "train_step" not in overridden(model)


def loss_and_metric(logs: Mapping[str, Any], metric: str | None) -> tuple[Any, Any]:
    """The loss and the metric out of what a step of Keras reports; without a name `loss` the sum of all `..._loss`.

    Raises StudyError where there is none of that name.
    """
    if not isinstance(logs, Mapping) or not logs:
        raise StudyError("the model's own train_step returns no losses by name, e.g. {'loss': loss}")
    losses = [value for name, value in logs.items() if name.endswith("loss")]
    total = logs["loss"] if "loss" in logs else sum(losses[1:], losses[0]) if losses else next(iter(logs.values()))
    if metric is None:
        return total, 0.0
    names = [name for name in logs if name == metric or name.endswith(f"_{metric}")]
    names += [name for name in logs if not name.endswith("loss")]
    if not names:
        raise StudyError(f"a step reports no metric {metric}: it has {', '.join(logs)}")
    return total, logs[names[0]]


def as_one_array(prediction: Any) -> Any:
    """A prediction in float32; several outputs are laid side by side as [batch, numbers]."""
    from keras import ops

    parts = leaves(prediction)
    if len(parts) == 1:
        return ops.cast(parts[0], "float32")
    return ops.concatenate([ops.reshape(ops.cast(part, "float32"), (part.shape[0], -1)) for part in parts], axis=1)


def build_late_parts(workload: TrainingWorkload, model: Any, batch: tuple[Any, ...]) -> None:
    """Make the variables that Keras' own step would make when it first runs: those of its losses and metrics.

    `batch` is one as the step gets it. Nothing that the model holds changes.
    """
    import keras

    if model.loss is None or workload.outputs(model) is None:
        return
    inputs, target, weights = keras.utils.unpack_x_y_sample_weight(batch)
    prediction = model(inputs, **in_mode(model, True))
    model.compute_loss(x=inputs, y=target, y_pred=prediction, sample_weight=weights)
    model.compute_metrics(inputs, target, prediction, weights)

"""Losses and metrics of a step of Keras, on any backend."""

from collections.abc import Mapping, Sequence
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.shapes import in_mode, leaves
from whichdevice.models.workloads.base import TrainingWorkload


def total_loss(loss: Any, added_losses: Sequence[Any]) -> Any:
    """The loss with the model's own ones (regularisers, `add_loss`), added up as `fit` adds them."""
    from keras import ops

    for added in added_losses:
        loss = ops.add(loss, ops.sum(added))
    return loss


def loss_and_metric(logs: Mapping[str, Any], metric: str | None) -> tuple[Any, Any]:
    """The loss and the metric out of what a step of Keras reports; without a name `loss` the sum of all `..._loss`.

    Raises StudyError on an unknown name.
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
    """Make the variables that Keras' own step would make when it first runs, for its losses and metrics.

    `batch` is one as the step gets it. Nothing that the model holds changes.
    """
    import keras

    if model.loss is None or workload.outputs(model) is None:
        return
    inputs, target, weights = keras.utils.unpack_x_y_sample_weight(batch)
    prediction = model(inputs, **in_mode(model, True))
    model.compute_loss(x=inputs, y=target, y_pred=prediction, sample_weight=weights)
    model.compute_metrics(inputs, target, prediction, weights)

"""Losses and metrics that a model file may name: Keras' own, and those that are the same number on every backend.

Keras' cross-entropy takes the logits behind a softmax on TensorFlow and cuts probabilities at 1e-7 on JAX and PyTorch,
so that examples which a model gets very wrong count, and teach, differently.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from whichdevice.base.errors import StudyError

CLASSES = "sparse_categorical_crossentropy"
CLASSES_FROM_LOGITS = "sparse_categorical_crossentropy_from_logits"
OF_YES_OR_NO = ("binary_crossentropy", "binary_focal_crossentropy", "BinaryCrossentropy", "BinaryFocalCrossentropy")
OF_CLASS_NUMBERS = (CLASSES, CLASSES_FROM_LOGITS)
OF_DISTRIBUTIONS = ("categorical_crossentropy", "categorical_focal_crossentropy", "kl_divergence")
LEAST = 1e-37  # the smallest power of ten whose inverse, the gradient of the logarithm, is still a float32

Measure = Callable[[Any, Any], Any]


def cross_entropy(target: Any, probabilities: Any) -> Any:
    """Mean over all examples; `target` is one-hot, float32 [..., classes] as the prediction."""
    from keras import ops

    logarithms = ops.log(ops.maximum(ops.cast(probabilities, "float32"), LEAST))
    return -ops.mean(ops.sum(target * logarithms, axis=-1))


def sparse_cross_entropy(target: Any, probabilities: Any) -> Any:
    """Mean over all examples; `target` holds class numbers, int32 [...]."""
    from keras import ops

    return cross_entropy(ops.one_hot(target, probabilities.shape[-1], dtype="float32"), probabilities)


OWN_LOSSES = {"categorical_crossentropy": cross_entropy, CLASSES: sparse_cross_entropy}


def named_loss(name: str | None, file: str) -> Measure:
    """A loss (target, prediction) → scalar or one number an example; raises StudyError where Keras knows none."""
    if name is None:
        raise StudyError(f"{file}: it needs LOSS (a Keras name) or a function loss(target, prediction)")
    if name == CLASSES_FROM_LOGITS:
        return sparse_cross_entropy_from_logits
    return OWN_LOSSES.get(name) or _keras_loss(name, "LOSS", file)


def sparse_cross_entropy_from_logits(target: Any, logits: Any) -> Any:
    """Mean over all examples, of logits float32 [..., classes] before any softmax; `target` holds class numbers."""
    from keras import ops

    chosen = ops.take_along_axis(logits, ops.expand_dims(target, -1), axis=-1)
    return ops.mean(ops.logsumexp(logits, axis=-1) - ops.squeeze(chosen, -1))


def named_metric(name: str | None, loss: str | None, file: str) -> Measure:
    """A metric (target, prediction) → scalar or one number an example; raises StudyError where Keras knows none."""
    if name == "accuracy":
        return binary_accuracy if loss in OF_YES_OR_NO else accuracy
    return _keras_loss(name or "", "METRIC", file)


def accuracy(target: Any, prediction: Any) -> Any:
    """Share of right classes: the largest of several scores, or one score above 0.5; targets are numbers or one-hot."""
    from keras import ops

    if prediction.shape[-1] == 1 and len(target.shape) <= len(prediction.shape):
        return binary_accuracy(target, prediction)
    chosen = ops.cast(ops.argmax(prediction, axis=-1), "int32")
    right = ops.argmax(target, axis=-1) if len(target.shape) == len(prediction.shape) else target
    return ops.cast(ops.equal(chosen, ops.cast(right, "int32")), "float32")


def binary_accuracy(target: Any, prediction: Any) -> Any:
    """Share of numbers on the right side of 0.5, each judged alone; targets are 0 and 1."""
    from keras import ops

    asked = ops.reshape(ops.cast(target, "float32"), ops.shape(prediction))
    return ops.cast(ops.equal(ops.cast(prediction > 0.5, "float32"), asked), "float32")


def _keras_loss(name: str, constant: str, file: str) -> Measure:
    import keras

    with suppress(ValueError):
        if (function := keras.losses.get(name)) is not None:
            return function  # type: ignore[no-any-return]
    raise StudyError(f"{file}: {constant} {name!r} is none that Keras knows; write a function {constant.lower()}")

"""Cross-entropy of probabilities, the same number on every backend.

Keras' own takes the logits behind a softmax on TensorFlow and cuts probabilities at 1e-7 on JAX and PyTorch, so that
examples which a model gets very wrong count, and teach, differently.
"""

from typing import Any

LEAST = 1e-37  # the smallest power of ten whose inverse, the gradient of the logarithm, is still a float32


def cross_entropy(target: Any, probabilities: Any) -> Any:
    """Mean over all examples; `target` is one-hot, float32 [..., classes] as the prediction."""
    from keras import ops

    logarithms = ops.log(ops.maximum(ops.cast(probabilities, "float32"), LEAST))
    return -ops.mean(ops.sum(target * logarithms, axis=-1))


def sparse_cross_entropy(target: Any, probabilities: Any) -> Any:
    """Mean over all examples; `target` holds class numbers, int32 [...]."""
    from keras import ops

    return cross_entropy(ops.one_hot(target, probabilities.shape[-1], dtype="float32"), probabilities)

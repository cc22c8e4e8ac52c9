"""Classify the images of MNIST and Fashion-MNIST: 28 × 28, ten classes, accuracy."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from whichdevice.models.losses import accuracy, sparse_cross_entropy
from whichdevice.models.workloads.base import Arrays, Split, TrainingWorkload

IMAGE_CLASSES = 10
EVALUATION_BATCH = 1000


class ImageClassifier(TrainingWorkload):
    """Images uint8 [n, 28, 28] and labels uint8 [n] in, ten probabilities out."""

    unit = "image"
    scale: ClassVar[float] = 1 / 255  # what pixels are multiplied with

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The first `fraction` of the training images; all test images."""
        count = round(len(arrays["train_images"]) * self.options.fraction)
        train = {"images": arrays["train_images"][:count], "labels": arrays["train_labels"][:count]}
        test = {"images": arrays["test_images"], "labels": arrays["test_labels"]}
        return Split(train, count), Split(test, len(test["labels"]), EVALUATION_BATCH)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Images [batch, 28, 28, 1] as floats and labels int32 [batch]."""
        from keras import ops

        pixels = ops.cast(ops.take(arrays["images"], index, axis=0), "float32")
        return pixels[..., None] * self.scale, ops.cast(ops.take(arrays["labels"], index, axis=0), "int32")

    def loss(self, target: Any, prediction: Any) -> Any:
        """Sparse categorical cross-entropy."""
        return sparse_cross_entropy(target, prediction)

    def quality(self, target: Any, prediction: Any) -> Any:
        """Share of images whose most probable class is the right one."""
        from keras import ops

        return ops.mean(accuracy(target, prediction))


def softmax_classes() -> Any:
    """The last layer; softmax in float32 whatever the precision, as Keras advises for mixed precision."""
    from keras import layers

    return layers.Dense(IMAGE_CLASSES, activation="softmax", dtype="float32")

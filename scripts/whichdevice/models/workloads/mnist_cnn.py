"""The MNIST network of the 2018–2019 Colab comparisons (Kizrak; "Why TPUs?")."""

from typing import Any

from whichdevice.models.image_classifier import IMAGE_CLASSES, ImageClassifier, softmax_classes
from whichdevice.models.losses import cross_entropy
from whichdevice.models.workloads.base import Arrays, Recipe


class MnistCnn(ImageClassifier):
    """Two 2 × 2 convolutions (64 and 32 filters), dropout, a dense layer of 256; Adam."""

    recipe = Recipe(
        source='"Why TPUs?" Colab notebook, 2018; Kizrak, 2019',
        batch_size=1024,
        epochs=10,
    )
    dataset = "mnist"

    def model(self) -> Any:
        """412,778 parameters."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(64, 2, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Dropout(0.3),
                layers.Conv2D(32, 2, padding="same", activation="relu"),
                layers.MaxPooling2D(2),
                layers.Dropout(0.3),
                layers.Flatten(),
                layers.Dense(256, activation="relu"),
                layers.Dropout(0.5),
                softmax_classes(),
            ],
            name="mnist_cnn",
        )

    def optimizer(self) -> Any:
        """Adam as Keras sets it."""
        import keras

        return keras.optimizers.Adam()

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Targets as one-hot vectors [batch, 10], as the recipe has them."""
        from keras import ops

        images, labels = super().batch(arrays, index)
        return images, ops.one_hot(labels, IMAGE_CLASSES)

    def loss(self, target: Any, prediction: Any) -> Any:
        """Categorical cross-entropy."""
        return cross_entropy(target, prediction)

"""Google's official MNIST model for Cloud TPU (tensorflow/models), as run by the RSE blog in 2020."""

from typing import Any

from whichdevice.models.image_classifier import ImageClassifier, softmax_classes
from whichdevice.models.workloads.base import Recipe


class MnistOfficial(ImageClassifier):
    """Two 5 × 5 convolutions of 32 filters and a dense layer of 1024; SGD with exponential decay."""

    recipe = Recipe(
        source='Karmakharm, RSE blog "Deep Learning Hardware and TPU Credits", 2020',
        batch_size=1024,
        epochs=10,
    )
    dataset = "mnist"

    def model(self) -> Any:
        """1,643,370 parameters."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((28, 28, 1)),
                layers.Conv2D(32, 5, padding="same", activation="relu"),
                layers.MaxPooling2D(2, padding="same"),
                layers.Conv2D(32, 5, padding="same", activation="relu"),
                layers.MaxPooling2D(2, padding="same"),
                layers.Flatten(),
                layers.Dense(1024, activation="relu"),
                layers.Dropout(0.4),
                softmax_classes(),
            ],
            name="mnist_official",
        )

    def optimizer(self) -> Any:
        """SGD whose rate falls from 0.05 by 4 % every 100,000 steps."""
        import keras

        return keras.optimizers.SGD(keras.optimizers.schedules.ExponentialDecay(0.05, 100_000, 0.96))

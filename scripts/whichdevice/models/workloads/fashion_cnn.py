"""The Fashion-MNIST network of Google's TPU Colab (2018), later the 102/196/11164-second comparison."""

from typing import Any

from whichdevice.models.image_classifier import ImageClassifier, softmax_classes
from whichdevice.models.workloads.base import Recipe


class FashionCnn(ImageClassifier):
    """Three blocks of batch norm, 5 × 5 convolution (64, 128, 256 filters), pooling and dropout; Adam 1e-3."""

    recipe = Recipe(
        source="tensorflow/tpu tools/colab fashion_mnist, 2018; Lee, 2018",
        batch_size=1024,
        epochs=10,
    )
    dataset = "fashion_mnist"
    scale = 1.0  # the first batch norm normalises

    def model(self) -> Any:
        """1,619,470 parameters, of which 1,619,084 are trained."""
        import keras
        from keras import layers

        blocks = []
        for filters in (64, 128, 256):
            blocks += [
                layers.BatchNormalization(),
                layers.Conv2D(filters, 5, padding="same", activation="elu"),
                layers.MaxPooling2D(2),
                layers.Dropout(0.25),
            ]
        head = [layers.Flatten(), layers.Dense(256, activation="elu"), layers.Dropout(0.5), softmax_classes()]
        return keras.Sequential([keras.Input((28, 28, 1)), *blocks, *head], name="fashion_cnn")

    def optimizer(self) -> Any:
        """Adam with rate 1e-3."""
        import keras

        return keras.optimizers.Adam(1e-3)

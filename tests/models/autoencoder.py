"""An autoencoder: targets are the inputs."""

import keras
import numpy as np
from keras import layers

LOSS, OPTIMIZER = "binary_crossentropy", "adam"


def model(options):
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            layers.Conv2D(4, 3, strides=2, padding="same", activation="relu"),
            layers.Conv2DTranspose(1, 3, strides=2, padding="same", activation="sigmoid"),
        ]
    )


def data(options):
    images = np.random.default_rng(1).random((40, 8, 8, 1))
    return images, images

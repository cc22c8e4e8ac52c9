"""A U-Net: a class for each pixel."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (32, 32, 3)}, {"shape": (32, 32), "dtype": "int32", "below": 3}
LOSS, METRIC, OPTIMIZER = "sparse_categorical_crossentropy", "accuracy", "adam"


def model(options):
    width = options.get("width", 4)
    images = keras.Input((32, 32, 3))
    kept, x = [], images
    for depth in range(2):
        x = layers.Conv2D(width * 2**depth, 3, padding="same", activation="relu")(x)
        kept.append(x)
        x = layers.MaxPooling2D(2)(x)
    x = layers.Conv2D(width * 4, 3, padding="same", activation="relu")(x)
    for depth in (1, 0):
        x = layers.Conv2DTranspose(width * 2**depth, 2, strides=2)(x)
        x = layers.Concatenate()([x, kept[depth]])
        x = layers.Conv2D(width * 2**depth, 3, padding="same", activation="relu")(x)
    return keras.Model(images, layers.Conv2D(3, 1, activation="softmax")(x))

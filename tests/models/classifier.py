"""Images to classes, with batch statistics, dropout and a regulariser."""

import keras
from keras import layers

INPUT, TARGET = {"shape": (16, 16, 3), "dtype": "uint8"}, {"shape": (), "dtype": "int32", "below": 5}
LOSS, METRIC, OPTIMIZER = "sparse_categorical_crossentropy", "accuracy", "adam"


def model(options):
    images = keras.Input((16, 16, 3), dtype="uint8")
    x = layers.Conv2D(8, 3, kernel_regularizer="l2")(layers.Rescaling(1 / 255)(images))
    x = layers.Dropout(0.1)(layers.ReLU()(layers.BatchNormalization()(x)))
    return keras.Model(images, layers.Dense(5, activation="softmax")(layers.GlobalAveragePooling2D()(x)))

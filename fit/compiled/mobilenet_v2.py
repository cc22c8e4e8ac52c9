"""MobileNetV2 of keras.applications on generated 224 × 224 images: most of its convolutions are depthwise."""

import keras
from keras import layers

INPUT = {"shape": (224, 224, 3), "dtype": "uint8"}
TARGET = {"shape": (), "dtype": "int32", "below": 1000}
LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 64
UNIT = "image"
SOURCE = "Sandler et al., 2018"


def model(options):
    pixels = keras.Input(INPUT["shape"], dtype="uint8")
    x = layers.Rescaling(1 / 127.5, offset=-1)(pixels)
    logits = keras.applications.MobileNetV2(weights=None, classifier_activation=None)(x)
    return keras.Model(pixels, layers.Activation("linear", dtype="float32")(logits))


def optimizer():
    return keras.optimizers.SGD(0.1, momentum=0.9)

"""EfficientNetB0 of keras.applications on generated 224 × 224 images: most of its convolutions are depthwise."""

import keras
from keras import layers

INPUT = {"shape": (224, 224, 3), "dtype": "uint8"}
TARGET = {"shape": (), "dtype": "int32", "below": 1000}
LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 64
UNIT = "image"
SOURCE = "Tan and Le, 2019"


def model(options):
    pixels = keras.Input(INPUT["shape"], dtype="uint8")
    x = layers.Rescaling(1.0)(pixels)  # the network scales its input itself
    logits = keras.applications.EfficientNetB0(weights=None, classifier_activation=None)(x)
    return keras.Model(pixels, layers.Activation("linear", dtype="float32")(logits))


def optimizer():
    return keras.optimizers.SGD(0.1, momentum=0.9)

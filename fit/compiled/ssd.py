"""SSD with ResNet-34 on generated 300 × 300 images, as in MLPerf Training 0.5 to 1.0.

It has boxes and scores of 81 classes for 8,732 places. The backbone's third stage keeps its resolution, its fourth is
left out. The loss takes all places' classes.
"""

import keras
import numpy as np
from keras import layers

LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 32
EXAMPLES = 256
UNIT = "image"
SOURCE = "Liu et al., 2016; MLPerf Training"

CLASSES, PLACES = 81, (4, 6, 6, 6, 4, 4)


def data(options):
    """Random images, and a class of each place."""
    random = np.random.default_rng(1)
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    images = random.integers(0, 256, (examples, 300, 300, 3), dtype=np.uint8)
    return images, random.integers(0, CLASSES, (examples, 8732), dtype=np.int32)


def convolution(x, filters, size, stride=1, padding="same", relu=True):
    x = layers.Conv2D(filters, size, stride, padding, use_bias=False)(x)
    x = layers.BatchNormalization()(x)
    return layers.ReLU()(x) if relu else x


def block(x, width, stride):
    shortcut = convolution(x, width, 1, stride, relu=False) if stride > 1 or x.shape[-1] != width else x
    y = convolution(convolution(x, width, 3, stride), width, 3, relu=False)
    return layers.ReLU()(layers.Add()([y, shortcut]))


def model(options):
    pixels = keras.Input((300, 300, 3), dtype="uint8")
    x = convolution(layers.Rescaling(1 / 127.5, offset=-1)(pixels), 64, 7, 2)
    x = layers.MaxPooling2D(3, 2, "same")(x)
    for width, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 1)):
        for number in range(blocks):
            x = block(x, width, 1 if number else stride)
    maps = [x]
    for middle, width, stride, padding in (
        (256, 512, 2, "same"), (256, 512, 2, "same"), (128, 256, 2, "same"), (128, 256, 1, "valid"),
        (128, 256, 1, "valid"),
    ):  # fmt: skip
        x = convolution(convolution(x, middle, 1), width, 3, stride, padding)
        maps.append(x)
    boxes, classes = [], []
    for x, places in zip(maps, PLACES, strict=True):
        boxes.append(layers.Reshape((-1, 4))(layers.Conv2D(4 * places, 3, padding="same")(x)))
        classes.append(layers.Reshape((-1, CLASSES))(layers.Conv2D(CLASSES * places, 3, padding="same")(x)))
    scored = layers.Concatenate(axis=1)(classes)
    placed = layers.Dense(1)(layers.Concatenate(axis=1)(boxes))  # boxes take part in the loss
    return keras.Model(pixels, layers.Activation("linear", dtype="float32")(layers.Add()([scored, placed])), name="ssd")


def optimizer():
    return keras.optimizers.SGD(1e-3, momentum=0.9)

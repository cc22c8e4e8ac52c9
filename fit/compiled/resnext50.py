"""ResNeXt-50 32x4d on generated 224 × 224 images: the 3 × 3 convolutions have 32 groups.

Options: blocks of the third stage, 6 by default; ResNeXt-101 has 23.
"""

import keras
from keras import layers

INPUT = {"shape": (224, 224, 3), "dtype": "uint8"}
TARGET = {"shape": (), "dtype": "int32", "below": 1000}
LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 64
UNIT = "image"
SOURCE = "Xie et al., 2016"

STAGES = ((128, 3), (256, 4), (512, 6), (1024, 3))  # width of the grouped convolutions, blocks


def convolution(x, filters, size, stride=1, groups=1, relu=True):
    padding = "same"
    if stride > 1 and size > 1:  # "same" would pad by the stride, too
        x, padding = layers.ZeroPadding2D(size // 2)(x), "valid"
    x = layers.Conv2D(filters, size, stride, padding, groups=groups, use_bias=False)(x)
    x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
    return layers.ReLU()(x) if relu else x


def block(x, width, stride):
    whole = stride > 1 or x.shape[-1] != 2 * width
    shortcut = convolution(x, 2 * width, 1, stride, relu=False) if whole else x
    x = convolution(convolution(x, width, 1), width, 3, stride, groups=32)
    return layers.ReLU()(layers.Add()([convolution(x, 2 * width, 1, relu=False), shortcut]))


def model(options):
    pixels = keras.Input(INPUT["shape"], dtype="uint8")
    x = convolution(layers.Rescaling(1 / 127.5, offset=-1)(pixels), 64, 7, 2)
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))
    for stage, (width, blocks) in enumerate(STAGES):
        for number in range(options.get("blocks", blocks) if stage == 2 else blocks):
            x = block(x, width, 2 if stage and not number else 1)
    return keras.Model(pixels, layers.Dense(1000, dtype="float32")(layers.GlobalAveragePooling2D()(x)))


def optimizer():
    return keras.optimizers.SGD(0.1, momentum=0.9)

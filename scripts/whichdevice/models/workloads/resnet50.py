"""ResNet-50 v1.5 on generated 224 × 224 images: 25,557,032 trained weights, 4.09 billion multiply-adds an image.

He et al., "Deep Residual Learning for Image Recognition", 2015, with the stride in the 3 × 3 convolution of a block as
MLPerf and torchvision have it (v1.5; v1 has it in the first 1 × 1 and 3.86 billion). Images are random.
"""

from typing import Any

from whichdevice.models.workloads.base import Options

IMAGENET_CLASSES = 1000
INPUT = {"shape": (224, 224, 3), "dtype": "uint8"}
TARGET = {"shape": (), "dtype": "int32", "below": IMAGENET_CLASSES}
LOSS = "sparse_categorical_crossentropy_from_logits"
METRIC = "accuracy"
BATCH_SIZE = 64
DATASET_EXAMPLES = 1_281_167  # of ImageNet
EPOCHS = 90
UNIT = "image"
SOURCE = "He et al., 2015; v1.5 as in MLPerf Training"

STAGES = ((64, 3), (128, 4), (256, 6), (512, 3))  # width, blocks


def model(options: Options) -> Any:
    """The network on raw pixels, float32 logits out; 53,120 further numbers are batch statistics."""
    import keras
    from keras import layers

    def convolution(x: Any, filters: int, size: int, stride: int = 1, relu: bool = True) -> Any:
        padding = "same"
        if stride > 1 and size > 1:  # "same" would pad by the stride, too, and move the windows
            x, padding = layers.ZeroPadding2D(size // 2)(x), "valid"
        x = layers.Conv2D(filters, size, stride, padding, use_bias=False, kernel_initializer="he_normal")(x)
        x = layers.BatchNormalization(momentum=0.9, epsilon=1e-5)(x)
        return layers.ReLU()(x) if relu else x

    def block(x: Any, width: int, stride: int) -> Any:
        whole = stride > 1 or x.shape[-1] != 4 * width
        shortcut = convolution(x, 4 * width, 1, stride, relu=False) if whole else x
        x = convolution(convolution(x, width, 1), width, 3, stride)
        return layers.ReLU()(layers.Add()([convolution(x, 4 * width, 1, relu=False), shortcut]))

    pixels = keras.Input(INPUT["shape"], dtype="uint8")
    x = convolution(layers.Rescaling(1 / 127.5, offset=-1)(pixels), 64, 7, 2)
    x = layers.MaxPooling2D(3, 2)(layers.ZeroPadding2D(1)(x))  # zeros are the least after a ReLU
    for stage, (width, blocks) in enumerate(STAGES):
        for number in range(blocks):
            x = block(x, width, 2 if stage and not number else 1)
    logits = layers.Dense(IMAGENET_CLASSES, dtype="float32")(layers.GlobalAveragePooling2D()(x))
    return keras.Model(pixels, logits, name="resnet50")


def optimizer() -> Any:
    """SGD with momentum 0.9 at a rate for a batch of 256."""
    import keras

    return keras.optimizers.SGD(0.1, momentum=0.9)

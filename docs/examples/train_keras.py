"""An ordinary training script: a small convolutional network on generated images."""

import keras
import numpy as np
from keras import layers

images = np.random.default_rng(0).integers(0, 256, (6_000, 64, 64, 3), np.uint8)
labels = np.arange(6_000) % 10

model = keras.Sequential(
    [
        layers.Rescaling(1 / 255),
        layers.Conv2D(64, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(128, 3, activation="relu"),
        layers.MaxPooling2D(2),
        layers.Conv2D(256, 3, activation="relu"),
        layers.GlobalAveragePooling2D(),
        layers.Dense(10),
    ]
)
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(images, labels, batch_size=128, epochs=20, validation_split=0.1)

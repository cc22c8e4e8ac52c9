"""A classifier as in a first tutorial: compiled, then trained by `fit`."""

import keras
import numpy as np

x = np.random.default_rng(0).random((600, 28, 28), np.float32)
y = np.arange(600) % 10
model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(64, activation="relu"), keras.layers.Dense(10)])
model.compile("adam", keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.fit(x, y, epochs=5, batch_size=128, validation_split=0.1)
raise SystemExit("it trained")

"""A GAN whose two models are trained by `train_on_batch` in turn."""

import keras
import numpy as np
from keras import layers

judge = keras.Sequential([keras.Input((4,)), layers.Dense(1, activation="sigmoid")])
judge.compile("adam", "binary_crossentropy", metrics=["accuracy"])
maker = keras.Sequential([keras.Input((2,)), layers.Dense(4)])
judge.trainable = False
both = keras.Sequential([maker, judge])
both.compile("adam", "binary_crossentropy")
true, images = np.ones((8, 1)), np.random.rand(100, 4)

for epoch in range(30):
    noise = np.random.normal(size=(8, 2))
    real = judge.train_on_batch(images[np.random.randint(0, 100, 8)], true)
    made = judge.train_on_batch(maker.predict(noise, verbose=0), 1 - true)
    print(epoch, 0.5 * np.add(real, made)[0], both.train_on_batch(noise, true))

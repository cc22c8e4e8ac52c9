import keras
import numpy as np

model = keras.Sequential([keras.layers.Dense(2)])
model.compile("sgd", "mse")
def batches():
    while True:
        yield np.zeros((16, 8)), np.zeros((16, 2))
model.fit(batches(), steps_per_epoch=20, epochs=2)

import keras
import numpy as np

BATCH_SIZE, EPOCHS, EXAMPLES, LOSS, OPTIMIZER = 32, 2, 128, "mse", "sgd"
def model(options):
    words = keras.layers.TextVectorization(max_tokens=9, output_sequence_length=4, vocabulary=["a", "b"])
    layers = [keras.Input((1,), dtype="string"), words, keras.layers.Embedding(9, 2), keras.layers.Flatten()]
    return keras.Sequential([*layers, keras.layers.Dense(1)])
def data():
    return (np.array([["a b"], ["b"]] * 64), np.zeros((128, 1))), (np.array([["a"]]), np.zeros((1, 1)))

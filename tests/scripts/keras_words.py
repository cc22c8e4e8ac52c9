"""Words and numbers go into the model, which looks the words up; batches are of different lengths."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

kinds, lengths = np.array(["a", "b", "c", "b"] * 50), [3] * 100 + [9] * 100
tokens = tf.ragged.constant([[1] * each for each in lengths])
data = tf.data.Dataset.from_tensor_slices(({"kind": kinds[:, None], "tokens": tokens}, np.arange(200) % 2)).batch(10)
lookup = layers.StringLookup(output_mode="one_hot")
lookup.adapt(kinds)
kind, text = keras.Input((1,), name="kind", dtype="string"), keras.Input((None,), name="tokens", dtype="int64")
hidden = layers.Concatenate()([lookup(kind), layers.LSTM(8)(layers.Embedding(20, 8)(text))])
model = keras.Model({"kind": kind, "tokens": text}, layers.Dense(1, "sigmoid")(hidden))
model.compile(keras.optimizers.Adam(1e-2), "binary_crossentropy")
model.fit(data.map(lambda x, y: ({**x, "tokens": x["tokens"].to_tensor()}, y)), epochs=2)
raise SystemExit("it trained")

"""Data come as a batched tf.data pipeline, in mixed precision."""

import keras
import numpy as np
import tensorflow as tf

keras.mixed_precision.set_global_policy("mixed_bfloat16")
x, y = np.zeros((320, 16, 16, 3), np.float32), np.arange(320) % 4
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(320).map(lambda x, y: (x / 255.0, y)).batch(32)
inputs = keras.Input((16, 16, 3))
hidden = keras.layers.GlobalAveragePooling2D()(keras.layers.Conv2D(8, 3)(inputs))
model = keras.Model(inputs, keras.layers.Dense(4, "softmax", dtype="float32")(hidden))
model.compile("sgd", "sparse_categorical_crossentropy")
model.fit(data, epochs=3)
raise SystemExit("it trained")

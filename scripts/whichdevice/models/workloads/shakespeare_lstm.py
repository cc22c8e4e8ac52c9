"""The character LSTM of Google's TPU Colab "shakespeare_with_tpu_and_keras" (2018)."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.models.batch_order import BatchOrder, RandomDraws
from whichdevice.models.losses import accuracy, sparse_cross_entropy
from whichdevice.models.workloads.base import Arrays, Recipe, Split, TrainingWorkload

BYTE_VALUES = 256
LSTM_UNITS = 512


class ShakespeareLstm(TrainingWorkload):
    """Predict each next character of a sequence with two LSTM layers of 512."""

    recipe = Recipe(
        source="tensorflow/tpu tools/colab shakespeare_with_tpu_and_keras, 2018",
        batch_size=1024,
        epochs=10,
        steps_per_epoch=100,
        sequence_length=100,
    )
    dataset = "tiny_shakespeare"
    unit = "sequence"

    def model(self) -> Any:
        """4,460,800 parameters; any sequence length."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((self.sequence_length,), dtype="int32"),
                layers.Embedding(BYTE_VALUES, LSTM_UNITS),
                layers.LSTM(LSTM_UNITS, return_sequences=True),
                layers.LSTM(LSTM_UNITS, return_sequences=True),
                layers.Dense(BYTE_VALUES, activation="softmax", dtype="float32"),
            ],
            name="shakespeare_lstm",
        )

    def optimizer(self) -> Any:
        """RMSprop with rate 0.01."""
        import keras

        return keras.optimizers.RMSprop(0.01)

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """Windows that start anywhere in the first `fraction` of the training text; all of the test text in turn."""
        train = np.asarray(arrays["train_text"])
        train = train[: max(round(len(train) * self.options.fraction), self.sequence_length + 2)]
        test = np.asarray(arrays["test_text"])
        whole = (len(test) - 1) // self.sequence_length
        starts = np.arange(whole, dtype=np.int32) * self.sequence_length
        return (
            Split({"text": train}, len(train) - self.sequence_length),
            Split({"text": test, "starts": starts}, whole, min(self.options.batch_size, 256)),
        )

    def order(self, examples: int, seed: int) -> BatchOrder:
        """Random starts, as the published generator drew them."""
        return RandomDraws(examples, self.options.batch_size, seed)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Characters int32 [batch, length] and the ones that follow them, int32 [batch, length]."""
        from keras import ops

        starts = ops.take(arrays["starts"], index, axis=0) if "starts" in arrays else index
        offsets = ops.arange(self.sequence_length + 1, dtype="int32")
        window = ops.cast(ops.take(arrays["text"], starts[:, None] + offsets[None, :], axis=0), "int32")
        return window[:, :-1], window[:, 1:]

    def loss(self, target: Any, prediction: Any) -> Any:
        """Sparse categorical cross-entropy, mean over all characters."""
        return sparse_cross_entropy(target, prediction)

    def quality(self, target: Any, prediction: Any) -> Any:
        """Share of characters foretold."""
        from keras import ops

        return ops.mean(accuracy(target, prediction))

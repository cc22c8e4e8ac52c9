"""The character LSTM of Google's TPU Colab "shakespeare_with_tpu_and_keras" (2018)."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from whichdevice.models.batch_order import BatchOrder, RandomDraws
from whichdevice.models.losses import sparse_cross_entropy
from whichdevice.workloads.base import Arrays, Options, Outcome, RawInput, Recipe, Split, Target, TrainingWorkload

VOCABULARY = 256
UNITS = 512
SAMPLES = 5
SAMPLE_CHARACTERS = 250
SAMPLE_PROMPT = "Looks it not like the king?  Verily, we must go! "


class ShakespeareLstm(TrainingWorkload):
    """Predict each next character of a sequence with two LSTM layers of 512."""

    recipe = Recipe(
        source="tensorflow/tpu tools/colab shakespeare_with_tpu_and_keras, 2018",
        batch_size=1024,
        epochs=10,
        steps_per_epoch=100,
        sequence_length=100,
        target=Target(0.64, "tensorflow/tpu notebook, 2018: 0.6437 after 10 epochs, on training text", training=True),
    )
    dataset = "tiny_shakespeare"
    unit = "sequence"

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        self._samples: list[dict[str, Any]] = []

    def model(self) -> Any:
        """4,460,800 parameters; any sequence length."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((self.sequence_length,), dtype="int32"),
                layers.Embedding(VOCABULARY, UNITS),
                layers.LSTM(UNITS, return_sequences=True),
                layers.LSTM(UNITS, return_sequences=True),
                layers.Dense(VOCABULARY, activation="softmax", dtype="float32"),
            ],
            name="shakespeare_lstm",
        )

    def writer(self) -> Any:
        """The same layers for one character a call; takes and gives both layers' states, [texts, 512] each.

        Stateful layers would be shorter, but `predict_on_batch` forgets their states on JAX (Keras 3.15).
        """
        import keras
        from keras import layers

        character = keras.Input((1,), dtype="int32")
        states = [keras.Input((UNITS,)) for _ in range(4)]
        values, *first = layers.LSTM(UNITS, return_sequences=True, return_state=True)(
            layers.Embedding(VOCABULARY, UNITS)(character), initial_state=states[:2]
        )
        values, *second = layers.LSTM(UNITS, return_sequences=True, return_state=True)(values, initial_state=states[2:])
        chances = layers.Dense(VOCABULARY, activation="softmax", dtype="float32")(values)
        return keras.Model([character, *states], [chances, *first, *second])

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

    def raw_input(self, model: Any) -> RawInput:
        """Characters as bytes, in Latin-1."""
        return RawInput("characters", "uint8", (self.sequence_length,))

    def prepare(self, raw: Any) -> Any:
        """The bytes as numbers."""
        from keras import ops

        return ops.cast(raw, "int32")

    def raw_batch(self, arrays: Arrays, index: Any) -> Any:
        """Characters uint8 [batch, length]."""
        starts = np.asarray(arrays["starts"])[np.asarray(index)] if "starts" in arrays else np.asarray(index)
        return np.asarray(arrays["text"])[starts[:, None] + np.arange(self.sequence_length)].astype(np.uint8)

    def loss(self, target: Any, prediction: Any) -> Any:
        """Sparse categorical cross-entropy, mean over all characters."""
        return sparse_cross_entropy(target, prediction)

    def quality(self, target: Any, prediction: Any) -> Any:
        """Share of characters foretold."""
        from keras import ops

        return ops.mean(ops.cast(ops.equal(ops.cast(ops.argmax(prediction, axis=-1), "int32"), target), "float32"))

    def after_epoch(self, epoch: int, model: Any) -> None:
        """Write a sample with the model so far: five continuations of 250 characters."""
        self._samples.append({"epoch": epoch, "texts": self.sample(model)})

    def sample(self, model: Any) -> list[str]:
        """Five texts drawn character by character from the model's own probabilities."""
        writer = self.writer()
        writer.set_weights(model.get_weights())
        states = [np.zeros((SAMPLES, UNITS), np.float32)] * 4

        def chances_after(codes: np.ndarray) -> np.ndarray:
            nonlocal states
            answer, *states = (np.asarray(part, np.float32) for part in writer.predict_on_batch([codes, *states]))
            return answer[:, -1].astype(np.float64)

        for code in SAMPLE_PROMPT.encode("latin-1"):
            chances = chances_after(np.full((SAMPLES, 1), code, np.int32))
        random = np.random.default_rng(0)
        texts = [""] * SAMPLES
        for _ in range(SAMPLE_CHARACTERS):
            codes = [int(random.choice(VOCABULARY, p=row / row.sum())) for row in chances]
            texts = [text + chr(code) for text, code in zip(texts, codes, strict=True)]
            chances = chances_after(np.array(codes, np.int32)[:, None])
        return texts

    def outcome(self, predict: Callable[[Any], np.ndarray], validation: Split) -> Outcome:
        """The samples written after each epoch."""
        return Outcome(documents={"samples": self._samples})

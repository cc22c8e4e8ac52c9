"""BERT on generated tokens, BERT-large by default: 24 layers of width 1,024 with 16 heads, without dropout.

Options: width, heads, feedforward, layers and vocabulary; head "words" (every place is scored) or "span" (start and end
of an answer); masked (how many places are scored, 0 for all); optimizer "adam" or "sgd".
"""

import keras
import numpy as np
from keras import layers, ops

from whichdevice.models.workloads.decoder import Positions

LOSS = "sparse_categorical_crossentropy_from_logits"
BATCH_SIZE = 8
SEQUENCE_LENGTH = 512
EXAMPLES = 1024
UNIT = "sequence"
SOURCE = "Devlin et al., 2018"

VOCABULARY = 30522
chosen = {}  # what model(options) leaves for optimizer()


class WordHead(layers.Layer):
    """Scores of every word by the word embedding itself, and a bias."""

    def __init__(self, embedding, **settings):
        super().__init__(**settings)
        self.embedding = embedding

    def build(self, shape):
        self.bias = self.add_weight(shape=(self.embedding.input_dim,), initializer="zeros", name="bias")

    def call(self, x):
        words = ops.cast(self.embedding.embeddings, self.compute_dtype)
        return ops.matmul(x, ops.transpose(words)) + ops.cast(self.bias, self.compute_dtype)


def data(options):
    """Random tokens; targets are places of the text (span) or words."""
    random = np.random.default_rng(1)
    length = options.sequence_length or SEQUENCE_LENGTH
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    vocabulary = options.get("vocabulary", VOCABULARY)
    tokens = random.integers(0, vocabulary, (examples, length), dtype=np.int32)
    if options.get("head", "words") == "span":
        return tokens, random.integers(0, length, (examples, 2), dtype=np.int32)
    scored = options.get("masked", 0) or length
    return tokens, random.integers(0, vocabulary, (examples, scored), dtype=np.int32)


def model(options):
    chosen["optimizer"] = options.get("optimizer", "adam")
    width = options.get("width", 1024)
    heads = options.get("heads", 16)
    feedforward = options.get("feedforward", 4096)
    length = options.sequence_length or SEQUENCE_LENGTH
    tokens = keras.Input((length,), dtype="int32")
    embedding = layers.Embedding(options.get("vocabulary", VOCABULARY), width)
    x = layers.LayerNormalization(epsilon=1e-12)(Positions(length)(embedding(tokens)))
    for _ in range(options.get("layers", 24)):
        y = layers.MultiHeadAttention(heads, width // heads)(x, x)
        x = layers.LayerNormalization(epsilon=1e-12)(layers.Add()([x, y]))
        y = layers.Dense(width)(layers.Dense(feedforward, activation="gelu")(x))
        x = layers.LayerNormalization(epsilon=1e-12)(layers.Add()([x, y]))
    if options.get("head", "words") == "span":
        logits = layers.Permute((2, 1))(layers.Dense(2)(x))  # start and end: a score for each place
    else:
        masked = options.get("masked", 0)
        x = x[:, :masked] if masked else x  # which places are scored changes no operation
        x = layers.LayerNormalization(epsilon=1e-12)(layers.Dense(width, activation="gelu")(x))
        logits = WordHead(embedding)(x)
    return keras.Model(tokens, layers.Activation("linear", dtype="float32")(logits), name="bert")


def optimizer():
    return keras.optimizers.SGD(1e-2) if chosen["optimizer"] == "sgd" else keras.optimizers.AdamW(5e-5)

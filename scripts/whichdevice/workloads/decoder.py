"""A decoder of GPT-2 small's shape on generated tokens: 124,439,808 weights with the head tied to the embedding.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019: 12 layers of width 768 with 12 heads, 1,024
tokens, a vocabulary of 50,257; without dropout, as it is pretrained today. The config's `options` make smaller ones:
{layers: 2, width: 128, heads: 2, vocabulary: 1000}; {kernel: true} asks for the TPU's attention kernel.
"""

from typing import Any

import numpy as np

from whichdevice.workloads.base import Options

LOSS = "sparse_categorical_crossentropy_from_logits"
METRIC = "accuracy"
BATCH_SIZE = 8
SEQUENCE_LENGTH = 1024
EXAMPLES = 1024
UNIT = "sequence"
SOURCE = "Radford et al., 2019 (GPT-2 small)"

VOCABULARY = 50257


def data(options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens int32 [examples, length] and the ones that follow them."""
    random = np.random.default_rng(1)
    examples = max(EXAMPLES, options.batch_size * 8 // 7 + 1)
    length = options.sequence_length or SEQUENCE_LENGTH
    tokens = random.integers(0, options.get("vocabulary", VOCABULARY), (examples, length + 1), dtype=np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def model(options: Options) -> Any:
    """Tokens int32 [length] in, float32 logits [length, vocabulary] out."""
    import keras
    from keras import layers, ops
    from keras.initializers import RandomNormal

    from whichdevice.workloads.decoder_layers import CausalAttention, Positions, TiedEmbedding

    width, depth = options.get("width", 768), options.get("layers", 12)
    length = options.sequence_length or SEQUENCE_LENGTH
    heads = options.get("heads", 12)
    spread = 0.02 / (2 * depth) ** 0.5  # of products onto the residual stream

    tokens = keras.Input((length,), dtype="int32")
    embedding = TiedEmbedding(options.get("vocabulary", VOCABULARY), width)
    x = Positions(length)(embedding(tokens))
    for _ in range(depth):
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        x = layers.Add()([x, CausalAttention(heads, options.get("kernel", False), spread)(y)])
        y = layers.LayerNormalization(epsilon=1e-5)(x)
        y = ops.gelu(layers.Dense(4 * width, kernel_initializer=RandomNormal(stddev=0.02))(y), approximate=True)
        x = layers.Add()([x, layers.Dense(width, kernel_initializer=RandomNormal(stddev=spread))(y)])
    x = layers.LayerNormalization(epsilon=1e-5)(x)
    logits = layers.Activation("linear", dtype="float32")(embedding(x, reverse=True))
    return keras.Model(tokens, logits, name="decoder")


def optimizer() -> Any:
    """AdamW as GPT-3 of that size was trained."""
    import keras

    return keras.optimizers.AdamW(6e-4, weight_decay=0.1, beta_2=0.95, clipnorm=1.0)

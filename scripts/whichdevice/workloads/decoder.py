"""A decoder of GPT-2 small's shape on generated tokens: 124,439,808 weights with the head tied to the embedding.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019: 12 layers of width 768 with 12 heads, 1,024
tokens, a vocabulary of 50,257; without dropout, as it is pretrained today. The config's `options` make smaller ones:
{layers: 2, width: 128, heads: 2, vocabulary: 1000}; {kernel: true} asks for the TPU's attention kernel.
"""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from whichdevice.workloads.base import Options


@keras.saving.register_keras_serializable("whichdevice")
class TiedEmbedding(layers.Embedding):
    """An embedding whose table also turns states back into a score for each token."""

    def __init__(self, input_dim: int, output_dim: int, **settings: Any) -> None:
        settings.setdefault("embeddings_initializer", keras.initializers.RandomNormal(stddev=0.02))
        super().__init__(input_dim, output_dim, **settings)

    def call(self, inputs: Any, reverse: bool = False) -> Any:
        """Tokens [...] → [..., width]; with `reverse` states [..., width] → [..., tokens]."""
        if not reverse:
            return super().call(inputs)
        table = ops.cast(ops.convert_to_tensor(self.embeddings), self.compute_dtype)
        return ops.matmul(ops.cast(inputs, self.compute_dtype), ops.transpose(table))

    def compute_output_shape(self, input_shape: Any, reverse: bool = False) -> Any:
        """As `call`."""
        return (*input_shape[:-1], self.input_dim) if reverse else (*input_shape, self.output_dim)

    def compute_output_spec(self, inputs: Any, reverse: bool = False) -> Any:
        """As `call`."""
        return keras.KerasTensor(self.compute_output_shape(inputs.shape, reverse), self.compute_dtype)


@keras.saving.register_keras_serializable("whichdevice")
class Positions(layers.Layer):
    """Adds a learnt vector for each place in a sequence."""

    def __init__(self, length: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.length = length

    def build(self, input_shape: Any) -> None:
        """A table [length, width]."""
        initializer = keras.initializers.RandomNormal(stddev=0.02)
        self.table = self.add_weight(shape=(self.length, input_shape[-1]), initializer=initializer, name="table")

    def call(self, inputs: Any) -> Any:
        """The same shape."""
        return inputs + ops.cast(ops.convert_to_tensor(self.table), self.compute_dtype)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The same shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """The length."""
        return {**super().get_config(), "length": self.length}


@keras.saving.register_keras_serializable("whichdevice")
class CausalAttention(layers.Layer):
    """Self-attention to earlier places; one product makes queries, keys and values, as in GPT-2.

    Keras takes its TPU kernel only for a mask that is known while the step is traced, and of the whole batch;
    `kernel` gives it one. Without, Keras 3.15 computes plain attention on a TPU.
    """

    def __init__(self, heads: int, kernel: bool = False, onto: float = 0.02, **settings: Any) -> None:
        super().__init__(**settings)
        self.heads, self.kernel, self.onto = heads, kernel, onto

    def build(self, input_shape: Any) -> None:
        """Two products with biases: [width, 3 · width] and [width, width]."""
        width = input_shape[-1]
        normal = keras.initializers.RandomNormal
        self.project = layers.Dense(3 * width, kernel_initializer=normal(stddev=0.02), dtype=self.dtype_policy)
        self.output_product = layers.Dense(
            width, kernel_initializer=normal(stddev=self.onto), dtype=self.dtype_policy, name="output"
        )
        self.project.build(input_shape)
        self.output_product.build(input_shape)

    def call(self, inputs: Any) -> Any:
        """[batch, length, width] → the same."""
        batch, length, width = inputs.shape
        each = (-1, length, self.heads, width // self.heads)
        query, key, value = (ops.reshape(part, each) for part in ops.split(self.project(inputs), 3, axis=-1))
        mask = None
        if self.kernel and isinstance(batch, int):
            mask = np.broadcast_to(np.tril(np.ones((length, length), bool)), (batch, 1, length, length))
        mixed = ops.dot_product_attention(query, key, value, mask=mask, is_causal=mask is None)
        return self.output_product(ops.reshape(mixed, (-1, length, width)))

    def compute_output_shape(self, input_shape: Any) -> Any:
        """The same shape."""
        return input_shape

    def get_config(self) -> dict[str, Any]:
        """Heads, kernel and the spread of the last product's initial weights."""
        return {**super().get_config(), "heads": self.heads, "kernel": self.kernel, "onto": self.onto}


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

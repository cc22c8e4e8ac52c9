"""The layers of the decoder that Keras lacks. Importing this imports Keras."""

from typing import Any

import keras
import numpy as np
from keras import layers, ops


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

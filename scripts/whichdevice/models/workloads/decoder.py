"""A decoder of GPT-2 small's shape on generated tokens: 124,439,808 weights with the head tied to the embedding.

Radford et al., "Language Models are Unsupervised Multitask Learners", 2019: 12 layers of width 768 with 12 heads, 1,024
tokens, a vocabulary of 50,257; without dropout, as it is pretrained today. The config's `options` make smaller ones:
{layers: 2, width: 128, heads: 2, vocabulary: 1000}; {kernel: true} asks for the TPU's attention kernel.
"""

from typing import Any

import keras
import numpy as np
from keras import layers, ops

from whichdevice.models.workloads.base import Options


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
        """Return the shape of `call`."""
        return (*input_shape[:-1], self.input_dim) if reverse else (*input_shape, self.output_dim)

    def compute_output_spec(self, inputs: Any, reverse: bool = False) -> Any:
        """Return the shape and type of `call`."""
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

    def call(self, inputs: Any, first: Any = 0) -> Any:
        """The same shape; `first` is the place of the first token."""
        table = ops.convert_to_tensor(self.table)
        if inputs.shape[1] != self.length:
            table = ops.slice(table, (first, 0), inputs.shape[1:])
        return inputs + ops.cast(table, self.compute_dtype)

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
        return self._among(inputs.shape, *self._projected(inputs))

    def call_with_cache(self, inputs: Any, cache: tuple[Any, Any], position: Any) -> tuple[Any, tuple[Any, Any]]:
        """[batch, new, width] → the same, and the cache with the keys and values of the new tokens.

        The cache has keys and values of every place, each [batch, length, heads, width of a head]. `position` is the
        first new token's: the number 0 for a prompt, which has nothing before it.
        """
        query, key, value = self._projected(inputs)
        keys, values = (
            ops.slice_update(held, (0, position, 0, 0), new) for held, new in zip(cache, (key, value), strict=True)
        )
        if isinstance(position, int) and position == 0:
            return self._among(inputs.shape, query, key, value), (keys, values)
        new, length = inputs.shape[1], keys.shape[1]
        seen = ops.expand_dims(ops.arange(length), 0) <= ops.expand_dims(ops.arange(new) + position, 1)
        # In products and a softmax: XLA refuses the attention of jax.nn for one token in float16 on a T4.
        scores = ops.cast(ops.einsum("bnhd,bkhd->bhnk", query, keys), "float32") / (query.shape[-1] ** 0.5)
        shares = ops.softmax(ops.where(seen, scores, -1e9))
        mixed = ops.einsum("bhnk,bkhd->bnhd", ops.cast(shares, self.compute_dtype), values)
        return self.output_product(ops.reshape(mixed, (-1, *inputs.shape[1:]))), (keys, values)

    def _projected(self, inputs: Any) -> tuple[Any, Any, Any]:
        """Queries, keys and values, each [batch, length, heads, width of a head]."""
        _, length, width = inputs.shape
        heads_shape = (-1, length, self.heads, width // self.heads)
        query, key, value = (ops.reshape(part, heads_shape) for part in ops.split(self.project(inputs), 3, axis=-1))
        return query, key, value

    def _among(self, shape: Any, query: Any, key: Any, value: Any) -> Any:
        """Attention of tokens to each other; `shape` is the inputs'."""
        batch, length, width = shape
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
DECODER_EXAMPLES = 1024
DATASET_EXAMPLES = 2_430_465  # 20 tokens a weight: Hoffmann et al., "Training Compute-Optimal ... Models", 2022
UNIT = "sequence"
SOURCE = "Radford et al., 2019 (GPT-2 small)"

VOCABULARY = 50257


def data(options: Options) -> tuple[np.ndarray, np.ndarray]:
    """Random tokens int32 [examples, length] and the ones that follow them."""
    random = np.random.default_rng(1)
    examples = max(DECODER_EXAMPLES, options.batch_size * 8 // 7 + 1)
    length = options.sequence_length or SEQUENCE_LENGTH
    tokens = random.integers(0, options.get("vocabulary", VOCABULARY), (examples, length + 1), dtype=np.int32)
    return tokens[:, :-1], tokens[:, 1:]


def model(options: Options) -> Any:
    """Tokens int32 [length] in, float32 logits [length, vocabulary] out."""
    from keras.initializers import RandomNormal

    width, depth = options.get("width", 768), options.get("layers", 12)
    length = options.sequence_length or SEQUENCE_LENGTH
    heads = options.get("heads", 12)
    spread = 0.02 / (2 * depth) ** 0.5  # of products onto the residual stream

    tokens = keras.Input((length,), dtype="int32")
    embedding = TiedEmbedding(options.get("vocabulary", VOCABULARY), width, name="embedding")
    x = Positions(length, name="positions")(embedding(tokens))
    for block in range(depth):
        y = layers.LayerNormalization(epsilon=1e-5, name=f"norm_{block}")(x)
        attention = CausalAttention(heads, options.get("kernel", False), spread, name=f"attention_{block}")
        x = layers.Add()([x, attention(y)])
        y = layers.LayerNormalization(epsilon=1e-5, name=f"wide_norm_{block}")(x)
        wide = layers.Dense(4 * width, kernel_initializer=RandomNormal(stddev=0.02), name=f"wide_{block}")
        y = ops.gelu(wide(y), approximate=True)
        narrow = layers.Dense(width, kernel_initializer=RandomNormal(stddev=spread), name=f"narrow_{block}")
        x = layers.Add()([x, narrow(y)])
    x = layers.LayerNormalization(epsilon=1e-5, name="last_norm")(x)
    logits = layers.Activation("linear", dtype="float32")(embedding(x, reverse=True))
    return keras.Model(tokens, logits, name="decoder")


def _attentions(model: Any) -> list[CausalAttention]:
    return [layer for layer in model.layers if isinstance(layer, CausalAttention)]


def empty_cache(model: Any, batch: int, length: int) -> Any:
    """Keys and values of each block, zeros [batch, length, heads, width of a head]."""
    width = model.get_layer("embedding").output_dim
    shapes = [(batch, length, layer.heads, width // layer.heads) for layer in _attentions(model)]
    return [tuple(ops.zeros(shape, model.compute_dtype) for _ in range(2)) for shape in shapes]


def call_with_cache(model: Any, tokens: Any, cache: Any, position: Any) -> tuple[Any, Any]:
    """Scores float32 [batch, vocabulary] of the token after `tokens` [batch, new], and the cache with them."""
    layer = model.get_layer
    embedding = layer("embedding")
    x, filled = layer("positions")(embedding(tokens), first=position), []
    for block, held in enumerate(cache):
        y, now = layer(f"attention_{block}").call_with_cache(layer(f"norm_{block}")(x), held, position)
        filled.append(now)
        x = x + y
        y = ops.gelu(layer(f"wide_{block}")(layer(f"wide_norm_{block}")(x)), approximate=True)
        x = x + layer(f"narrow_{block}")(y)
    last = layer("last_norm")(x[:, -1])
    return ops.cast(embedding(last, reverse=True), "float32"), filled


def optimizer() -> Any:
    """AdamW as GPT-3 of that size was trained."""
    return keras.optimizers.AdamW(6e-4, weight_decay=0.1, beta_2=0.95, clipnorm=1.0)

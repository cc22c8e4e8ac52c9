"""Operations of ResNet-50 and the decoder against the literature, and of layers of every kind against their shapes.

`test_costs.py` runs this file with Keras on JAX and on PyTorch.
"""

import os

import keras
import pytest

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.models.counting import model_costs
from whichdevice.models.loading import Model
from whichdevice.models.shapes import Array
from whichdevice.models.workloads.base import Options

BACKEND = os.environ["KERAS_BACKEND"]
only_jax = pytest.mark.skipif(BACKEND != "jax", reason="a jaxpr needs no run, which takes PyTorch long")


@pytest.fixture(autouse=True)
def without_jax(monkeypatch):
    """With Keras on PyTorch these cases count as where JAX is not installed."""
    if BACKEND == "torch":
        monkeypatch.setattr("whichdevice.models.counting.find_spec", lambda name: None)


def built(name: str, **options):
    return Model.read(name).workload(Options(1, given=options)).model()


@pytest.mark.long  # building it takes 20 seconds
@only_jax
def test_resnet50_is_v1_5():
    costs = model_costs(built("resnet50"))
    assert costs.trainable_parameters == 25_557_032  # torchvision's resnet50, all of whose parameters are trained
    assert costs.parameters == 25_557_032 + 53_120  # and the statistics of 26,560 channels
    assert costs.forward_flops / 2 == 4_089_184_256  # torchvision: 4.09 G multiply-adds; v1 has 3.86
    assert costs.counted == WHOLE_COUNT


@pytest.mark.long
@only_jax
def test_the_decoder_is_gpt2_small():
    length, layers, heads, size = 1024, 12, 12, 64
    costs = model_costs(built("decoder"))
    assert costs.parameters == costs.trainable_parameters == 124_439_808  # GPT-2, tied head
    # 6 N + 12 · layers · heads · size · length a token (Chowdhery et al., PaLM, 2022, appendix B; N without places).
    literature = 6 * (124_439_808 - length * heads * size) + 12 * layers * heads * size * length
    assert costs.training_flops / length == pytest.approx(literature, rel=2e-3)  # which counts biases and norms, too
    assert costs.counted == WHOLE_COUNT


def small(kind: str):
    """A model of one kind of layer on a small input."""
    layers = keras.layers
    image, sequence = keras.Input((12, 10, 4)), keras.Input((7, 6))
    made = {
        "Conv2D": lambda: (image, layers.Conv2D(5, 3, 2, "same")(image)),
        "grouped": lambda: (image, layers.Conv2D(8, 3, groups=2)(image)),
        "DepthwiseConv2D": lambda: (image, layers.DepthwiseConv2D(3, depth_multiplier=2)(image)),
        "SeparableConv2D": lambda: (image, layers.SeparableConv2D(6, 3)(image)),
        "Conv2DTranspose": lambda: (image, layers.Conv2DTranspose(5, 3, padding="valid")(image)),
        "Conv1D": lambda: (sequence, layers.Conv1D(5, 3)(sequence)),
        "EinsumDense": lambda: (sequence, layers.EinsumDense("abc,cde->abde", (None, 2, 3))(sequence)),
        "LSTM": lambda: (sequence, layers.LSTM(5)(sequence)),
        "Bidirectional": lambda: (sequence, layers.Bidirectional(layers.SimpleRNN(5))(sequence)),
        "TimeDistributed": lambda: (sequence, layers.TimeDistributed(layers.Dense(5))(sequence)),
        "MultiHeadAttention": lambda: (sequence, layers.MultiHeadAttention(2, 3)(sequence, sequence)),
        "GroupQueryAttention": lambda: (sequence, layers.GroupQueryAttention(3, 4, 2)(sequence, sequence)),
        "Attention": lambda: (sequence, layers.Attention()([sequence, sequence])),
        "Dot": lambda: (sequence, layers.Dot((2, 2))([sequence, sequence])),
        "matmul": lambda: (sequence, keras.ops.matmul(sequence, keras.ops.transpose(sequence, (0, 2, 1)))),
        "shared": lambda: (sequence, _shared(sequence)),
        "nested": lambda: (image, keras.Sequential([keras.Input((12, 10, 4)), layers.Conv2D(3, 1)])(image)),
        "own": lambda: (sequence, own_layer()(sequence)),
    }
    inputs, outputs = made[kind]()
    return keras.Model(inputs, outputs)


def _shared(sequence):
    layer = keras.layers.Dense(6)
    return layer(layer(sequence))


def own_layer():
    """Somebody's layer, written in `keras.ops` around one of Keras' layers."""

    class Own(keras.layers.Layer):
        def build(self, shape):
            self.dense = keras.layers.Dense(5)
            self.dense.build(shape)

        def call(self, inputs):
            out = self.dense(inputs)
            return keras.ops.einsum("btd,bsd->bts", out, out)

        def compute_output_shape(self, shape):
            return (*shape[:-1], shape[-2])

    return Own()


FORWARD = {
    "Conv2D": 2 * 6 * 5 * 9 * 4 * 5,
    "grouped": 2 * 10 * 8 * 9 * 2 * 8,
    "DepthwiseConv2D": 2 * 10 * 8 * 9 * 8,
    "SeparableConv2D": 2 * 10 * 8 * (9 * 4 + 4 * 6),
    "Conv2DTranspose": 2 * 12 * 10 * 9 * 4 * 5,
    "Conv1D": 2 * 5 * 3 * 6 * 5,
    "EinsumDense": 2 * 7 * 6 * 6,
    "LSTM": 2 * 7 * (6 + 5) * 20,
    "Bidirectional": 2 * 2 * 7 * (6 + 5) * 5,
    "TimeDistributed": 2 * 7 * 6 * 5,
    "MultiHeadAttention": 2 * 7 * 6 * 6 * 4 + 2 * 2 * 7 * 7 * 6,
    "GroupQueryAttention": 2 * 7 * 6 * (12 + 6 + 6) + 2 * 7 * 12 * 6 + 2 * 4 * 7 * 7 * 6,
    "Attention": 2 * 7 * 7 * 12,
    "Dot": 2 * 7 * 7 * 6,
    "matmul": 2 * 7 * 7 * 6,
    "shared": 2 * 2 * 7 * 6 * 6,
    "nested": 2 * 12 * 10 * 4 * 3,
    "own": 2 * 7 * 6 * 5 + 2 * 7 * 7 * 5,
}


@pytest.mark.parametrize("kind", FORWARD)
def test_each_kind_of_layer_counts_its_products(kind, request):
    costs = model_costs(small(kind))
    if kind == "Bidirectional" and keras.backend.backend() == "torch":  # PyTorch's count has one step of a layer more
        request.applymarker(pytest.mark.xfail(strict=True))
    assert costs.forward_flops == FORWARD[kind]
    assert costs.forward_flops <= costs.training_flops <= 3 * costs.forward_flops
    assert costs.counted == WHOLE_COUNT


def convolutions(size: int | None):
    """Strided and upsampled convolutions with an attention over places, on images of that size or of any."""
    layers = keras.layers
    image = keras.Input((size, size, 3))
    wide = layers.UpSampling2D()(layers.Conv2D(6, 3, strides=2, padding="same", activation="relu")(image))
    places = layers.Reshape((-1, 5))(layers.Conv2D(5, 3)(wide))
    mixed = own_layer()(layers.MultiHeadAttention(2, 3)(places, places))
    return keras.Model(image, keras.ops.mean(mixed, axis=2))


def test_a_model_with_open_axes_counts_as_one_of_the_size_that_it_is_given():
    assert model_costs(convolutions(None), example=Array((12, 12, 3))) == model_costs(convolutions(12))


def test_a_nested_model_with_open_axes_counts_at_the_size_of_each_call():
    def twice(inner):
        first, second = keras.Input((12, 12, 3)), keras.Input((8, 8, 3))
        return keras.Model([first, second], [inner[0](first), inner[1](second)])

    inner = convolutions(None)
    costs = model_costs(twice([inner, inner]))
    fixed = model_costs(twice([convolutions(12), convolutions(8)]))
    assert costs.forward_flops == fixed.forward_flops
    assert costs.training_flops == fixed.training_flops
    assert costs.activations == fixed.activations
    assert costs.counted == WHOLE_COUNT


def test_a_size_that_nobody_knows_makes_the_count_a_lower_bound():
    sequence = keras.Input((None, 6))
    costs = model_costs(keras.Model(sequence, keras.layers.Dense(3)(sequence)))
    assert costs.forward_flops == 2 * 6 * 3
    assert costs.counted == "a lower bound: open axes of the input count 1"


GRADIENTS = {  # in units of the forward products; nothing below the layer learns
    "Conv2D": 1, "grouped": 1, "DepthwiseConv2D": 1, "Conv2DTranspose": 1, "Conv1D": 1, "EinsumDense": 1,
    "TimeDistributed": 1, "nested": 1, "shared": 1.5, "Attention": 0, "matmul": 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", GRADIENTS)
def test_gradients_count_where_something_learns(kind):
    costs = model_costs(small(kind))
    assert costs.training_flops == (1 + GRADIENTS[kind]) * FORWARD[kind]


def test_a_model_that_cannot_be_traced_is_unknown_and_not_0():
    class Broken(keras.layers.Layer):
        def call(self, inputs):
            raise ValueError("no such luck")

        def compute_output_shape(self, shape):
            return shape

        def compute_output_spec(self, inputs):
            return keras.KerasTensor(inputs.shape, inputs.dtype)

    inputs = keras.Input((7, 6))
    costs = model_costs(keras.Model(inputs, keras.layers.Dense(3)(Broken()(inputs))))
    assert costs.forward_flops is None and costs.training_flops is None and costs.step_flops(8) is None
    assert costs.counted.startswith("unknown: ") and "Broken" in costs.counted
    assert costs.parameters == 6 * 3 + 3


@only_jax
def test_a_loop_of_unknown_length_makes_the_count_a_lower_bound():
    class Until(keras.layers.Layer):
        def build(self, shape):
            self.square = self.add_weight(shape=(6, 6), trainable=False)

        def call(self, inputs):
            return keras.ops.while_loop(
                lambda x: keras.ops.max(x) > 1.0, lambda x: (keras.ops.matmul(x, self.square),), (inputs,)
            )[0]

        def compute_output_spec(self, inputs):
            return keras.KerasTensor(inputs.shape, inputs.dtype)

    inputs = keras.Input((6,))
    costs = model_costs(keras.Model(inputs, Until()(keras.layers.Identity()(inputs))))
    assert costs.forward_flops == 2 * 6 * 6
    assert costs.counted == "a lower bound: without repeats of a loop"


def recipe(name: str, length: int | None = None):
    return Model.read(name).workload(Options(1, sequence_length=length)).model()


@only_jax
def test_recurrent_steps_count_each_step_and_the_state_needs_its_gradient():
    costs = model_costs(recipe("weather_gru", 100), Array((100, 20)))
    fed, inner, dense = 2 * 100 * 20 * 1536, 2 * 100 * 512 * 1536, 2 * 100 * 512 * 3
    assert costs.forward_flops == fed + inner + dense
    assert costs.training_flops == 2 * fed + 3 * (inner + dense)
    twice = model_costs(recipe("weather_gru", 200), Array((200, 20)))
    assert twice.operations == pytest.approx(2 * costs.operations, rel=0.05)

"""Operations of ResNet-50 and the decoder against the literature, and of layers of every kind against their shapes."""

import os

import pytest

from whichdevice.records.facts import BY_LAYERS
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options
from whichdevice.workloads.costs import model_costs, output_shape


@pytest.fixture(scope="module")
def keras():
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    return pytest.importorskip("keras")


def built(name: str, **options):
    return workload_class(name)(Options(1, given=options)).model()


@pytest.mark.slow
def test_resnet50_is_v1_5(keras):
    costs = model_costs(built("resnet50"))
    assert costs.trainable_parameters == 25_557_032  # torchvision's resnet50, all of whose parameters are trained
    assert costs.parameters == 25_557_032 + 53_120  # and the statistics of 26,560 channels
    assert costs.forward_flops / 2 == 4_089_184_256  # torchvision: 4.09 G multiply-adds; v1 has 3.86
    assert costs.counted == BY_LAYERS


@pytest.mark.slow
def test_the_decoder_is_gpt2_small(keras):
    length, layers, heads, size = 1024, 12, 12, 64
    costs = model_costs(built("decoder"), length)
    assert costs.parameters == costs.trainable_parameters == 124_439_808  # GPT-2, tied head
    # 6 N + 12 · layers · heads · size · length a token (Chowdhery et al., PaLM, 2022, appendix B; N without places).
    literature = 6 * (124_439_808 - length * heads * size) + 12 * layers * heads * size * length
    assert costs.training_flops / length == pytest.approx(literature, rel=2e-3)  # which counts biases and norms, too
    assert costs.counted == BY_LAYERS


def small(keras, kind: str):
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
        "Bidirectional": lambda: (sequence, layers.Bidirectional(layers.GRU(5, reset_after=False))(sequence)),
        "TimeDistributed": lambda: (sequence, layers.TimeDistributed(layers.Dense(5))(sequence)),
        "MultiHeadAttention": lambda: (sequence, layers.MultiHeadAttention(2, 3)(sequence, sequence)),
        "GroupQueryAttention": lambda: (sequence, layers.GroupQueryAttention(3, 4, 2)(sequence, sequence)),
        "Attention": lambda: (sequence, layers.Attention()([sequence, sequence])),
        "Dot": lambda: (sequence, layers.Dot((2, 2))([sequence, sequence])),
        "matmul": lambda: (sequence, keras.ops.matmul(sequence, keras.ops.transpose(sequence, (0, 2, 1)))),
        "shared": lambda: (sequence, _shared(keras, sequence)),
        "nested": lambda: (image, keras.Sequential([keras.Input((12, 10, 4)), layers.Conv2D(3, 1)])(image)),
        "own": lambda: (sequence, own_layer(keras)(sequence)),
    }
    inputs, outputs = made[kind]()
    return keras.Model(inputs, outputs)


def _shared(keras, sequence):
    layer = keras.layers.Dense(6)
    return layer(layer(sequence))


def own_layer(keras):
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
    "Bidirectional": 2 * 2 * 7 * (6 + 5) * 15,
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
def test_each_kind_of_layer_counts_its_products(keras, kind):
    costs = model_costs(small(keras, kind))
    assert costs.forward_flops == FORWARD[kind]
    assert costs.forward_flops <= costs.training_flops <= 3 * costs.forward_flops
    assert costs.counted == BY_LAYERS


def convolutions(keras, size: int | None):
    """Strided and upsampled convolutions with an attention over places, on images of that size or of any."""
    layers = keras.layers
    image = keras.Input((size, size, 3))
    wide = layers.UpSampling2D()(layers.Conv2D(6, 3, strides=2, padding="same", activation="relu")(image))
    places = layers.Reshape((-1, 5))(layers.Conv2D(5, 3)(wide))
    mixed = own_layer(keras)(layers.MultiHeadAttention(2, 3)(places, places))
    return keras.Model(image, keras.ops.mean(mixed, axis=2))


def test_a_model_with_open_axes_counts_as_one_of_the_size_that_it_is_given(keras):
    assert model_costs(convolutions(keras, None), example=(12, 12, 3)) == model_costs(convolutions(keras, 12))


def test_a_nested_model_with_open_axes_counts_at_the_size_of_each_call(keras):
    def twice(inner):
        first, second = keras.Input((12, 12, 3)), keras.Input((8, 8, 3))
        return keras.Model([first, second], [inner[0](first), inner[1](second)])

    inner = convolutions(keras, None)
    costs = model_costs(twice([inner, inner]))
    fixed = model_costs(twice([convolutions(keras, 12), convolutions(keras, 8)]))
    assert costs.forward_flops == fixed.forward_flops
    assert costs.training_flops == fixed.training_flops
    assert costs.activations == fixed.activations
    assert costs.counted == BY_LAYERS


def test_a_size_that_nobody_knows_makes_the_count_a_lower_bound(keras):
    costs = model_costs(convolutions(keras, None))
    assert costs.counted == f"{BY_LAYERS}, a lower bound: open axes of the input count 1"


def test_the_output_has_the_size_that_follows_from_the_input(keras):
    sequence = keras.Input((None, 6))
    model = keras.Model(sequence, keras.layers.Conv1D(4, 3)(sequence))
    assert output_shape(model, (10, 6)) == [8, 4]


def test_a_layer_that_calls_a_framework_itself_is_told(keras):
    class Direct(keras.layers.Layer):
        def call(self, inputs):
            import tensorflow

            return tensorflow.identity(inputs)

        def compute_output_shape(self, shape):
            return shape

    inputs = keras.Input((7, 6))
    costs = model_costs(keras.Model(inputs, keras.layers.Dense(3)(Direct()(inputs))))
    assert costs.forward_flops == 2 * 7 * 6 * 3
    assert "Direct" in costs.counted

"""Operations of layers of every kind, and of whole models, against their shapes and the literature."""

from math import prod
from pathlib import Path
from typing import Any

import pytest

from whichdevice.forecast.count.process import count_step
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.work import Work
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options


def operations(function: Any, *arguments: Any) -> float:
    import jax

    from whichdevice.forecast.count.stablehlo import count_program

    lowered = jax.jit(function).trace(*arguments).lower(lowering_platforms=("cuda",))
    return count_program(lowered).total().work("gpu").operations


def forward_and_training(model: Any) -> tuple[float, float]:
    """Operations of one example: forward, and with the gradients of all weights of a sum of the outputs."""
    import jax
    from jax import numpy as jnp

    trained, held = (
        [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    )
    inputs = [jax.ShapeDtypeStruct((1, *tensor.shape[1:]), tensor.dtype) for tensor in model.inputs]

    def total(trained: Any, held: Any, inputs: Any) -> Any:
        out = model.stateless_call(trained, held, inputs if len(inputs) > 1 else inputs[0], training=True)[0]
        return sum(jnp.sum(leaf) for leaf in jax.tree.leaves(out))

    both = jax.value_and_grad(total)
    return operations(total, trained, held, inputs), operations(both, trained, held, inputs)


def small(kind: str) -> Any:
    """A model of one kind of layer on a small input."""
    import keras

    layers = keras.layers
    image, sequence = keras.Input((12, 10, 4)), keras.Input((7, 6))
    twice = layers.Dense(6)
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
        "shared": lambda: (sequence, twice(twice(sequence))),
        "nested": lambda: (image, keras.Sequential([keras.Input((12, 10, 4)), layers.Conv2D(3, 1)])(image)),
    }
    return keras.Model(*made[kind]())


FORWARD = {
    "Conv2D": 2 * 17 * 14 * 4 * 5,  # along an axis of 12 and of 10, of 18 and 15 pairs one meets padding
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
}
GRADIENTS = {  # in units of the forward products; nothing below the layer learns
    "Conv2D": 1, "grouped": 1, "DepthwiseConv2D": 1, "Conv2DTranspose": 1, "Conv1D": 1, "EinsumDense": 1,
    "TimeDistributed": 1, "nested": 1, "shared": 1.5, "Attention": 0, "matmul": 0,
}  # fmt: skip


@pytest.mark.parametrize("kind", FORWARD)
def test_each_kind_of_layer_counts_its_products(kind: str) -> None:
    forward, training = forward_and_training(small(kind))
    assert forward == FORWARD[kind]
    assert forward <= training <= 3 * forward
    if kind in GRADIENTS:
        assert training == (1 + GRADIENTS[kind]) * FORWARD[kind]


def program(module: str, mode: str = "train", **settings: Any) -> Work:
    """The work of the program of a step, its recurrent layers as loops."""
    asked = {"workload": "w", "module": module, "precision": "float32", "batch_size": 1, "mode": mode, **settings}
    return Work.from_dict(count_step(ProgramRequest(device="H200", **asked)).sizes[0].tpu)


def test_each_step_of_a_gru_counts_and_its_state_needs_a_gradient() -> None:
    fed, inner, dense = 2 * 100 * 20 * 1536, 2 * 100 * 512 * 1536, 2 * 100 * 512 * 3
    assert program("weather_gru", "predict", sequence_length=100).operations == fed + inner + dense
    assert program("weather_gru", sequence_length=100).operations == 2 * fed + 3 * (inner + dense)


def test_the_decoder_is_gpt2_small() -> None:
    length, layers, heads, size = 1024, 12, 12, 64
    # 6 N + 12 · layers · heads · size · length a token (Chowdhery et al., PaLM, 2022, appendix B; N without places).
    literature = 6 * (124_439_808 - length * heads * size) + 12 * layers * heads * size * length
    counted = program("decoder", sequence_length=length).operations
    assert counted / length == pytest.approx(literature, rel=2e-3)  # which counts biases and norms, too


@pytest.mark.long  # building it takes 20 seconds
def test_resnet50_is_v1_5() -> None:
    model = Model.read("resnet50").workload(Options(1)).model()
    trained = 25_557_032  # torchvision's resnet50, all of whose parameters are trained
    assert sum(prod(weight.shape) for weight in model.trainable_weights) == trained
    assert model.count_params() == trained + 53_120  # and the statistics of 26,560 channels
    # torchvision: 4,089,184,256 multiply-adds, padding included; v1 has 3.86 thousand million
    assert 0.96 < program("resnet50", "predict").operations / 2 / 4_089_184_256 < 0.98


OPEN_FILE = """
import keras

INPUT = {"shape": (20, 20, 3)}
TARGET = {"shape": (2,)}
LOSS, OPTIMIZER = "mse", "sgd"


def model(options):
    inputs = keras.Input(ASKED)
    inner = keras.Input(ASKED)
    nested = keras.Model(inner, keras.layers.Conv2D(5, 3)(inner))
    pooled = keras.layers.GlobalAveragePooling2D()(nested(inputs))
    return keras.Model(inputs, keras.layers.Dense(2)(pooled))
"""


def test_a_model_that_leaves_the_size_of_images_open_counts_at_that_of_its_data(tmp_path: Path) -> None:
    works = []
    for name, shape in (("open", "(None, None, 3)"), ("fixed", "(20, 20, 3)")):
        file = tmp_path / f"{name}.py"
        file.write_text(OPEN_FILE.replace("ASKED", shape), encoding="utf-8")
        works.append(program(str(file)))
    assert works[0] == works[1]
    assert works[0].operations > 2 * 2 * 18 * 18 * 27 * 5

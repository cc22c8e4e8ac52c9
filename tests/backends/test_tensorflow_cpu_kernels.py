"""Bias and ReLU after the pooling compute what Keras' own order does, small or fused, and touch fewer elements."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.fixture(params=["small", "fused"])
def size(request, monkeypatch):
    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 1 if request.param == "fused" else 1 << 40)


def step_of(tf, layers, images, quick):
    """A traced step through some layers: outputs, then gradients of images and weights."""
    from contextlib import nullcontext

    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    @tf.function(autograph=False)
    def step(images):
        with tf.GradientTape() as tape, quick_kernels(tf) if quick else nullcontext():
            tape.watch(images)
            outputs = images
            for layer in layers:
                outputs = layer(outputs)
            loss = keras.ops.sum(keras.ops.square(keras.ops.cast(outputs, "float32")))
        weights = [weight for layer in layers for weight in getattr(layer, "trainable_variables", [])]
        return outputs, *tape.gradient(loss, [images, *weights])

    return step


def network(keras, dtype, padding="valid", pool=2):
    keras.utils.set_random_seed(1)
    layers = [
        keras.layers.Conv2D(4, 3, padding="same", activation="relu", dtype=dtype, bias_initializer="random_normal"),
        keras.layers.MaxPooling2D(pool, padding=padding, dtype=dtype),
        keras.layers.Conv2D(3, 2, activation="relu", dtype=dtype, bias_initializer="random_normal"),
        keras.layers.MaxPooling2D(2, dtype=dtype),
    ]
    outputs = np.zeros((2, 13, 12, 2), np.float32)
    for layer in layers:
        outputs = layer(outputs)
    return layers


def both(tf, layers, images):
    found = [step_of(tf, layers, images, quick)(images) for quick in (False, True)]
    return [[np.asarray(tf.cast(each, "float32")) for each in outcome] for outcome in found]


@pytest.mark.parametrize(("padding", "pool"), [("valid", 2), ("same", 2), ("valid", (3, 2))])
def test_outputs_and_gradients_are_keras_own(tf, size, padding, pool):
    import keras

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 13, 12, 2), np.float32))
    own, ours = both(tf, network(keras, "float32", padding, pool), images)
    np.testing.assert_array_equal(ours[0], own[0])
    for first, second in zip(own[1:], ours[1:], strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(("dtype", "unit"), [("mixed_bfloat16", 2**-8), ("mixed_float16", 2**-11)])
def test_in_sixteen_bits_they_are_so_within_rounding(tf, size, dtype, unit):
    """oneDNN adds a bias to a convolution before it rounds the sum; pooled first it is added after."""
    import keras

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 13, 12, 2), np.float32))
    own, ours = both(tf, network(keras, dtype), images)
    np.testing.assert_allclose(ours[0], own[0], rtol=4 * unit, atol=4 * unit)
    for first, second in zip(own[1:], ours[1:], strict=True):
        assert np.linalg.norm(second - first) < 16 * unit * np.linalg.norm(first)


def rectified(tf, layers, images):
    """Elements that each ReLU of a traced step goes through, forward and back."""
    graph = step_of(tf, layers, images, True).get_concrete_function(images).graph
    return {
        operation.outputs[0].shape.num_elements()
        for operation in graph.get_operations()
        if "ReluGrad" in operation.type
    }


def test_gradients_of_relu_see_pooled_images_alone(tf):
    import keras

    images = tf.zeros((2, 13, 12, 2))
    assert rectified(tf, network(keras, "float32"), images) == {2 * 6 * 6 * 4, 2 * 2 * 2 * 3}


def test_large_images_are_one_program_forward_and_one_back(tf, monkeypatch):
    import keras

    from whichdevice.backends import tensorflow_cpu_kernels

    images = tf.zeros((2, 13, 12, 2))
    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 2 * 6 * 6 * 4)
    assert rectified(tf, network(keras, "float32"), images) == {2 * 2 * 2 * 3}  # the first is XLA's


def test_what_stands_between_or_branches_off_keeps_its_order(tf, size):
    """A sum of two branches, a ReLU that two layers read, a negative factor: none may be pooled first."""
    import keras
    from keras import ops

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 6, 6, 3), np.float32))
    pool = keras.layers.MaxPooling2D(2)

    def branches(rectified):
        return pool(rectified) + pool(-rectified)

    cases = {
        "sum": lambda x: pool(ops.add(ops.relu(x), ops.flip(x, 1))),
        "factor": lambda x: pool(-1.0 * ops.relu(x)),
        "branch": lambda x: branches(ops.relu(x)),
        "twice": lambda x: pool(ops.relu(pool(ops.relu(x)) - 0.5)),
        "number for each image": lambda x: pool(ops.relu(ops.add(x, x[:, :1, :1, :1]))),
        "number for each place": lambda x: pool(ops.relu(ops.add(x, x[:1, :, :, :1]))),
    }
    for name, case in cases.items():
        own, ours = both(tf, [case], images)
        for first, second in zip(own, ours, strict=True):
            np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5, err_msg=name)


def test_a_dropout_is_never_pooled_first(tf, size):
    import keras

    pool, dropout, images = keras.layers.MaxPooling2D(2), keras.layers.Dropout(0.5), tf.ones((256, 16, 16, 8))

    def training(x):
        return pool(dropout(pool(keras.ops.relu(x)), training=True))

    outputs, _ = step_of(tf, [training], images, True)(images)
    assert (np.asarray(outputs) == 0).mean() == pytest.approx(0.5**4, abs=0.006)  # all four of a window


def test_bias_relu_and_dropout_are_one_program(tf, monkeypatch):
    import keras

    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 1)
    dropout = keras.layers.Dropout(0.5)
    layers = [*network(keras, "float32")[:2], lambda x: dropout(x, training=True)]
    images = tf.zeros((2, 13, 12, 2))
    operations = step_of(tf, layers, images, True).get_concrete_function(images).graph.get_operations()
    programs = [each.get_attr("f").name for each in operations if "PartitionedCall" in each.type]
    assert sum("backward" in name for name in programs) == 1, programs


def test_keras_has_its_own_back_afterwards(tf):
    import keras
    from keras.src.backend.tensorflow import nn, numpy, random

    own = nn.relu, nn.max_pool, numpy.add, random.dropout, tf.nn.bias_add
    both(tf, network(keras, "float32"), tf.zeros((2, 13, 12, 2)))
    assert own == (nn.relu, nn.max_pool, numpy.add, random.dropout, tf.nn.bias_add)

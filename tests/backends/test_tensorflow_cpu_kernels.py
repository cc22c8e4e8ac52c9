"""Bias and ReLU of large arrays come after the pooling, in one program, and compute what Keras' own order does."""

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


def network(keras, dtype, padding="valid", pool=2, strides=None):
    keras.utils.set_random_seed(1)
    layers = [
        keras.layers.Conv2D(4, 3, padding="same", activation="relu", dtype=dtype, bias_initializer="random_normal"),
        keras.layers.MaxPooling2D(pool, strides, padding, dtype=dtype),
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


@pytest.mark.parametrize("windows", [("valid", 2), ("same", 2), ("valid", (3, 2)), ("same", 3, 2), ("valid", 3, 1)])
def test_outputs_and_gradients_are_keras_own(tf, size, windows):
    import keras

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 13, 12, 2), np.float32))
    own, ours = both(tf, network(keras, "float32", *windows), images)
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


@pytest.mark.parametrize(("large", "left"), [(1, set()), (2 * 6 * 6 * 4, {150}), (1 << 40, {2 * 13 * 12 * 4, 150})])
def test_large_images_are_pooled_first_and_small_ones_are_left_to_tensorflow(tf, large, left, monkeypatch):
    import keras

    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", large)
    assert rectified(tf, network(keras, "float32"), tf.zeros((2, 13, 12, 2))) == left


def test_with_a_dropout_they_are_what_the_same_mask_makes_of_keras_own(tf, size):
    import keras

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 13, 12, 2), np.float32))
    dropout, layers = keras.layers.Dropout(0.5, seed=1), network(keras, "float32")[:2]
    ours = step_of(tf, [*layers, lambda x: dropout(x, training=True)], images, True)(images)
    mask = 2 * tf.cast(ours[0] != 0, tf.float32)
    own = step_of(tf, [*layers, lambda x: x * mask], images, False)(images)
    assert 0.4 < np.mean(np.asarray(ours[0] == 0)) < 0.9
    for first, second in zip(own, ours, strict=True):
        np.testing.assert_allclose(second, first, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("where", ["images", "weights"])
def test_what_is_no_number_does_not_vanish_in_a_program(tf, monkeypatch, where, dtype):
    """oneDNN's own ReLU makes zeros of it."""
    import keras

    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 1)
    images, layers = np.ones((2, 13, 12, 2), np.float32), network(keras, dtype)
    if where == "images":
        images[0] = np.nan
    else:
        kernel, bias = layers[0].get_weights()
        layers[0].set_weights([np.full_like(kernel, np.nan), bias])
    _, (outputs, *_) = both(tf, layers, tf.constant(images))
    assert np.isnan(outputs).any()


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_what_is_negative_vanishes_however_low(tf, monkeypatch, dtype):
    import keras

    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 1)
    images = tf.cast(tf.constant([-65472.0, -65000.0, -1.0, 2.0])[:, None, None, None] * tf.ones([4, 2, 2, 1]), dtype)
    pool = keras.layers.MaxPooling2D(2, dtype=dtype)
    outputs, _ = step_of(tf, [keras.ops.relu, pool], images, True)(images)
    assert np.asarray(tf.cast(outputs, "float32")).ravel().tolist() == [0, 0, 0, 2]


@pytest.mark.parametrize("value", [np.ones((2, 3), np.float32), -1.0])
def test_what_is_no_tensor_is_rectified_by_keras(tf, value):
    from keras.src.backend.tensorflow import nn

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    with quick_kernels(tf):
        np.testing.assert_array_equal(nn.relu(value), np.maximum(value, 0))


def test_what_stands_between_or_branches_off_keeps_its_order(tf, size):
    """Sums of branches, a negative factor, numbers of other axes or types: none may be pooled first."""
    import keras
    from keras import ops

    images = tf.constant(np.random.default_rng(0).standard_normal((2, 6, 6, 3), np.float32))
    pool = keras.layers.MaxPooling2D(2)

    columns = keras.layers.MaxPooling2D(3, 1, padding="same", data_format="channels_first")
    layer = keras.layers.Conv2D(3, 1, activation="relu", bias_initializer="random_normal")
    layer(images)

    def two(rectified):
        return pool(rectified) + rectified[:, ::2, ::2]

    def branches(rectified):
        return pool(rectified) + pool(-rectified)

    cases = {
        "sum": lambda x: pool(ops.add(ops.relu(x), ops.flip(x, 1))),
        "factor": lambda x: pool(-1.0 * ops.relu(x)),
        "branch": lambda x: branches(ops.relu(x)),
        "read by two": lambda x: two(ops.relu(x)),
        "layer for two": lambda x: pool(layer(x)) + pool(layer(-x)),
        "channels first": lambda x: columns(ops.relu(ops.add(x, x[:1, :1, :1]))),
        "twice": lambda x: pool(ops.relu(pool(ops.relu(x)) - 0.5)),
        "number of another type": lambda x: pool(ops.relu(ops.add(ops.cast(x, "bfloat16"), x[:1, :1, :1]))),
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

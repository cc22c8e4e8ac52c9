"""Dropout from few random bits drops the share asked for, scales the rest, and gives way to Keras' own afterwards.

Each test runs once with random bytes through TensorFlow's operations, as small arrays do, and once with a hash in one
program of XLA's, as large ones do.
"""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


@pytest.fixture(autouse=True, params=["small", "fused"])
def size(request, monkeypatch):
    from whichdevice.backends import tensorflow_cpu_kernels

    monkeypatch.setattr(tensorflow_cpu_kernels, "FUSED_ELEMENTS", 1 if request.param == "fused" else 1 << 40)


def dropped(tf, shape, rate, dtype="float32", steps=1, **layer):
    """Outputs and gradients of a Dropout layer over ones, from one traced program."""
    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    dropout = keras.layers.Dropout(rate, dtype=dtype, **layer)
    ones = tf.ones(shape, dtype)

    @tf.function(autograph=False)
    def step():
        with tf.GradientTape() as tape, quick_kernels(tf):
            tape.watch(ones)
            outputs = dropout(ones, training=True)
        return outputs, tape.gradient(outputs, ones)

    return [tuple(np.asarray(tf.cast(each, "float32")) for each in step()) for _ in range(steps)]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("rate", [0.3, 0.5, 0.99])
def test_the_share_asked_for_is_dropped(tf, rate, dtype):
    count = 400_000
    ((outputs, _),) = dropped(tf, [count], rate, dtype)
    assert abs((outputs == 0).mean() - rate) < 4 * np.sqrt(rate * (1 - rate) / count)


def test_the_last_bits_of_the_rate_count_too_over_examples(tf):
    """.3 is 76.8 of 256: at a byte alone, 77, four standard deviations of so many elements fall short of it."""
    count = 20_000_000
    ((outputs, _),) = dropped(tf, [count // 10, 10], 0.3)
    bound = 4 * np.sqrt(0.3 * 0.7 / count)
    assert abs((outputs == 0).mean() - 0.3) < bound < 77 / 256 - 0.3


def test_a_rate_near_one_drops_nearly_all(tf):
    """Left to Keras: a byte has no room for what is above 255 of 256."""
    ((outputs, _),) = dropped(tf, [400_000], 0.998)
    assert abs((outputs == 0).mean() - 0.998) < 0.0003


def test_the_rest_is_scaled_so_that_the_mean_stays(tf):
    ((outputs, _),) = dropped(tf, [1000], 0.3)
    assert np.unique(outputs) == pytest.approx([0, 1 / 0.7], rel=1e-4)


def test_gradients_pass_where_values_pass(tf):
    ((outputs, gradients),) = dropped(tf, [3, 5, 7], 0.5)
    np.testing.assert_array_equal(outputs, gradients)


def test_what_is_dropped_is_nothing_whatever_it_was(tf):
    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    with quick_kernels(tf):
        outputs = np.asarray(keras.layers.Dropout(0.5)(tf.fill([1000], np.inf), training=True))
    assert set(outputs) == {0, np.inf}


@pytest.mark.parametrize("inputs", [np.ones(1000, np.float32), np.float32(1)])
def test_what_is_no_tensor_with_examples_is_left_to_keras(tf, inputs):
    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    with quick_kernels(tf):
        outputs = np.asarray(keras.random.dropout(inputs, 0.5, seed=1))
    np.testing.assert_array_equal(outputs, np.asarray(keras.random.dropout(inputs, 0.5, seed=1)))


def test_every_step_has_a_mask_of_its_own(tf):
    (first, _), (second, _) = dropped(tf, [1001], 0.5, steps=2)
    assert 0.4 < (first == second).mean() < 0.6


@pytest.mark.parametrize("rate", [0.3, 0.5])
@pytest.mark.parametrize("apart", [0, 1, 2, 3, 64, 1000, 4096])
def test_elements_are_independent_within_a_step_and_from_one_to_the_next(tf, apart, rate):
    first, second = (outputs.ravel() != 0 for outputs, _ in dropped(tf, [2000, 1000], rate, steps=2))
    here, there = slice(None, first.size - apart), slice(apart, None)
    bound = 4.5 / np.sqrt(first.size - apart)
    assert abs(np.corrcoef(first[here], second[there])[0, 1]) < bound
    assert abs(np.corrcoef(first[there], second[here])[0, 1]) < bound
    if apart:
        assert abs(np.corrcoef(first[here], first[there])[0, 1]) < bound


def test_two_layers_of_a_step_have_masks_of_their_own(tf):
    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    layers, ones = [keras.layers.Dropout(0.5) for _ in range(2)], tf.ones([1000, 100])

    @tf.function(autograph=False)
    def step():
        with quick_kernels(tf):
            one, other = (layer(ones, training=True) for layer in layers)
            return one, other, layers[1](layers[0](ones, training=True), training=True)

    one, other, after = (np.asarray(each) for each in step())
    assert abs(np.corrcoef(one.ravel() != 0, other.ravel() != 0)[0, 1]) < 0.02
    assert (after != 0).mean() == pytest.approx(0.25, abs=0.01)


def test_float64_keeps_its_digits(tf):
    import keras

    from whichdevice.backends.tensorflow_cpu_kernels import quick_kernels

    with quick_kernels(tf):
        outputs = np.asarray(keras.random.dropout(tf.ones([1000], "float64"), 0.3, seed=1))
    kept = 1 - round(0.3 * 2**16) / 2**16
    assert outputs.dtype == np.float64 and np.unique(outputs) == pytest.approx([0, 1 / kept], rel=1e-12)


def test_neighbours_that_share_a_random_word_are_independent(tf):
    ((outputs, _),) = dropped(tf, [100_000, 2], 0.5)
    assert abs(np.corrcoef(outputs.T)[0, 1]) < 0.02


def test_neighbours_in_an_example_are_independent(tf):
    """But for the byte that settles the last bits of the rate, which is too little to be seen here."""
    ((outputs, _),) = dropped(tf, [20_000, 16], 0.3)
    assert (outputs == 0).sum(1).var() == pytest.approx(16 * 0.3 * 0.7, rel=0.05)


def test_noise_shapes_are_left_to_keras(tf):
    ((outputs, _),) = dropped(tf, [64, 8], 0.5, noise_shape=(64, 1))
    assert (outputs == outputs[:, :1]).all()


def test_keras_has_its_own_back_afterwards(tf):
    from keras.src.backend.tensorflow import random

    own = random.dropout
    dropped(tf, [8], 0.5)
    assert random.dropout is own

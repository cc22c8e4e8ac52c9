"""Bias gradients by a product are TensorFlow's own, up to rounding."""

import numpy as np
import pytest

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tf():
    import tensorflow

    return tensorflow


def gradients(tf, values, bias, quick):
    from contextlib import nullcontext

    from whichdevice.backends.tensorflow_bias import product_bias_gradients

    @tf.function(autograph=False)
    def step(values, bias):
        with tf.GradientTape() as tape, product_bias_gradients(tf) if quick else nullcontext():
            tape.watch([values, bias])
            outputs = tf.square(tf.nn.bias_add(values, bias))
        return outputs, *tape.gradient(outputs, [values, bias])

    return [np.asarray(each) for each in step(values, bias)]


@pytest.mark.parametrize("shape", [(8, 5, 5, 3), (8, 3)])
def test_outputs_and_gradients_are_tensorflows(tf, shape):
    random = np.random.default_rng(0)
    values, bias = tf.constant(random.standard_normal(shape, np.float32)), tf.constant([0.5, -1.0, 2.0])
    for own, ours in zip(gradients(tf, values, bias, False), gradients(tf, values, bias, True), strict=True):
        np.testing.assert_allclose(ours, own, rtol=1e-5, atol=1e-5)


def test_tensorflow_has_its_own_back_afterwards(tf):
    own = tf.nn.bias_add
    gradients(tf, tf.ones([2, 2, 2, 3]), tf.ones([3]), True)
    assert tf.nn.bias_add is own

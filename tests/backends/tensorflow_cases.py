"""The TensorFlow backend trains as Keras' own `fit` does, and measures nothing it has not waited for.

test_tensorflow.py runs this file in a process that has that backend.
"""

from pathlib import Path

import numpy as np
import pytest
from backends.scenario import request_for, small, without_dropout
from backends.tensorflow_kernels import without_gpu_kernel

from whichdevice.base.events import reason_line
from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BATCH, STEPS = 16, 6


@pytest.fixture(scope="module")
def backend():
    started = backend_class("tensorflow")(request_for(batch_size=BATCH), threads=2)
    started.start()
    started.initialise()
    return started


@pytest.fixture
def images():
    random = np.random.default_rng(0)
    return {
        "train_images": random.integers(0, 256, (BATCH * STEPS, 28, 28), dtype=np.uint8),
        "train_labels": random.integers(0, 10, BATCH * STEPS, dtype=np.uint8),
        "test_images": random.integers(0, 256, (23, 28, 28), dtype=np.uint8),
        "test_labels": random.integers(0, 10, 23, dtype=np.uint8),
    }


@pytest.fixture
def training(backend, images):
    workload = small("mnist_cnn", Options(BATCH))
    model = without_dropout(workload.model())
    train, validation = workload.splits(images)
    return workload, model, train, validation, backend.training_loop(workload, model, train, validation)


def test_reset_brings_back_weights_and_optimiser(training):
    _, model, _, _, loop = training
    before = [value.copy() for value in model.get_weights()]
    loop.run(np.zeros((3, BATCH), np.int32))
    assert any(not np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True))
    loop.reset()
    for was, now in zip(before, model.get_weights(), strict=True):
        np.testing.assert_array_equal(was, now)
    assert int(model.optimizer.iterations) == 0


def test_a_step_of_the_models_own_with_two_optimisers_starts_anew_from_the_same_state(backend):
    workload = Model.read(str(Path(__file__).parents[1] / "models" / "gan.py")).workload(Options(BATCH))
    train, validation = workload.splits({})
    model = workload.model()
    loop = backend.training_loop(workload, model, train, validation)
    first = loop.run(np.zeros((3, BATCH), np.int32))
    assert int(model.d_optimizer.iterations) == int(model.g_optimizer.iterations) == 3
    loop.reset()
    assert int(model.d_optimizer.iterations) == int(model.g_optimizer.iterations) == 0
    assert loop.run(np.zeros((3, BATCH), np.int32)) == pytest.approx(first)
    assert loop.evaluate() is None and loop.predict(np.arange(2)).shape == (2, 0)  # it has no call


def test_a_chain_of_products_is_really_computed(backend):
    workload = Model.read("matmul").workload(Options(32))
    loop = backend.operation_loop(workload, np.random.default_rng(1))
    state, operands = workload.operands(np.random.default_rng(1))
    loop.run(7)
    loop.run(3)  # from the initial state again
    expected = state @ operands["b"] @ operands["b"] @ operands["b"]
    assert loop.ends == [pytest.approx(expected[0, 0], rel=1e-4)]


@pytest.mark.parametrize("name", ["mnist_cnn", "weather_gru", pytest.param("fashion_cnn", marks=pytest.mark.long)])
def test_steps_validation_and_prediction_compile_by_xla_as_a_tpu_needs_them(backend, images, name, monkeypatch):
    """On a CPU; shapes are static, any number of steps is one program, and nothing is learned otherwise."""
    random = np.random.default_rng(0)
    weather = {"signals": random.normal(size=(2000, 20)).astype(np.float32), "times": np.arange(2000) * 3600}
    workload = small(name, Options(4, sequence_length=60))
    train, validation = workload.splits(weather if name == "weather_gru" else images)
    model = without_dropout(workload.model())
    initial = model.get_weights()
    batches = workload.order(train.examples, 1).take(3)
    found = []
    for xla in (False, True):
        monkeypatch.setattr(type(backend), "_jit_compile", lambda self, model, xla=xla: xla)
        model.set_weights(initial)
        loop = backend.training_loop(workload, model, train, validation)
        assert backend.flags()["jit_compile"] == str(xla).lower()
        losses = [loop.run(batches[:1]).loss, loop.run(batches[1:]).loss]
        found.append([*losses, loop.evaluate().loss, *loop.predict(np.zeros(1, np.int32)).ravel()[:30]])
    np.testing.assert_allclose(found[1], found[0], rtol=2e-3, atol=1e-4)


@pytest.mark.needs("linux")  # its TensorFlow alone knows GPU kernels
@pytest.mark.parametrize("name", ["mnist_cnn", "shakespeare_lstm", "weather_gru"])
def test_no_operation_of_a_step_goes_back_to_the_host_for_lack_of_a_gpu_kernel(backend, images, name):
    random = np.random.default_rng(0)
    texts = {key: random.integers(32, 127, 2000, dtype=np.uint8) for key in ("train_text", "test_text")}
    weather = {"signals": random.normal(size=(2000, 20)).astype(np.float32), "times": np.arange(2000) * 3600}
    workload = Model.read(name).workload(Options(4, sequence_length=60))
    splits = workload.splits({"shakespeare_lstm": texts, "weather_gru": weather}.get(name, images))
    loop = backend.training_loop(workload, workload.model(), *splits)
    lacking = without_gpu_kernel(loop._steps.get_concrete_function().graph)
    assert set(lacking) <= {"ScatterNd"}  # a few flags of the sparse embedding update


def test_a_step_that_exceeds_memory_is_known_as_such_and_names_its_size(backend):
    from keras import ops

    class Greedy(Model.read("matmul").kind):
        def step(self, state, operands):
            return state + ops.sum(ops.broadcast_to(state[0, 0], (10**7, 10**7)) * ops.sum(state))

    loop = backend.operation_loop(Greedy(Options(8)), np.random.default_rng(1))
    with pytest.raises(Exception, match="OOM") as error:
        loop.run(1)
    assert backend.is_out_of_memory(error.value)
    assert reason_line(error.value).endswith("(400,000.0 GB)")


def test_float32_means_float32_products_whatever_the_device_would_take_by_default(backend):
    """XLA's program, which a TPU runs too, asks for the highest precision; with TF32 it leaves the choice open."""
    tf = backend._tf
    assert backend.flags()["tf32"] == "false"

    def program() -> str:
        product = tf.function(lambda left, right: tf.matmul(left, right), jit_compile=True, autograph=False)
        return product.experimental_get_compiler_ir(tf.ones((8, 8)), tf.ones((8, 8)))(stage="hlo")

    assert "operand_precision={highest,highest}" in program()
    assert (backend.types().product, backend.types().emulated) == ("float32", None)
    try:
        tf.config.experimental.enable_tensor_float_32_execution(True)
        assert "operand_precision" not in program()
        assert backend.types().product == "tf32"
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(False)

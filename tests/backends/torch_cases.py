"""What holds of Keras on PyTorch; test_torch.py runs this file in a process that has that backend."""

import keras
import numpy as np
import pytest
import torch
from backends.scenario import request_for
from backends.torch_scenario import LONG, STEPS, WORKLOADS, losses, training

from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options


@pytest.mark.parametrize("name", [*WORKLOADS, *(pytest.param(name, marks=pytest.mark.long) for name in LONG)])
def test_reset_brings_back_weights_optimiser_and_random_state(name):
    this = training(name)
    first = losses(this)
    assert len(set(first)) == STEPS and int(this.model.optimizer.iterations) == STEPS
    this.loop.reset()
    assert int(this.model.optimizer.iterations) == 0
    assert losses(this) == pytest.approx(first, rel=1e-6)  # dropout draws the same units again


def test_weights_loaded_into_the_model_are_the_ones_that_train_on():
    this = training("mnist_cnn", dropout=False)
    start = this.model.get_weights()
    first = losses(this)
    this.model.set_weights(start)
    this.loop.adopt()
    assert this.loop.run(this.batches[:1]).loss == pytest.approx(first[0], rel=1e-6)


def test_a_chain_of_products_is_really_computed():
    backend = backend_class("torch")(request_for(backend="torch"), threads=2)
    backend.start()
    workload = Model.read("matmul").workload(Options(32))
    loop = backend.operation_loop(workload, np.random.default_rng(1))
    state, operands = workload.operands(np.random.default_rng(1))
    loop.run(7)
    loop.run(3)  # from the initial state again
    expected = state @ operands["b"] @ operands["b"] @ operands["b"]
    np.testing.assert_allclose(loop._state.numpy(), expected, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize(
    ("precision", "storage", "product"),
    [("float32", "float32", "float32"), ("bfloat16", "bfloat16", "bfloat16"),
     ("mixed_bfloat16", "float32", "bfloat16"), ("mixed_float16", "float32", "float16"),
     ("tf32", "float32", "float32")],
)  # fmt: skip
def test_types_are_read_off_keras_and_pytorch(precision, storage, product):
    backend = backend_class("torch")(request_for(backend="torch", precision=precision), threads=2)
    try:
        backend.start()
        types = backend.types()
    finally:
        keras.config.set_dtype_policy("float32")
    assert (types.storage, types.product, types.sum) == (storage, product, "float32")
    assert (types.emulated is None) or precision != "float32"


@pytest.mark.parametrize("precision", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_narrow_formats_train(precision):
    keras.config.set_dtype_policy(precision)
    try:
        this = training("mnist_cnn", precision=precision)
        assert np.isfinite(losses(this)).all()
    finally:
        keras.config.set_dtype_policy("float32")


def test_too_large_an_array_is_out_of_memory_and_says_its_size():
    backend = backend_class("torch")(request_for(backend="torch"), threads=2)
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert backend.is_out_of_memory(caught.value)
    assert "4000000000000000" in str(caught.value).partition("\n")[0]
    assert not backend.is_out_of_memory(RuntimeError("shapes do not match"))
    assert backend.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."))

"""What holds of Keras on PyTorch; test_torch.py runs this file in a process that has that backend."""

import json
import re
import socket
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import torch
from backends.scenario import REQUEST, arrays_for, without_dropout
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from whichdevice.backends import backend_class, torch_graph
from whichdevice.backends.torch_graph import CapturedStep, WithoutHost, scale_without_branch
from whichdevice.backends.torch_loops import build_loop
from whichdevice.backends.torch_recurrent import native_recurrence
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options, Split

BATCH, STEPS = 16, 3
LENGTHS = {"shakespeare_lstm": 12, "weather_gru": 60}
WORKLOADS = ["fashion_cnn", "mnist_cnn", "mnist_official", "shakespeare_lstm", "weather_gru"]


def request_for(workload: str, **changes) -> Request:
    values = {**REQUEST, "workload": workload, "module": workload, "backend": "torch", "batch_size": BATCH, **changes}
    return Request(**values)


def training(name: str, dropout: bool = True, **changes) -> SimpleNamespace:
    """A loop over small random data, and what it is made of."""
    request = request_for(name, **changes)
    workload = workload_class(name)(Options(BATCH, sequence_length=LENGTHS.get(name)))
    keras.utils.set_random_seed(1)
    model = workload.model() if dropout else without_dropout(workload.model())
    train, validation = workload.splits(arrays_for(name))
    told: list[str] = []
    loop = build_loop(request, workload, model, train, validation, told.append)
    batches = workload.order(train.examples, 1).take(STEPS)
    return SimpleNamespace(loop=loop, model=model, workload=workload, batches=batches, told=told, validation=validation)


def losses(this: SimpleNamespace) -> list[float]:
    """Of each step from the initial state; PyTorch's random generator belongs to all loops of a process."""
    this.loop.reset()
    return [this.loop.run(this.batches[step : step + 1]).loss for step in range(STEPS)]


def test_many_steps_in_one_call_are_the_same_as_one_by_one():
    this = training("mnist_cnn")
    together = this.loop.run(this.batches)
    this.loop.reset()
    apart = [this.loop.run(this.batches[step : step + 1]) for step in range(STEPS)]
    assert together.loss == pytest.approx(np.mean([means.loss for means in apart]), abs=1e-5)
    assert together.metric == pytest.approx(np.mean([means.metric for means in apart]), abs=1e-6)


@pytest.mark.parametrize("name", WORKLOADS)
def test_reset_brings_back_weights_optimiser_and_random_state(name):
    this = training(name)
    first = losses(this)
    assert len(set(first)) == STEPS and int(this.model.optimizer.iterations) == STEPS
    this.loop.reset()
    assert int(this.model.optimizer.iterations) == 0
    assert losses(this) == pytest.approx(first, rel=1e-6)  # dropout draws the same units again


def test_evaluation_counts_the_tail_for_what_it_is():
    this = training("mnist_cnn")
    whole = this.loop.evaluate()
    this.loop._validation = Split(this.validation.arrays, this.validation.examples, batch_size=10)  # 10 + 10 + 3
    in_parts = this.loop.evaluate()
    assert in_parts == pytest.approx(whole, rel=1e-5)
    probabilities = this.loop.predict(np.arange(23, dtype=np.int32))
    assert probabilities.dtype == np.float32
    assert whole.metric == pytest.approx((probabilities.argmax(1) == this.validation.arrays["labels"]).mean())


def test_weights_loaded_into_the_model_are_the_ones_that_train_on():
    this = training("mnist_official", dropout=False)
    start = this.model.get_weights()
    first = losses(this)
    this.model.set_weights(start)
    this.loop.adopt()
    assert this.loop.run(this.batches[:1]).loss == pytest.approx(first[0], rel=1e-6)


class Waits(TorchDispatchMode):
    """Fails on what waits for the host or copies from it: numbers read back, host numbers made into arrays."""

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        name = operation.name()
        assert name not in ("aten::_local_scalar_dense", "aten::lift_fresh"), f"the step waits for the host: {name}"
        return operation(*args, **(kwargs or {}))


class OneHotAsOnCuda(TorchFunctionMode):
    """`one_hot` reads the least and largest class back on a CPU only, to check them."""

    def __torch_function__(self, function, types, args=(), kwargs=None):
        if function is torch.nn.functional.one_hot:
            return (args[0][..., None] == torch.arange(args[1])).long()
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_step_never_waits_for_the_host(name):
    """Else no CUDA graph could hold it. Shown on a CPU: the kernels differ, what Keras calls does not."""
    this = training(name)
    index = torch.tensor(this.batches[0])
    with native_recurrence(), OneHotAsOnCuda(), WithoutHost() as without_host:
        this.loop._step(index)  # constants are made
        with Waits():
            this.loop._step(index)
    without_host.check()
    with native_recurrence(), OneHotAsOnCuda(), pytest.raises(AssertionError, match="waits for the host"), Waits():
        this.loop._step(index)


def test_a_learning_rate_that_is_an_array_changes_sgd_as_a_number_does():
    values, gradients = [torch.ones(3), torch.ones(2)], [torch.full((3,), 2.0), torch.ones(2)]
    with WithoutHost():
        torch._foreach_add_(values, gradients, alpha=-torch.tensor(0.25))
    assert values[0].tolist() == [0.5] * 3 and values[1].tolist() == [0.75] * 2


def test_a_step_that_writes_into_a_constant_is_not_captured():
    with WithoutHost() as without_host:
        for _ in range(2):
            torch.as_tensor(1.0).add_(1.0)
    with pytest.raises(RuntimeError, match="constant"):
        without_host.check()


class FakeGraph:
    """Stands for torch.cuda.CUDAGraph: replays the step that `CapturedStep` was given."""

    def replay(self) -> None:
        self.step(self.index)


@pytest.fixture
def cuda(monkeypatch):
    """CUDA's streams and graphs as the host can play them; `events` says in which order they were used."""
    events: list[str] = []
    stream = SimpleNamespace(wait_stream=lambda other: events.append("wait"))

    @contextmanager
    def graph(made, capture_error_mode):
        events.append("capture")
        yield
        events.append("captured")

    fakes = dict(
        Stream=lambda: stream, current_stream=lambda: stream, stream=lambda _: nullcontext(), CUDAGraph=FakeGraph,
        graph=graph, get_sync_debug_mode=lambda: 0, set_sync_debug_mode=lambda mode: events.append(f"sync {mode}"),
    )  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    build = CapturedStep.__init__

    def init(self, step, example):
        build(self, step, example)
        self._graph.step, self._graph.index = step, self._index

    monkeypatch.setattr(CapturedStep, "__init__", init)
    return events


def test_a_captured_step_learns_what_the_eager_one_learns(cuda):
    eager, captured = training("mnist_cnn"), training("mnist_cnn")
    captured.loop._captures = True
    assert losses(captured) == pytest.approx(losses(eager), rel=1e-6)  # warm-up left no trace, dropout included
    assert captured.told == ["cuda_graph"] and eager.told == ["eager"]
    assert cuda == ["wait", "sync error", "sync 0", "wait", "capture", "captured"]


def test_a_step_that_cannot_be_captured_runs_eagerly_and_says_why(cuda, monkeypatch):
    def refuse(step):
        raise RuntimeError("called a synchronizing CUDA operation\nlong trace")

    monkeypatch.setattr(torch_graph, "_strictly", refuse)
    eager, refused = training("mnist_cnn"), training("mnist_cnn")
    refused.loop._captures = True
    assert losses(refused) == pytest.approx(losses(eager), rel=1e-6)
    assert refused.told == ["eager, as capture failed: called a synchronizing CUDA operation"]


def test_too_little_memory_is_not_taken_for_a_failed_capture(cuda, monkeypatch):
    def exhaust(step):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(torch_graph, "_strictly", exhaust)
    this = training("mnist_cnn")
    this.loop._captures = True
    with pytest.raises(torch.OutOfMemoryError, match=r"20\.00 GiB"):
        losses(this)


def test_scaling_without_a_branch_follows_keras():
    """Over steps of which some overflow: variables, moments, counter and scale."""
    random = np.random.default_rng(0)
    sides = []
    for branchless in (False, True):
        variable = keras.Variable(np.ones(4, np.float32))
        scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.1), 8.0, dynamic_growth_steps=3)
        scaled.build([variable])
        if branchless:
            scale_without_branch(scaled)
        sides.append((scaled, variable))
    for overflow in (False, False, True, False, False, False, True, False):
        gradient = random.standard_normal(4).astype(np.float32) * (np.inf if overflow else 1)
        for scaled, variable in sides:
            with torch.no_grad():
                scaled.apply([torch.tensor(gradient)], [variable])
        for ours, keras_own in zip(*([*scaled.variables, variable] for scaled, variable in sides), strict=True):
            np.testing.assert_allclose(ours.numpy(), keras_own.numpy(), rtol=1e-6, err_msg=ours.path)


@pytest.mark.parametrize("layer", [keras.layers.LSTM, keras.layers.GRU])
@pytest.mark.parametrize("settings", [{}, {"go_backwards": True}, {"activation": "relu"}, {"use_bias": False}])
def test_recurrent_layers_of_pytorch_compute_what_those_of_keras_do(layer, settings):
    keras.utils.set_random_seed(1)
    inputs = torch.randn(3, 7, 5)
    cell = layer(4, return_sequences=True, bias_initializer="glorot_uniform", **settings)
    cell.build(inputs.shape)
    weights = [variable.value for variable in cell.trainable_variables]
    results = []
    for way in (nullcontext(), native_recurrence()):
        with way:
            output = cell(inputs)
            results.append([output, *torch.autograd.grad((output * torch.arange(4.0)).sum(), weights)])
    for keras_own, native in zip(*results, strict=True):
        torch.testing.assert_close(native, keras_own, rtol=1e-4, atol=1e-5)


def test_a_chain_of_products_is_really_computed():
    backend = backend_class("torch")(request_for("mnist_cnn"), threads=2)
    backend.start()
    workload = workload_class("matmul")(Options(32))
    loop = backend.operation_loop(workload, np.random.default_rng(1))
    state, operands = workload.operands(np.random.default_rng(1))
    loop.run(7)
    loop.run(3)  # from the initial state again
    expected = state @ operands["b"] @ operands["b"] @ operands["b"]
    np.testing.assert_allclose(loop._state.numpy(), expected, rtol=1e-3, atol=1e-4)


def test_short_products_replay_a_graph_and_give_the_same(cuda):
    backend = backend_class("torch")(request_for("mnist_cnn"), threads=2)
    backend.start()
    workload = workload_class("matmul")(Options(32))
    loop = backend.operation_loop(workload, np.random.default_rng(1))
    loop.run(47)
    expected = loop._state
    loop._captures = True
    loop.run(5)
    loop.run(47)  # 2 × 20 in the graph, 7 beside it
    torch.testing.assert_close(loop._state, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("precision", "storage", "product"),
    [("float32", "float32", "float32"), ("bfloat16", "bfloat16", "bfloat16"),
     ("mixed_bfloat16", "float32", "bfloat16"), ("mixed_float16", "float32", "float16"),
     ("tf32", "float32", "float32")],
)  # fmt: skip
def test_types_are_read_off_keras_and_pytorch(precision, storage, product):
    backend = backend_class("torch")(request_for("mnist_cnn", precision=precision), threads=2)
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
    backend = backend_class("torch")(request_for("mnist_cnn"), threads=2)
    with pytest.raises(RuntimeError) as caught:
        torch.empty(10**15)
    assert backend.is_out_of_memory(caught.value)
    assert "4000000000000000" in str(caught.value).partition("\n")[0]
    assert not backend.is_out_of_memory(RuntimeError("shapes do not match"))
    assert backend.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."))


def test_a_profile_names_neither_host_nor_user_nor_path(tmp_path):
    backend = backend_class("torch")(request_for("mnist_cnn"), threads=2)
    backend.start()
    this = training("mnist_cnn")
    with backend.trace(tmp_path / "profile"):
        this.loop.run(this.batches[:1])
    (file,) = (tmp_path / "profile").iterdir()
    text = file.read_text()
    assert any("conv" in event.get("name", "") for event in json.loads(text)["traceEvents"])
    assert not re.search(rf"\b{re.escape(socket.gethostname())}\b", text)
    assert str(tmp_path) not in text and f"{Path.home()}/" not in text

"""Steps as CUDA graphs, with a host that plays CUDA; test_torch.py runs this file with Keras on PyTorch."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import keras
import numpy as np
import pytest
import torch
from backends.torch_scenario import WORKLOADS, losses, request_for, training
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from whichdevice.backends import backend_class, torch_graph
from whichdevice.backends.torch_graph import CapturedStep, WithoutHost, scale_without_branch
from whichdevice.backends.torch_recurrent import native_recurrence
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options


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


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB."),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
)
def test_too_little_memory_is_not_taken_for_a_failed_capture(cuda, monkeypatch, error):
    def exhaust(step):
        raise error

    monkeypatch.setattr(torch_graph, "_strictly", exhaust)
    this = training("mnist_cnn")
    this.loop._captures = True
    with pytest.raises(type(error)) as caught:
        losses(this)
    operation = operation_loop("matmul", 32)
    with pytest.raises(type(error)) as caught_of_operation:
        operation.run(1)
        operation.run(20)
    assert caught.value is caught_of_operation.value is error


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


def operation_loop(name, size, captures=True):
    """A repeated operation on the CPU, as if that were a GPU."""
    backend = backend_class("torch")(request_for("mnist_cnn"), threads=2)
    backend.start()
    loop = backend.operation_loop(workload_class(name)(Options(size)), np.random.default_rng(1))
    loop._captures = captures
    return loop


@pytest.mark.parametrize(("name", "size", "steps"), [("matmul", 32, 47), ("memory_stream", 1, 407)])
def test_short_steps_replay_a_graph_and_give_the_same(cuda, name, size, steps):
    eager, loop = operation_loop(name, size, captures=False), operation_loop(name, size)
    told = ["eager"]
    loop._tell = told.append
    eager.run(steps)
    for _ in range(2):
        loop.run(1)
        assert loop._many is None  # the cold step has no graph, nor has the first window
    loop.run(steps)  # two graphs, and 7 steps beside them
    assert loop._many is not None and told == ["eager", "cuda_graph"]
    loop.run(5)  # too short for one
    loop.run(steps)
    torch.testing.assert_close(loop._state, eager._state, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("name", "size", "steps"), [("matmul", 32, 19), ("memory_stream", 1, 199)])
def test_where_two_windows_of_several_steps_are_shorter_than_a_graph_none_is_ever_made(cuda, name, size, steps):
    """Its steps are long, and a later capture could fall into a window that counts."""
    loop = operation_loop(name, size)
    for count in (1, 1, steps, steps, 407):
        loop.run(count)
    assert loop._many is None and cuda == []


def test_one_window_cut_short_by_a_hiccup_before_it_keeps_no_graph_away(cuda):
    loop = operation_loop("memory_stream", 1)
    for count in (1, 1, 199, 407):
        loop.run(count)
    assert loop._many is not None


def test_a_stream_that_leaves_no_memory_for_a_graph_runs_eagerly(cuda, monkeypatch):
    def exhaust(step):
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")

    monkeypatch.setattr(torch_graph, "_strictly", exhaust)
    eager, loop = operation_loop("memory_stream", 1, captures=False), operation_loop("memory_stream", 1)
    told = []
    loop._tell = told.append
    for each in (eager, loop):
        each.run(1)
        each.run(407)
    assert told == ["eager, as capture failed: CUDA out of memory. Tried to allocate 20.00 GiB."]
    torch.testing.assert_close(loop._state, eager._state)


class Moved(TorchDispatchMode):
    """Counts the numbers that copies move, and those that passes over memory do."""

    def __init__(self):
        super().__init__()
        self.copied = self.passed = 0

    def __torch_dispatch__(self, operation, types, args=(), kwargs=None):
        result = operation(*args, **(kwargs or {}))
        if operation.name() == "aten::copy_":
            self.copied += 2 * result.numel()
        elif operation.name() in ("aten::sub.Tensor", "aten::rsub.Tensor"):
            self.passed += 3 * result.numel()
        return result


def test_a_graph_of_passes_over_memory_moves_next_to_nothing_that_is_not_counted(cuda):
    loop = operation_loop("memory_stream", 1)
    loop.run(1)
    loop.run(200)  # captured
    with Moved() as moved:
        loop.run(400)
    assert moved.passed == 400 * 3 * loop._initial.numel()
    assert 0 < moved.copied < 0.004 * moved.passed

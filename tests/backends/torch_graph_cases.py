"""An operation as a CUDA graph, with a host that plays CUDA; test_torch.py runs this file with Keras on PyTorch."""

from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from backends.scenario import request_for

from whichdevice.measure.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options


class FakeGraph:
    """Stands for torch.cuda.CUDAGraph: replays the steps of the operation that it is of."""

    def replay(self) -> None:
        self.steps()


@pytest.fixture
def cuda(monkeypatch):
    """CUDA's streams and graphs as the host can play them; `events` has the order in which they were used."""
    events: list[str] = []
    stream = SimpleNamespace(wait_stream=lambda other: events.append("wait"))

    @contextmanager
    def graph(made):
        if "exhausted" in events:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 GiB.")
        events.append("capture")
        yield
        events.append("captured")

    fakes = dict(
        Stream=lambda: stream, current_stream=lambda: stream, stream=lambda _: nullcontext(), CUDAGraph=FakeGraph,
        graph=graph,
    )  # fmt: skip
    for name, fake in fakes.items():
        monkeypatch.setattr(torch.cuda, name, fake)
    return events


def operation_loop(name, size, captures=True):
    """A repeated operation on the CPU, as if that were a GPU."""
    backend = backend_class("torch")(request_for(backend="torch"), threads=2)
    backend.start()
    loop = backend.operation_loop(Model.read(name).workload(Options(size)), np.random.default_rng(1))
    loop._captures, FakeGraph.steps = captures, lambda _: loop._several()
    return loop


@pytest.mark.parametrize(("name", "size", "steps"), [("matmul", 32, 47), ("memory_stream", 1, 407)])
def test_short_steps_replay_a_graph_and_give_the_same(cuda, name, size, steps):
    eager, loop = operation_loop(name, size, captures=False), operation_loop(name, size)
    told = ["eager"]
    loop._report_steps = told.append
    eager.run(steps)
    for _ in range(2):
        loop.run(1)
        assert loop._many is None  # the cold step has no graph, nor has the first window
    loop.run(steps)  # two graphs, and 7 steps beside them
    assert loop._many is not None and told == ["eager", "cuda_graph"]
    loop.run(5)  # too short for one
    loop.run(steps)
    torch.testing.assert_close(loop._state, eager._state, rtol=1e-4, atol=1e-5)


def test_a_stream_that_leaves_no_memory_for_a_graph_runs_eagerly(cuda):
    cuda.append("exhausted")
    eager, loop = operation_loop("memory_stream", 1, captures=False), operation_loop("memory_stream", 1)
    told = []
    loop._report_steps = told.append
    for each in (eager, loop):
        each.run(1)
        each.run(407)
    assert told == ["eager, as capture failed: CUDA out of memory. Tried to allocate 20.00 GiB."]
    torch.testing.assert_close(loop._state, eager._state)


def test_products_that_leave_no_memory_for_a_graph_are_out_of_memory(cuda):
    cuda.append("exhausted")
    loop = operation_loop("matmul", 32)
    loop.run(1)
    with pytest.raises(torch.OutOfMemoryError):
        loop.run(20)

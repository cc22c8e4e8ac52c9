"""Why a run ended, from messages as the frameworks gave them (TensorFlow 2.21, JAX 0.10, PyTorch 2.13, NumPy 2.4)."""

import pytest
from beside import beside

from whichdevice.base.events import reason_line
from whichdevice.measure.run_end import with_what_was_asked

BESIDE = beside(__file__)

DEVICE = "/job:localhost/replica:0/task:0/device:CPU:0"
GRAPH = (
    "Graph execution error:\n\nDetected at node random_uniform/RandomUniform defined at (most recent call last):\n"
    '  File "own.py", line 16, in <module>\n\n  File "own.py", line 15, in step\n\n'
    f"OOM when allocating tensor with shape[10000,10000] and type half on {DEVICE} by allocator mklcpu\n"
    "\t [[{{node random_uniform/RandomUniform}}]]\nHint: If you want to see a list of tensors [Op:__inference]"
)
OOM = "OOM when allocating tensor with shape[10000,10000] and type"


@pytest.mark.parametrize(("message", "line"), BESIDE["the line that names the size is kept"])
def test_the_line_that_names_the_size_is_kept(message: str, line: str) -> None:
    assert reason_line(RuntimeError(message)) == f"RuntimeError: {line}"


def test_a_failed_graph_says_what_failed_and_not_where() -> None:
    message = GRAPH.replace(GRAPH[GRAPH.index("OOM") :], "indices[3] = 70 is not in [0, 60)\n\t [[{{node gather}}]]")
    assert reason_line(ValueError(message)) == "ValueError: indices[3] = 70 is not in [0, 60)"


def fields(kind: str, **machine: int) -> dict:
    asked = {"kind": kind, "batch_size": 512}
    return {"asked": asked, "workload": {"estimated_memory": 2.5e9}, "machine": machine}


def test_the_batch_and_the_estimate_stand_beside_a_message_that_names_no_size() -> None:
    assert with_what_was_asked("killed", fields("cpu")) == "killed; batch_size 512, expected to need 2.5 GB (estimate)"
    assert with_what_was_asked(None, {"asked": {"kind": "cpu", "batch_size": 8}}) == "out of memory; batch_size 8"


def test_another_process_that_holds_the_gpu_is_pointed_out() -> None:
    alone = fields("gpu", device_memory=80 * 10**9, device_memory_free=79 * 10**9)
    assert with_what_was_asked("OOM", alone) == "OOM; batch_size 512"
    shared = fields("gpu", device_memory=80 * 10**9, device_memory_free=5 * 10**9)
    assert with_what_was_asked("OOM", shared) == (
        "OOM; batch_size 512; before the run 5.0 of the GPU's 80.0 GB were free: end what holds the rest "
        "(nvidia-smi names it)"
    )

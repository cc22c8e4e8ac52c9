"""The PyTorch backend: its start, its devices and its ranks. What Keras does on it is in torch_cases.py, what a GPU's
graph of an operation does in torch_graph_cases.py."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from backends import scenario
from backends.cases import run_cases

from whichdevice.base.errors import StudyError
from whichdevice.measure.backends import backend_class
from whichdevice.measure.record import Request

pytestmark = pytest.mark.needs("torch")


def request_for(**changes) -> Request:
    return scenario.request_for(backend="torch", **changes)


def variables_for(**changes) -> dict[str, str]:
    return {**os.environ, **scenario.variables_for(request_for(**changes)), "PYTHONPATH": scenario.PATH}


@pytest.mark.parametrize(
    "which", [pytest.param("not long", marks=pytest.mark.slow), pytest.param("long", marks=pytest.mark.long)]
)
def test_cases_in_a_process_with_keras_on_pytorch(which):
    run_cases(variables_for(), which, "backends/torch_cases.py", "backends/torch_graph_cases.py")


def test_a_build_without_cuda_is_said_in_one_line(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    monkeypatch.setattr("torch.version.cuda", None)
    with pytest.raises(StudyError, match=r"h200: PyTorch .* is built without CUDA; make study ENV=torch"):
        torch_devices.require_devices(request_for(kind="gpu", device="h200"))


def test_too_few_gpus_are_said_in_one_line(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    monkeypatch.setattr("torch.version.cuda", "13.0")
    monkeypatch.setattr("torch.cuda.device_count", lambda: 1)
    monkeypatch.setattr(torch_devices.gpu, "absent_reason", lambda replicas: None)
    with pytest.raises(StudyError, match=r"h200: PyTorch .* finds 1 of 2 GPUs on this host"):
        torch_devices.require_devices(request_for(kind="gpu", device="h200", replicas=2))


def test_a_driver_that_is_too_old_is_said_in_pytorchs_words(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    def refuse(rank):
        raise RuntimeError("The NVIDIA driver on your system is too old (found version 11040). Please update.\nMore")

    monkeypatch.setattr("torch.cuda.set_device", refuse)
    monkeypatch.setattr("torch.set_num_threads", lambda threads: None)
    with pytest.raises(StudyError, match=r"PyTorch .* cannot use the GPU: The NVIDIA driver .* too old .*update\.$"):
        torch_devices.take_device(request_for(kind="gpu", device="h200"), 0, 2)


@pytest.mark.parametrize(
    "message",
    [
        "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
        "CUDA error: out of memory",
        "[enforce fail at alloc_cpu.cpp:113] DefaultCPUAllocator: can't allocate memory: you tried to allocate 4 bytes",
    ],
)
def test_a_gpu_that_another_process_fills_is_out_of_memory(message):
    backend = backend_class("torch")(request_for(kind="gpu"), 2)
    assert backend.is_out_of_memory(RuntimeError(message))
    assert not backend.is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED"))


def test_a_tpu_is_refused(monkeypatch):
    from whichdevice.measure.backends import torch_devices

    with pytest.raises(StudyError, match="runs PyTorch on CPU and GPU, not on tpu"):
        torch_devices.require_devices(request_for(kind="tpu"))


@pytest.mark.slow
def test_ranks_share_threads_add_up_their_memory_and_fail_in_their_own_words(tmp_path):
    """Each runs its own product."""
    told = in_process(
        tmp_path,
        """
        from whichdevice.models.loading import Model
        from whichdevice.models.workloads.base import Options
        import numpy as np
        loop = backend.operation_loop(Model.read("matmul").workload(Options(64)), np.random.default_rng(1))
        loop.run(3)
        from whichdevice.base.memory import peak_memory
        own, of_all = peak_memory(), backend.peak_host_memory()
        tell(backend.flags()["threads"], len(ranks), of_all > 1.1 * own)
        try:
            backend._team.together("operation", lambda: None, 1, 2, 3)
        except Exception as error:
            tell(type(error).__name__, error)
        """,
    )
    facts, wrong = told.stdout.splitlines()[:2]
    assert facts.split() == ["1", "1", "True"]
    assert wrong.startswith("ReplicaError replica 1: AttributeError: 'int' object has no attribute 'operands'")


@pytest.mark.slow
def test_ranks_end_with_rank_0_however_it_dies(tmp_path):
    process = in_process(tmp_path, "tell(*ranks)\nimport time; time.sleep(60)", wait=False, replicas=3)
    ranks = [int(word) for word in process.stdout.readline().split()]
    assert len(ranks) == 2 and all(alive(rank) for rank in ranks)
    process.kill()
    process.wait()
    deadline = time.monotonic() + 10
    while any(alive(rank) for rank in ranks) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(alive(rank) for rank in ranks)


@pytest.mark.slow
def test_a_killed_rank_is_lack_of_memory(tmp_path):
    told = in_process(
        tmp_path,
        """
        import os, signal, numpy as np
        from whichdevice.models.loading import Model
        from whichdevice.models.workloads.base import Options
        loop = backend.operation_loop(Model.read("matmul").workload(Options(64)), np.random.default_rng(1))
        os.kill(ranks[0], signal.SIGKILL)
        try:
            loop.run(3)
        except Exception as error:
            tell(backend.is_out_of_memory(error), error)
        """,
    )
    assert told.stdout.strip() == "True replica 1 was killed, most likely for lack of memory"


def in_process(folder: Path, body: str, wait: bool = True, replicas: int = 2):
    """Run code in a process where `backend` is initialised with replicas whose process numbers are `ranks`."""
    request = json.dumps(request_for(replicas=replicas).model_dump())
    script = folder / "script.py"
    lines = "\n".join(line.removeprefix("        ") for line in body.splitlines())
    script.write_text(
        "import json\n"
        "from whichdevice.measure.backends import backend_class\n"
        "from whichdevice.measure.record import Request\n"
        f"backend = backend_class('torch')(Request(**json.loads({request!r})), threads=2)\n"
        "backend.start()\nbackend.initialise()\n"
        "ranks = backend._team.pids()\n"
        "def tell(*words): print(*words, flush=True)\n" + lines + "\n"
    )
    environment = variables_for(replicas=replicas)
    command = [sys.executable, str(script)]
    if not wait:
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    return done


def alive(process: int) -> bool:
    """Whether it runs; one that waits to be reaped does not."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{process}/stat")
    return not status.exists() or status.read_text().rpartition(")")[2].split()[0] != "Z"

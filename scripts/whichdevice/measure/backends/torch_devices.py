"""Take the devices of a PyTorch run, connect its ranks, and find out whether what runs there can be compiled."""

from collections.abc import Callable
from typing import Any

import torch
from torch import distributed

from whichdevice.base.errors import StudyError, lacks_memory
from whichdevice.measure.backends.base import Forward
from whichdevice.measure.machine import gpu
from whichdevice.measure.record import Request
from whichdevice.models.shapes import mapped


def require_devices(request: Request) -> None:
    """Raises StudyError where there are fewer than replicas; makes no context, so that ranks can still be forked."""
    if request.kind not in ("cpu", "gpu"):
        raise StudyError(f"{request.device}: this version runs PyTorch on CPU and GPU, not on {request.kind}")
    if request.kind == "cpu":
        return
    version = torch.__version__
    if torch.version.cuda is None:
        raise StudyError(
            f"{request.device}: PyTorch {version} is built without CUDA; make study ENV=torch installs one with it"
        )
    if (count := torch.cuda.device_count()) < request.replicas:
        seen = f"PyTorch {version} finds {count} of {request.replicas} GPUs on this host"
        raise StudyError(f"{request.device}: {gpu.absent_reason(request.replicas) or seen}")


def take_device(request: Request, rank: int, threads: int) -> None:
    """Threads divided over the ranks; the rank's GPU with its context. Raises StudyError where CUDA refuses."""
    torch.set_num_threads(max(1, threads // request.replicas))
    if request.kind != "gpu":
        return
    try:
        torch.cuda.set_device(rank)
        torch.zeros(1, device="cuda")
    except RuntimeError as error:  # among others a driver that is too old, which PyTorch words well
        if is_out_of_memory(error):
            raise
        first = str(error).strip().partition("\n")[0]
        raise StudyError(f"{request.device}: PyTorch {torch.__version__} cannot use the GPU: {first}") from error


def works_compiled(first: Callable[[], object], report_steps: Callable[[str], None]) -> bool:
    """Make the first call of a compiled program and report how steps run; False where `torch.compile` cannot do it."""
    try:
        first()
    except Exception as error:  # what runs is the workload's; the eager way raises again what is wrong in it
        if is_out_of_memory(error):
            raise
        report_steps(f"eager, as torch.compile failed: {str(error).strip().partition(chr(10))[0]}")
        return False
    report_steps("torch.compile")
    return True


def forward_pass(
    predicted: Callable[[Any], Any],
    place: Callable[[Any], Any],
    program: Callable[[Any], Any] | None,
    report_steps: Callable[[str], None],
) -> Forward:
    """`predicted` without gradients, of NumPy inputs that `place` moves to the device.

    `program` is the same, compiled, and taken where PyTorch can run it; None: operation by operation.
    """
    way: Callable[[Any], Any] | None = None

    def compiled(inputs: Any) -> Any:
        torch.compiler.cudagraph_mark_step_begin()
        assert program is not None
        return program(inputs)

    @torch.no_grad()
    def forward(inputs: Any) -> Any:
        nonlocal way
        placed = mapped(lambda leaf: place(torch.from_numpy(leaf)), inputs)
        if way is None and program is None:
            report_steps("eager")
            way = predicted
        elif way is None:
            way = compiled if works_compiled(lambda: compiled(placed), report_steps) else predicted
        return mapped(lambda leaf: leaf.cpu().numpy(), way(placed))

    return forward


def join_ranks(request: Request, rank: int, folder: str) -> None:
    """Connect a rank with the others through a file in `folder`: NCCL between GPUs, Gloo between CPU processes."""
    store = distributed.FileStore(f"{folder}/ranks", request.replicas)
    library = "nccl" if request.kind == "gpu" else "gloo"
    distributed.init_process_group(library, store=store, rank=rank, world_size=request.replicas)
    distributed.barrier()


def is_out_of_memory(error: BaseException) -> bool:
    """Host or device memory, in Python's, CUDA's and PyTorch's words, here or of another rank."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and lacks_memory(error)

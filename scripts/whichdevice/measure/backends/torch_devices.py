"""Take the device of a PyTorch run, and run forward passes there."""

from collections.abc import Callable
from typing import Any

import torch

from whichdevice.base.errors import StudyError, lacks_memory
from whichdevice.measure.backends.base import Forward
from whichdevice.measure.machine import gpu
from whichdevice.measure.record import Request
from whichdevice.models.shapes import mapped


def require_device(request: Request) -> None:
    """Raise StudyError where PyTorch has no such device here."""
    if request.kind not in ("cpu", "gpu"):
        raise StudyError(f"{request.device}: this version runs PyTorch on CPU and GPU, not on {request.kind}")
    if request.kind == "cpu":
        return
    version = torch.__version__
    if torch.version.cuda is None:
        raise StudyError(
            f"{request.device}: PyTorch {version} is built without CUDA; make study ENV=torch installs one with it"
        )
    if not torch.cuda.device_count():
        raise StudyError(f"{request.device}: {gpu.absent_reason() or f'PyTorch {version} finds no GPU on this host'}")


def take_device(request: Request, threads: int) -> None:
    """Set the number of threads; make a GPU's context. Raises StudyError where CUDA refuses."""
    torch.set_num_threads(threads)
    if request.kind != "gpu":
        return
    try:
        torch.zeros(1, device="cuda")
    except RuntimeError as error:  # among others a driver that is too old, which PyTorch words well
        if is_out_of_memory(error):
            raise
        first = str(error).strip().partition("\n")[0]
        raise StudyError(f"{request.device}: PyTorch {torch.__version__} cannot use the GPU: {first}") from error


def forward_pass(predicted: Callable[[Any], Any], place: Callable[[Any], Any]) -> Forward:
    """`predicted` without gradients, of NumPy inputs that `place` moves to the device."""

    @torch.no_grad()
    def forward(inputs: Any) -> Any:
        placed = mapped(lambda leaf: place(torch.from_numpy(leaf)), inputs)
        return mapped(lambda leaf: leaf.cpu().numpy(), predicted(placed))

    return forward


def is_out_of_memory(error: BaseException) -> bool:
    """Whether it was host or device memory, in Python's, CUDA's or PyTorch's words."""
    if isinstance(error, MemoryError | torch.OutOfMemoryError):
        return True
    return isinstance(error, RuntimeError) and lacks_memory(error)

"""A training step as one CUDA graph: captured once, replayed with other batches, nothing of Python in between.

PyTorch's documentation, "CUDA Graphs", asks for a warm-up on a side stream and no wait for the host within the step.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.overrides import TorchFunctionMode

WARM_UP_STEPS = 3  # cuDNN tries its algorithms, cuBLAS takes its workspace, NCCL connects
SMALL = 4096  # bytes of a constant worth keeping


class WithoutHost(TorchFunctionMode):
    """Keeps a step free of waits for the host: numbers become constants kept on the device.

    Keras writes host numbers into formulas (`convert_to_tensor(0.9)`), each a copy that waits, and its SGD hands
    PyTorch the learning rate as a host number (`alpha`); a graph could hold neither.
    """

    def __init__(self) -> None:
        super().__init__()
        self._constants: dict[tuple, Any] = {}

    def __torch_function__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        """Called by PyTorch in place of each of its functions."""
        kwargs = kwargs or {}
        if function in (torch.as_tensor, torch.tensor) and (value := _bytes(args)) is not None:
            key = (*value, str(kwargs.get("dtype")), str(kwargs.get("device")))
            if key not in self._constants:
                self._constants[key] = function(*args, **kwargs)
            return self._constants[key]
        if function is torch._foreach_add_ and isinstance(kwargs.get("alpha"), torch.Tensor):
            return function(args[0], torch._foreach_mul(list(args[1]), kwargs["alpha"]))
        return function(*args, **kwargs)

    def check(self) -> None:
        """Raises RuntimeError where a step wrote into a constant, which the next step would find changed."""
        if any(constant._version for constant in self._constants.values()):
            raise RuntimeError("the step changes a constant in place")


def _bytes(args: tuple) -> tuple | None:
    """Type, shape and bytes of a host number or small array; None for anything else."""
    if len(args) != 1 or not isinstance(args[0], bool | int | float | np.ndarray | np.generic):
        return None
    array = np.asarray(args[0])
    return (type(args[0]), array.dtype.str, array.shape, array.tobytes()) if array.nbytes <= SMALL else None


class CapturedStep:
    """A step (index on the device, in place) as a CUDA graph; raises whatever its capture raises.

    Building it runs the step a few times on `example`: the caller puts every state back afterwards.
    """

    def __init__(self, step: Callable[[Any], None], example: Any) -> None:
        self._index = example.clone()
        self._without_host = WithoutHost()  # holds the constants that the graph reads
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side), self._without_host:
            for _ in range(WARM_UP_STEPS):
                step(self._index)
            _strictly(lambda: step(self._index))
        torch.cuda.current_stream().wait_stream(side)
        self._graph = torch.cuda.CUDAGraph()
        with self._without_host, torch.cuda.graph(self._graph, capture_error_mode="thread_local"):
            step(self._index)
        self._without_host.check()

    def __call__(self, index: Any) -> None:
        """Run the step on another batch; returns before the device has finished."""
        self._index.copy_(index)
        self._graph.replay()


def _strictly(step: Callable[[], None]) -> None:
    """Run once with every wait for the host an error: a capture that fails half-way may leave CUDA unusable."""
    before = torch.cuda.get_sync_debug_mode()
    torch.cuda.set_sync_debug_mode("error")
    try:
        step()
    finally:
        torch.cuda.set_sync_debug_mode(before)


def scale_without_branch(optimizer: Any) -> None:
    """Give a built Keras LossScaleOptimizer an `apply` that decides on the device whether the step counts.

    Keras' own asks the host whether all gradients are finite. The rules are the same: where they are not, nothing
    but the scale changes, which halves; it doubles after `dynamic_growth_steps` finite steps.
    """
    inner, counter, scale = optimizer.inner_optimizer, optimizer.step_counter.value, optimizer.dynamic_scale.value

    def apply(gradients: list[Any], variables: list[Any]) -> None:
        present = [gradient for gradient in gradients if gradient is not None]
        finite = torch.stack([gradient.isfinite().all() for gradient in present]).all()
        changed = [variable.value for variable in (*variables, *inner.variables)]
        before = [value.clone() for value in changed]
        inner.apply([None if gradient is None else gradient / scale for gradient in gradients], variables)
        for value, old in zip(changed, before, strict=True):
            value.copy_(torch.where(finite, value, old))
        grown = finite & (counter == optimizer.dynamic_growth_steps - 1)
        scale.copy_(torch.where(finite, torch.where(grown, scale * 2, scale), scale / 2))
        counter.copy_(torch.where(finite & ~grown, counter + 1, torch.zeros_like(counter)))

    optimizer.apply = apply

"""Answers what a PyTorch script asks of devices and values while it is recorded.

    answer(watching)    # in the script's thread, and in those that it begins

Tensors that it sends to a GPU stay on the CPU; the recorder knows them, unless it rests. A tensor without values has
ones.
"""

import threading
from collections.abc import Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from whichdevice.models.script.torch_fakes import SET_DATA, has_fake, is_fake
from whichdevice.models.script.torch_names import on_cpu

LARGE_TENSOR = 2**28  # bytes of a tensor that has no values once it is on the GPU
CHANGES = ("add_", "sub_", "mul_", "copy_", "__iadd__", "__isub__", "__imul__")
ON_GPU: Mapping[Any, Any] = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.get_device: 0}  # type: ignore[attr-defined]


class Answers(TorchFunctionMode):
    """Answers what a script asks of devices and of values in any call of PyTorch."""

    def __init__(self, watching: Any) -> None:
        super().__init__()
        self._watching, self._recorder = watching, watching.recorder

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function of PyTorch, with the CPU in place of a GPU."""
        if function.__name__ == "__get__" and function not in ON_GPU:  # of a shape or a type: a quarter of all calls
            with torch._C.DisableTorchFunction():
                return function(*args)
        try:
            return self._called(function, args, dict(kwargs or {}))
        except Exception:
            self._watching.fails()
            raise

    def _called(self, function: Any, args: Any, named: dict[str, Any]) -> Any:
        name = getattr(function, "__name__", "")
        if function is torch.device:
            with torch._C.DisableTorchFunction():  # it stays a GPU's by name
                return torch.device("cuda", *args) if [*map(type, args)] == [int] else torch.device(*args, **named)
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if name == "pin_memory" and first is not None:
            return first
        named.pop("pin_memory", None)
        if name == "to" and len(args) > 1 and type(args[1]) is int:
            args = (first, "cuda", *args[2:])
        given = args
        args, kwargs = on_cpu(args, named)
        goes = args is not given or kwargs is not named  # to the GPU
        if name == "cuda" and first is not None:
            return first if self._recorder.resting else self._on_gpu(first)
        if self._recorder.resting:
            return function(*args, **kwargs)
        if function in ON_GPU:
            return ON_GPU[function]
        if name in CHANGES or function == SET_DATA:
            self._watching.changes(first)
        if has_fake(args) or has_fake(kwargs.values()):
            return self._without_values(function, name, args, kwargs)
        if goes and first is None:
            with self._recorder.fakes.mode:
                made = function(*args, **kwargs)
            if isinstance(made, torch.Tensor) and made.nbytes > LARGE_TENSOR:
                self._recorder.hold(made)
                return made
        made = function(*args, **kwargs)
        return tree_map_only(torch.Tensor, self._on_gpu, made) if goes else made

    def _on_gpu(self, tensor: torch.Tensor) -> torch.Tensor:
        """Return a tensor that is sent to the GPU, a large one without values."""
        if tensor.layout != torch.strided or tensor.device.type == "meta":
            return tensor
        if tensor.nbytes > LARGE_TENSOR and not is_fake(tensor) and not tensor.requires_grad:
            tensor = self._recorder.fakes.like(tensor)
        if tensor.dim() and not self._recorder.is_held(tensor):
            self._recorder.note_given(tensor)
        self._recorder.hold(tensor)
        return tensor

    def _without_values(self, function: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function of a tensor without values."""
        if name == "__deepcopy__":
            return self._copied(*args[:2])
        if name == "share_memory_":
            return args[0]
        return function(*args, **kwargs)

    def _copied(self, tensor: Any, known: dict[int, Any]) -> Any:
        if id(tensor) not in known:
            made = self._recorder.fakes.like(tensor)
            if isinstance(tensor, torch.nn.Parameter):
                made = self._watching.weight(torch.nn.Parameter(made, tensor.requires_grad))
            known[id(tensor)] = made
        return known[id(tensor)]


def answer(watching: Any) -> None:
    """Answer what this thread asks, which does not end, and each one that begins: libraries load weights in some."""
    Answers(watching).__enter__()
    run = threading.Thread.run

    def answered(thread: threading.Thread) -> None:
        with Answers(watching):
            run(thread)

    watching.replace(threading.Thread, "run", answered)

"""Max-pooling, dropout and the layout of convolutions for PyTorch on CPUs.

The gradient of PyTorch's pooling copies arrays from one layout to another. Where
windows do not overlap, comparing each of a window's places with its maximum gives the same gradient (the first of equal
ones takes it). PyTorch draws dropout masks on one core, a number per element; here four elements share a 64-bit number.
Of images with one channel PyTorch takes the layout for channels first; all that follows would work on strided views.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

from whichdevice.backends.keras_functions import LEVELS, dropped_levels, whole_windows
from whichdevice.replacing import replaced

ELEMENTS_A_WORD = 4


@contextmanager
def quick_kernels() -> Iterator[None]:
    """While it lasts, steps have these; Keras' own come back after it."""
    with ExitStack() as stack:
        layouts = {"conv": _conv, "_transpose_spatial_inputs": _channels_first}
        stack.enter_context(replaced("keras.src.backend.torch.nn", max_pool=_max_pool, **layouts))
        stack.enter_context(replaced("keras.src.backend.torch.random", dropout=_dropout))
        yield


def _max_pool(own: Callable[..., Any]) -> Callable[..., Any]:
    def max_pool(
        inputs: Any, pool_size: Any, strides: Any = None, padding: str = "valid", data_format: str | None = None
    ) -> Any:
        windows = whole_windows(inputs, pool_size, strides, padding, data_format)
        if windows is None or inputs.device.type != "cpu":
            return own(inputs, pool_size, strides, padding, data_format)
        rows, columns = (extent // step * step for extent, step in zip(inputs.shape[1:3], windows, strict=True))
        return WindowMaximum.apply(inputs[:, :rows, :columns], *windows)

    return max_pool


class WindowMaximum(torch.autograd.Function):
    """Maxima of windows of `rows` × `columns` of [batch, rows, columns, channels]."""

    @staticmethod
    def forward(context: Any, inputs: Any, rows: int, columns: int) -> Any:
        """Keeps inputs and maxima."""
        context.windows = rows, columns
        places = [inputs[:, row::rows, column::columns] for row in range(rows) for column in range(columns)]
        largest = places[0].clone()
        for place in places[1:]:
            torch.maximum(largest, place, out=largest)
        context.save_for_backward(inputs, largest)
        return largest

    @staticmethod
    def backward(context: Any, *gradients: Any) -> tuple[Any, None, None]:
        """The first largest of each window takes the gradient."""
        inputs, largest = context.saved_tensors
        rows, columns = context.windows
        spread, taken = torch.empty_like(inputs), torch.zeros_like(largest, dtype=torch.bool)
        for row in range(rows):
            for column in range(columns):
                first = (inputs[:, row::rows, column::columns] == largest).logical_and_(taken.logical_not())
                taken.logical_or_(first)
                torch.mul(gradients[0], first, out=spread[:, row::rows, column::columns])
        return spread, None, None


def _channels_first(own: Callable[..., Any]) -> Callable[..., Any]:
    """A view instead of Keras' copy: PyTorch's convolutions take either layout."""
    return lambda inputs: inputs.permute(0, 3, 1, 2) if inputs.ndim == 4 else own(inputs)


def _conv(own: Callable[..., Any]) -> Callable[..., Any]:
    def conv(inputs: Any, *arguments: Any, **named: Any) -> Any:
        outputs = own(inputs, *arguments, **named)
        return outputs.contiguous() if outputs.device.type == "cpu" else outputs

    return conv


def _dropout(own: Callable[..., Any]) -> Callable[..., Any]:
    def dropout(inputs: Any, rate: float, noise_shape: Any = None, seed: Any = None) -> Any:
        dropped = dropped_levels(rate, noise_shape)
        seeded = getattr(seed, "_initial_seed", seed) is not None
        if dropped is None or seeded or inputs.device.type != "cpu":
            return own(inputs, rate, noise_shape, seed)
        words = torch.empty(-(-inputs.numel() // ELEMENTS_A_WORD), dtype=torch.int64)
        words.random_(torch.iinfo(torch.int64).min, None)
        bits = words.view(torch.int16)[: inputs.numel()].view(inputs.shape)
        mask = (bits >= dropped - LEVELS // 2).to(inputs.dtype).mul_(LEVELS / (LEVELS - dropped))
        return inputs * mask

    return dropout

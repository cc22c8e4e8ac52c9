"""LSTM, GRU and plain recurrent layers in a trace as cuDNN runs them on a GPU: one kernel a layer and direction.

PyTorch's CPU build takes a GRU as thousands of small operations and an LSTM as one without a count. That a time step
waits for the last one is not counted: there are no published times of it here.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch

RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
NOTE = "recurrent layers: that a time step waits for the last one is not counted"
Put = Callable[[Any, float, Sequence[Any], Sequence[Any]], None]  # dtype, operations, inputs and outputs of a kernel


def recurrent(put: Put, *args: Any) -> tuple[Any, ...]:
    """The outputs of `torch.lstm` and the like for these arguments, without values; raises nothing of its own."""
    packed = isinstance(args[1], torch.Tensor) and args[1].dtype == torch.int64
    data, states, weights, _, layers, _, _, both = (args[0], *args[2:9]) if packed else args[:8]
    states = tuple(states) if isinstance(states, tuple | list) else (states,)
    groups, width = layers * (2 if both else 1), states[0].shape[-1] * (2 if both else 1)
    found = _Layers.apply(put, groups, (*data.shape[:-1], width), len(states), data, *states, *weights)
    return tuple(found)


class _Layers(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, put: Put, groups: int, shape: Any, states: int, data: Any, *others: Any) -> Any:
        half = torch.is_autocast_enabled("cpu")
        dtype = torch.get_autocast_dtype("cpu") if half else data.dtype
        output = data.new_empty(shape, dtype=dtype)
        ends = [torch.empty_like(each, dtype=dtype) for each in others[:states]]
        weights = others[states:]
        rows = data[..., 0].numel()
        gates = [data.new_empty((rows, group[0].shape[0]), dtype=dtype) for group in _groups(weights, groups)]
        ctx.work = put, rows, groups, states
        ctx.save_for_backward(data, output, *others, *gates)  # gates: cuDNN's reserve
        for group, kept in zip(_groups(weights, groups), gates, strict=True):
            put(dtype, _operations(group, rows), [data, *group], [output, kept])
        return output, *ends

    @staticmethod
    def backward(ctx: Any, gradient: Any, *_: Any) -> Any:
        put, rows, groups, states = ctx.work
        data, output, *others = ctx.saved_tensors
        given, gates = others[:-groups], others[-groups:]
        found = [torch.empty_like(each) for each in (data, *given)]
        sums = _groups(found[1 + states :], groups)
        for group, made, kept in zip(_groups(given[states:], groups), sums, gates, strict=True):
            put(output.dtype, 2 * _operations(group, rows), [gradient, output, kept, *group], [found[0], *made])
        return None, None, None, None, *found


def _groups(weights: Sequence[Any], count: int) -> list[Sequence[Any]]:
    """The weights of each layer and direction."""
    size = len(weights) // count
    return [weights[start : start + size] for start in range(0, len(weights), size)]


def _operations(group: Sequence[Any], rows: int) -> float:
    """Of the products of one layer's forward pass over all examples and time steps."""
    return sum(2.0 * rows * each.numel() for each in group if each.dim() == 2)

"""Tensors without values: shapes and types alone, on which PyTorch computes nothing.

    fakes = Fakes()
    with fakes.mode:
        output = module(images)                  # of real weights and images: a tensor without values
    fakes.call(torch.Tensor.item, (output.mean(),))   # 1.0

Only this file and forecast/torch/trace.py use what PyTorch calls its own.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_any, tree_map_only

from whichdevice.models.script_run import replaced

READS_VALUE = (DataDependentOutputException, DynamicOutputShapeException)
READING = {  # methods that give what is no tensor
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__complex__",
    "__format__", "__repr__", "__contains__",
}  # fmt: skip
COUNTING = (  # of classes, of a batch's graphs, of a table's columns
    "max", "min", "amax", "amin", "sum", "any", "all", "unique", "bincount", "__iter__", "__getitem__", "unbind",
)  # fmt: skip
MAX_EVALUATIONS, EVALUATION_SECONDS = 8, 2.0  # of the same shapes that run; with values for as long at least
CHOOSING = {  # methods and functions that give as many parts as a mask or counts say, by the argument with these
    "__getitem__": "index", "__setitem__": "index", "masked_select": "mask", "repeat_interleave": "repeats",
}  # fmt: skip
MASKS = (torch.bool, torch.uint8)
SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
SOUND = {  # of each number of a training that goes well
    "isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True,
}  # fmt: skip
PRODUCTS = ("mm", "spmm", "_sparse_mm", "matmul", "__matmul__")
COMPARING = ("eq", "ne", "lt", "le", "gt", "ge")


class Fakes:
    """One mode of fake tensors, and answers where their values are asked for: a one in each place."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor of this shape and type."""
        tensor = tensor.detach()
        with self.mode:  # not from the tensor itself, which would be converted first
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A fake tensor."""
        with self.mode:
            return torch.empty(shape, dtype=dtype)

    def call(self, function: Callable[..., Any], args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a function of PyTorch; where it reads values of fake tensors it finds ones."""
        kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
        if not tree_any(is_fake, (args, kwargs)):
            counts = name in COUNTING and args and torch.is_tensor(args[0]) and not args[0].is_floating_point()
            with unset_fake_temporarily() if counts or name in READING else nullcontext():
                return function(*args, **kwargs)
        if function == SET_DATA and is_fake(args[0]) != is_fake(args[1]):
            return self._set_data(*args)
        if name in PRODUCTS and not torch.is_grad_enabled() and len(args) > 1 and _is_sparse(args[0]):
            return self.empty((args[0].shape[0], *args[1].shape[1:]), args[1].dtype)  # else it is worked out
        if name in SEQUENCES and is_fake(args[0]):
            return SEQUENCES[name](*args)
        if name in RECURRENT and isinstance(args[1], BatchSizes):
            return recurred(*args)
        if name in SOUND:
            return self._all(SOUND[name], args[0])
        if (comparing := name.strip("_")) in COMPARING and len(args) > 1:
            if args[0] is args[1]:  # x != x asks for NaN
                return self._all(comparing in ("eq", "le", "ge"), args[0])
            if is_fake(args[0]) and args[0].numel() == 1 and isinstance(args[1], int | float):  # a loss with a limit
                with unset_fake_temporarily():
                    answer = bool(function(torch.ones(()), args[1]))
                return self._all(answer, args[0])
        if name == "uniform_" and args and args[0].numel() == 1:  # a place in a list of choices may follow from it
            with unset_fake_temporarily():
                return function(ones(args[0]).clone(), *args[1:], **kwargs)
        if name not in READING:
            try:
                return function(*args, **kwargs)
            except READS_VALUE:
                pass
        if name in CHOOSING and args and torch.is_tensor(args[0]):
            return self._chosen(function, name, args, kwargs)
        with unset_fake_temporarily():
            given, named = ones((args, kwargs))
            result = function(*given, **named)
        return tree_map_only(torch.Tensor, self.like, result)

    def _set_data(self, weight: torch.Tensor, data: torch.Tensor) -> None:
        """Let a weight with values keep some, and one without values have none, whichever is put into it."""
        if is_fake(weight):
            SET_DATA(weight, self.like(data))
        elif weight.shape != data.shape:
            with unset_fake_temporarily():
                SET_DATA(weight, torch.zeros(data.shape, dtype=data.dtype))

    def _all(self, answer: bool, tensor: torch.Tensor) -> torch.Tensor:
        """The same answer for each number of a tensor."""
        with unset_fake_temporarily():
            return torch.tensor(answer).expand(tensor.shape)

    def _chosen(self, function: Callable[..., Any], name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """What a mask or counts choose of a tensor, with its gradient: all of it where they have no values."""
        given = {**dict(zip(("input", CHOOSING[name], "dim"), args, strict=False)), **kwargs}
        tensor, by = given["input"], given[CHOOSING[name]]
        if name == "repeat_interleave":
            dim = given.get("dim")
            tensor, dim = (tensor.flatten(), 0) if dim is None else (tensor, dim)
            if is_fake(by):
                return tensor.index_select(dim, self.empty((tensor.shape[dim],), torch.int64))
            with unset_fake_temporarily():
                places = torch.arange(tensor.shape[dim]).repeat_interleave(by)
            return tensor.index_select(dim, places)
        if name == "masked_select":
            tensor, by = torch.broadcast_tensors(tensor, by)
            return tensor[self._places(by)]
        parts = by if isinstance(by, tuple | list) else (by,)
        places = [place for part in parts for place in self._places(part)]
        return function(tensor, tuple(places), *args[2:])

    def _places(self, part: Any) -> tuple[Any, ...]:
        """What a part of an index chooses: of a mask its places, of one place without a value the first."""
        if not torch.is_tensor(part):
            return (part,)
        if part.dtype not in MASKS:
            return (0,) if is_fake(part) and part.ndim == 0 else (part,)
        if is_fake(part):
            return tuple(self.empty((part.numel(),), torch.int64) for _ in part.shape)
        with unset_fake_temporarily():
            return part.nonzero(as_tuple=True)


class Evaluations:
    """Evaluations of modules before a training: after some of the same shapes one outcome stands for the others."""

    def __init__(self) -> None:
        self._counts, self._seconds = Counter[Any](), defaultdict[Any, float](float)
        self._repeated = set[Any]()
        self._forwards = ExitStack()

    def add(self, module: torch.nn.Module, given: Any, output: Any, seconds: float) -> None:
        """Count an evaluation of these arguments, as a module's hook has them, and note its outcome.

        One without values takes no time, and counts as long.
        """
        wanted = _shapes(given)
        key = id(module), wanted
        self._counts[key] += 1
        self._seconds[key] += seconds
        short = self._counts[key] < MAX_EVALUATIONS or self._seconds[key] < EVALUATION_SECONDS
        if short or key in self._repeated:
            return
        self._repeated.add(key)
        forward = module.forward

        def repeated(*args: Any, **kwargs: Any) -> Any:
            again = not module.training and _shapes((args, kwargs)) == wanted
            return output if again else forward(*args, **kwargs)

        self._forwards.enter_context(replaced(module, "forward", repeated))

    def end(self) -> None:
        """Give the modules back: training starts."""
        self._forwards.close()


class BatchSizes(torch.Tensor):
    """How many sequences of a packed batch go on at each time step: all of them, as lengths have no values."""

    def __getitem__(self, place: Any) -> Any:
        """Return a number, which a layer makes its first state for."""
        return int(self.tolist()[place])


def packed(padded: torch.Tensor, _: Any, batch_first: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Stand in for PyTorch's packing of sequences without values, each as long as the longest."""
    by_time = padded.transpose(0, 1) if batch_first else padded
    with unset_fake_temporarily():
        sizes = torch.full((len(by_time),), by_time.shape[1]).as_subclass(BatchSizes)
    return by_time.flatten(0, 1), sizes


def unpacked(data: torch.Tensor, sizes: torch.Tensor, batch_first: bool, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Stand in for the way back, with the lengths."""
    padded = data.unflatten(0, (len(sizes), -1))
    with unset_fake_temporarily():
        lengths = torch.full((padded.shape[1],), len(padded))
    return padded.transpose(0, 1) if batch_first else padded, lengths


def recurred(data: torch.Tensor, _: Any, states: Any, *others: Any) -> tuple[torch.Tensor, ...]:
    """Return the outputs of a recurrent layer for packed sequences: of its states' width, in one or both directions."""
    states = states if isinstance(states, tuple | list) else (states,)
    width = states[0].shape[-1] * (2 if others[-1] else 1)
    return data[..., :1].expand(*data.shape[:-1], width).clone(), *states


RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SEQUENCES: Mapping[str, Callable[..., Any]] = {"_pack_padded_sequence": packed, "_pad_packed_sequence": unpacked}


def _shapes(tree: Any) -> str:
    return repr(tree_map_only(torch.Tensor, lambda tensor: (tuple(tensor.shape), tensor.dtype), tree))


def _is_sparse(value: Any) -> bool:
    return torch.is_tensor(value) and value.layout != torch.strided


def is_fake(value: Any) -> bool:
    """Whether a value is a tensor without values."""
    return isinstance(value, FakeTensor)


def ones(tree: Any) -> Any:
    """The same with a one in each place of each fake tensor; they take no memory."""
    return tree_map_only(FakeTensor, lambda fake: torch.ones((), dtype=fake.dtype).expand(fake.shape), tree)


def replace_tensors(module: torch.nn.Module, like: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Put `like` of each parameter and buffer in its place where that is another one, shared parameters once."""
    made: dict[int, torch.nn.Parameter] = {}
    for owner in list(module.modules()):
        for name, weight in list(owner.named_parameters(recurse=False)):
            if id(weight) not in made:
                new = like(weight.detach() if not is_fake(weight) else weight)
                made[id(weight)] = weight if new is weight else torch.nn.Parameter(new, weight.requires_grad)
            setattr(owner, name, made[id(weight)])
        for name, buffer in list(owner.named_buffers(recurse=False)):
            setattr(owner, name, like(buffer))

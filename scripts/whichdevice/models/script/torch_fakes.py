"""Tensors without values: shapes and types alone, on which PyTorch computes nothing.

    fakes = Fakes()
    with fakes.mode:
        output = module(images)                  # of real weights and images: a tensor without values
    fakes.call(torch.Tensor.item, (output.mean(),))   # 1.0

Only this file and forecast/torch/trace.py use what PyTorch calls its own.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from typing import Any, NamedTuple

import torch
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    unset_fake_temporarily,
)
from torch.utils._pytree import tree_any, tree_map_only

READS_VALUE = (DataDependentOutputException, DynamicOutputShapeException)
READING = {  # methods that give what is no tensor
    "item", "tolist", "numpy", "__array__", "__bool__", "__int__", "__float__", "__index__", "__complex__",
    "__format__", "__repr__", "__contains__",
}  # fmt: skip
COUNTING = (  # of classes, of a batch's graphs, of a table's columns
    "max", "min", "amax", "amin", "sum", "any", "all", "unique", "bincount", "__iter__", "__getitem__", "unbind",
)  # fmt: skip
MAX_EVALUATIONS = 8  # of the same shapes that run
CHOOSING = {  # methods and functions that give as many parts as a mask or counts say, by the argument with these
    "__getitem__": "index", "__setitem__": "index", "masked_select": "mask", "repeat_interleave": "repeats",
}  # fmt: skip
MASKS = (torch.bool, torch.uint8)
SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
SOUND = {  # of each number of a training that goes well
    "isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True,
}  # fmt: skip
SIMPLE = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})
PRODUCTS = ("mm", "spmm", "_sparse_mm", "matmul", "__matmul__")
COMPARING = ("eq", "ne", "lt", "le", "gt", "ge")
DRAWING = ("rand", "randint", "uniform_", "random_")  # by which a script chooses, where it draws one number


class Fakes:
    """One mode of fake tensors, and answers where their values are asked for: a one in each place."""

    def __init__(self) -> None:
        self.mode = FakeTensorMode(allow_non_fake_inputs=True)

    def like(self, tensor: torch.Tensor) -> torch.Tensor:
        """A fake tensor of this shape and type."""
        tensor = tensor.detach()
        with self.mode:  # not from the tensor itself, which would be converted first
            return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="cpu")

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> torch.Tensor:
        """A fake tensor."""
        with self.mode:
            return torch.empty(shape, dtype=dtype)

    def call(self, function: Callable[..., Any], args: Any = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        """Call a function of PyTorch; where it reads values of fake tensors it finds ones."""
        kwargs, name = dict(kwargs or {}), getattr(function, "__name__", "")
        if name == "_assert":  # of values that are ones
            return None
        if name in DRAWING:
            return self._middle(function(*args, **kwargs), name, [*args[name[-1] == "_" :]], kwargs)
        if not any(map(is_fake, args)) and not tree_any(is_fake, (args, kwargs)):
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
        if name == "__setitem__" and _learns_by_mask(*args[1:]):  # its backward pass would read the mask
            return self._chosen(function, name, args, kwargs)
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

    def _middle(self, drawn: torch.Tensor, name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> torch.Tensor:
        """Return what was drawn; the middle in place of one number without a value: so a place in a list has one."""
        if not is_fake(drawn) or drawn.numel() != 1:
            return drawn
        numbers = [part for part in args if isinstance(part, int | float)] if name != "rand" else []
        least, most = (*numbers[:2],) if len(numbers) > 1 else (0, *(numbers[:1] or (1,)))
        least, most = (
            kwargs.get(key, kwargs.get(other, end))
            for key, other, end in (("low", "from", least), ("high", "to", most))
        )
        with unset_fake_temporarily():
            return torch.full(drawn.shape, (least + most) / 2).to(drawn.dtype)

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
        """Return what a mask or counts choose of a tensor, with its gradient: all of it where they have no values."""
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
        """Return what a part of an index chooses: of a mask its places, of one place without a value the first."""
        if not torch.is_tensor(part):
            return (part,)
        if part.dtype not in MASKS:
            return (0,) if is_fake(part) and part.ndim == 0 else (part,)
        if is_fake(part):
            return tuple(self.empty((part.numel(),), torch.int64) for _ in part.shape)
        with unset_fake_temporarily():
            return part.nonzero(as_tuple=True)


class Form(NamedTuple):
    """How a tensor without values that an operation made lies in its storage: an own one, or that of its input."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int
    is_view: bool

    @classmethod
    def of(cls, made: Any, inputs: Sequence[torch.Tensor]) -> "Form | None":
        """Return the form of an outcome; None of one that no other call's may stand for."""
        if type(made) is not FakeTensor or made.constant is not None or any(made is tensor for tensor in inputs):
            return None
        is_view = any(made.untyped_storage()._cdata == tensor.untyped_storage()._cdata for tensor in inputs)
        whole = made.layout == torch.strided and not made.dtype.is_complex and not made.requires_grad
        if not whole or (is_view and len(inputs) > 1):
            return None
        form = cls(tuple(made.shape), made.stride(), made.dtype, made.fake_device, int(made.storage_offset()), is_view)
        return form if form.made(inputs).untyped_storage().nbytes() == made.untyped_storage().nbytes() else None

    def made(self, inputs: Sequence[Any]) -> torch.Tensor:
        """Return a tensor of this form."""
        mode, first = inputs[0].fake_mode, inputs[0]
        with torch._C._DisableTorchDispatch():
            tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")
            if self.is_view:
                tensor.set_(first.untyped_storage(), self.offset, self.shape, self.stride)
            return FakeTensor(mode, tensor, self.device)


class Outcome(NamedTuple):
    """The tensors without values that an operation makes of such arguments each time."""

    container: type | None  # None: of one tensor
    forms: tuple[Form, ...]

    @classmethod
    def of(cls, result: Any, inputs: Sequence[torch.Tensor]) -> "Outcome | None":
        """Return the outcome of a call; None where the next one's may differ."""
        container = type(result) if type(result) in (tuple, list) else None
        made = list(result) if container else [result]
        forms = [Form.of(part, inputs) for part in made]
        storages = {part.untyped_storage()._cdata for part in made if torch.is_tensor(part)}
        apart = len(storages) == len(made) or all(form is not None and form.is_view for form in forms)
        known = tuple(form for form in forms if form is not None)
        return cls(container, known) if apart and len(known) == len(forms) else None

    def made(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        """Return the result of another call, and its tensors."""
        tensors = [form.made(inputs) for form in self.forms]
        return (tensors[0] if self.container is None else self.container(tensors)), tensors


def signature(arguments: Any, inputs: list[Any]) -> tuple[Any, ...] | None:
    """Return what an outcome follows from, and put the tensors into `inputs`; None where that is not shapes alone."""
    parts: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if kind is FakeTensor:
            if argument.constant is not None or argument.layout != torch.strided or argument.dtype.is_complex:
                return None
            inputs.append(argument)
            place = argument.stride(), argument.storage_offset(), argument.fake_device
            parts.append((tuple(argument.shape), argument.dtype, *place))
        elif kind in (tuple, list):
            if (inner := signature(argument, inputs)) is None:
                return None
            parts.append(inner)
        elif kind in SIMPLE:
            parts.append((kind, argument))
        else:
            return None
    return tuple(parts)


class Evaluations:
    """Calls of modules before a training: after some of the same shapes one outcome stands for the others."""

    def __init__(self) -> None:
        self._counts = Counter[Any]()
        self._repeated = set[Any]()
        self._forwards = ExitStack()

    def add(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        """Count a call with these arguments, as a module's hook has them, and note its outcome."""
        wanted = _shapes(given)
        key = id(module), wanted
        self._counts[key] += 1
        if self._counts[key] < MAX_EVALUATIONS or key in self._repeated:
            return
        self._repeated.add(key)
        forward, mode = module.forward, module.training

        def repeated(*args: Any, **kwargs: Any) -> Any:
            again = module.training == mode and _shapes((args, kwargs)) == wanted and not _wants_gradients(args, kwargs)
            return tree_map_only(torch.Tensor, _anew, output) if again else forward(*args, **kwargs)

        attributes = vars(module)  # a wrapper hands attributes that are set on to what it wraps
        before = {name: attributes[name] for name in ("forward",) if name in attributes}
        attributes["forward"] = repeated
        self._forwards.callback(attributes.update, before)
        self._forwards.callback(attributes.pop, "forward")

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


def _wants_gradients(*given: Any) -> bool:
    """Whether gradients may be taken of what a module is given, as where a script looks for examples that it fails."""
    return torch.is_grad_enabled() and tree_any(lambda leaf: torch.is_tensor(leaf) and leaf.requires_grad, given)


def _learns_by_mask(index: Any, value: Any) -> bool:
    """Whether gradients reach a value that is put where a mask without values says."""
    parts = index if isinstance(index, tuple | list) else (index,)
    masks = (part for part in parts if torch.is_tensor(part) and part.dtype in MASKS and is_fake(part))
    return torch.is_tensor(value) and value.requires_grad and any(True for _ in masks)


def _anew(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers as another tensor, which a script may keep beside the first."""
    return tensor if is_fake(tensor) else tensor.view_as(tensor)


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

"""Tensors without values: shapes and types alone, on which PyTorch computes nothing.

    fakes = Fakes()
    with fakes.mode:
        output = module(images)                  # of real weights and images: a tensor without values
    fakes.call(torch.Tensor.tolist, "tolist", (output.mean(),), {})   # 1.0

Only this file and forecast/torch/trace.py use what PyTorch calls its own.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
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
ASKED = {"item", "__bool__", "__int__", "__float__", "__index__", "__complex__"}  # whose operation is answered
SEVERAL = (tuple, list, dict)
MAX_EVALUATIONS = 8  # of the same shapes that run
SET_DATA = torch.Tensor.data.__set__  # type: ignore[attr-defined]
SOUND = {  # of each number of a training that goes well
    "isnan": False, "isinf": False, "isposinf": False, "isneginf": False, "isfinite": True,
}  # fmt: skip
SIMPLE = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device, torch.layout, torch.memory_format})


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

    def call(self, function: Callable[..., Any], name: str, args: Any, kwargs: Mapping[str, Any]) -> Any:
        """Call a function of tensors without values; where these are asked for there are ones."""
        if name == "_assert":
            return None
        if name in READING - ASKED:
            return function(*ones(args), **kwargs)
        if name in SOUND or (name in ("ne", "__ne__") and args[0] is args[1]):
            return torch.full((), SOUND.get(name, False), dtype=torch.bool).expand(args[0].shape)
        if function == SET_DATA and is_fake(args[0]) != is_fake(args[1]):
            args = (args[0], self.like(args[1]) if is_fake(args[0]) else ones(args[1]).clone())
        return function(*args, **kwargs)


class Form(NamedTuple):
    """How a tensor without values that an operation made lies in its storage, which may be its input's."""

    shape: tuple[int, ...]
    stride: tuple[int, ...]
    dtype: torch.dtype
    device: torch.device
    offset: int
    is_view: bool

    @classmethod
    def of(cls, made: Any, inputs: Sequence[torch.Tensor], storages: set[int]) -> "Form | None":
        """Return the form of an outcome; None where it may not stand for another call's."""
        if type(made) is not FakeTensor or made.constant is not None or any(made is tensor for tensor in inputs):
            return None
        is_view = storage_of(made) in storages
        whole = made.layout == torch.strided and not made.dtype.is_complex and not made.requires_grad
        if not whole or (is_view and len(inputs) > 1):
            return None
        form = cls(tuple(made.shape), made.stride(), made.dtype, made.fake_device, int(made.storage_offset()), is_view)
        return form if form.made(inputs).untyped_storage().nbytes() == made.untyped_storage().nbytes() else None

    def made(self, inputs: Sequence[Any]) -> torch.Tensor:
        """Return a tensor of this form."""
        first = inputs[0]
        mode = first.fake_mode if is_fake(first) else next(filter(is_fake, inputs)).fake_mode
        with torch._C._DisableTorchDispatch():
            tensor = torch.empty_strided(self.shape, self.stride, dtype=self.dtype, device="meta")
            if self.is_view:
                tensor.set_(first.untyped_storage(), self.offset, self.shape, self.stride)
            return FakeTensor(mode, tensor, self.device)


class Outcome(NamedTuple):
    """The tensors without values that an operation makes of such arguments each time."""

    container: type | None  # None: of one tensor
    forms: tuple[Form | None, ...]  # None: it makes none there, as where a weight is frozen

    @classmethod
    def of(cls, result: Any, inputs: Sequence[torch.Tensor]) -> "Outcome | None":
        """Return the outcome of a call; None where the next one's may differ."""
        container = type(result) if type(result) in (tuple, list) else None
        made = list(result) if container else [result]
        read = set(map(storage_of, inputs))
        forms = [None if part is None else Form.of(part, inputs, read) for part in made]
        tensors = [part for part in made if torch.is_tensor(part)]
        apart = len(set(map(storage_of, tensors))) == len(tensors)
        apart = apart or all(form is None or form.is_view for form in forms)
        return cls(container, tuple(forms)) if apart and len([*filter(None, forms)]) == len(tensors) else None

    def made(self, inputs: Sequence[torch.Tensor]) -> tuple[Any, list[torch.Tensor]]:
        """Return the result of another call, and its tensors."""
        made = [None if form is None else form.made(inputs) for form in self.forms]
        return (made[0] if self.container is None else self.container(made)), [*filter(torch.is_tensor, made)]


def signature(arguments: Any, inputs: list[Any]) -> tuple[Any, ...] | None:
    """Return what an outcome follows from, and put the tensors into `inputs`; None where that is not shapes alone.

    No shape follows from the values of real numbers in a tensor, as one does from whole ones or from a mask.
    """
    parts: list[Any] = []
    for argument in arguments:
        kind = type(argument)
        if kind is FakeTensor:
            if argument.constant is not None or argument.layout != torch.strided or argument.dtype.is_complex:
                return None
            inputs.append(argument)
            place = argument.stride(), argument.storage_offset(), argument.fake_device
            parts.append((tuple(argument.shape), argument.dtype, *place))
        elif kind is torch.Tensor:
            if argument.layout != torch.strided or not argument.dtype.is_floating_point or not argument.dim():
                return None
            inputs.append(argument)
            parts.append((tuple(argument.shape), argument.dtype, argument.stride(), argument.storage_offset(), "real"))
        elif kind in (tuple, list):
            if (inner := signature(argument, inputs)) is None:
                return None
            parts.append(inner)
        elif kind in SIMPLE:
            parts.append((kind, argument))
        else:
            return None
    return tuple(parts)


class Outcomes:
    """Calls of modules whose outcome stands for later calls with arguments of the same shapes."""

    def __init__(self) -> None:
        self._counts = Counter[Any]()
        self._noted = list[tuple[torch.nn.Module, str, Any]]()
        self._forwards = ExitStack()

    def add_evaluation(self, module: torch.nn.Module, given: Any, output: Any) -> None:
        """Count a call with these arguments, as a module's hook has them: after some one stands for the others."""
        wanted = _shapes(given)
        self._counts[id(module), wanted] += 1
        if self._counts[id(module), wanted] == MAX_EVALUATIONS:
            self._put(module, wanted, output)

    def note(self, module: torch.nn.Module, given: Any, output: Any, like: Callable[[Any], Any]) -> None:
        """Note a call in training, for `repeat`; `like` makes a tensor without values."""

        def apart(tensor: torch.Tensor) -> torch.Tensor:
            return like(tensor).requires_grad_(tensor.requires_grad)

        self._noted.append((module, _shapes(given), tree_map_only(torch.Tensor, apart, output)))

    def repeat(self) -> None:
        """Let the calls that were noted stand for the next ones."""
        for module, wanted, output in self._noted:
            self._put(module, wanted, output)

    def forget(self) -> None:
        """Forget the calls that were noted."""
        self._noted.clear()

    def _put(self, module: torch.nn.Module, wanted: str, output: Any) -> None:
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
        """Give the modules back."""
        self._forwards.close()


class BatchSizes(torch.Tensor):
    """How many sequences of a packed batch go on at each time step: all of them, as lengths have no values."""

    def __getitem__(self, place: Any) -> Any:
        """Return a number, which a layer makes its first state for."""
        return int(self.tolist()[place])


def packed(padded: torch.Tensor, _: Any, batch_first: bool = False) -> tuple[torch.Tensor, torch.Tensor]:
    """Replace PyTorch's packing of sequences without values, each as long as the longest."""
    by_time = padded.transpose(0, 1) if batch_first else padded
    with unset_fake_temporarily():
        sizes = torch.full((len(by_time),), by_time.shape[1]).as_subclass(BatchSizes)
    return by_time.flatten(0, 1), sizes


def unpacked(data: torch.Tensor, sizes: torch.Tensor, batch_first: bool, *_: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Replace PyTorch's unpacking of such sequences, with the lengths."""
    padded = data.unflatten(0, (len(sizes), -1))
    with unset_fake_temporarily():
        lengths = torch.full((padded.shape[1],), len(padded))
    return padded.transpose(0, 1) if batch_first else padded, lengths


RECURRENT = ("lstm", "gru", "rnn_tanh", "rnn_relu")
SEQUENCES: Mapping[str, Callable[..., Any]] = {"_pack_padded_sequence": packed, "_pad_packed_sequence": unpacked}


def _shapes(tree: Any) -> str:
    return repr(tree_map_only(torch.Tensor, lambda tensor: (tuple(tensor.shape), tensor.dtype), tree))


def _wants_gradients(*given: Any) -> bool:
    """Whether gradients may be taken of what a module is given, as where a script looks for examples that it fails."""
    return torch.is_grad_enabled() and tree_any(lambda leaf: torch.is_tensor(leaf) and leaf.requires_grad, given)


def _anew(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers as another tensor, which a script may keep beside the first."""
    return tensor.clone() if tensor.requires_grad else tensor if is_fake(tensor) else tensor.view_as(tensor)


def is_fake(value: Any) -> bool:
    """Whether a value is a tensor without values."""
    return isinstance(value, FakeTensor)


def has_fake(arguments: Iterable[Any]) -> bool:
    """Whether a tensor without values is among a function's arguments, or in their lists; asked at each call."""
    for argument in arguments:
        if isinstance(argument, FakeTensor):
            return True
        if isinstance(argument, SEVERAL) and has_fake(argument.values() if isinstance(argument, dict) else argument):
            return True
    return False


def storage_of(tensor: Any) -> int:
    """Return what identifies a tensor's storage: views share it."""
    return tensor.untyped_storage()._cdata  # type: ignore[no-any-return]


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

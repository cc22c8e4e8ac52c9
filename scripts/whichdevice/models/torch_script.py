"""The training step of an ordinary PyTorch script, as a module that gives its loss.

A step is what runs between two steps of the optimiser. PyTorch's mode for functions (`torch.overrides`) shows the
functions that the script calls, its global hooks the modules; what is inside of a module belongs to that module. From
this tape `Step` makes the loss of a batch again: tensors that have the batch as their first axis are its inputs,
everything else is kept as it was.
"""

import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from whichdevice.errors import StudyError
from whichdevice.models.framework import TORCH
from whichdevice.models.script_run import (
    Found,
    Script,
    Started,
    called_in,
    epochs_in,
    frames,
    line_of,
    longest,
    run,
)

MOST_PARAMETERS = 3e8  # of a module that is stopped at its first call: its forward and backward take long here
COPIES = 4  # of the script's first batch, as data


class Result(NamedTuple):
    """Stands for a value of the step: an input by its name, or the outcome of an earlier call with its path in it."""

    source: str | int
    path: tuple[Any, ...] = ()


class Call(NamedTuple):
    """One function or module of the step, with what it is given."""

    function: Any  # a function of PyTorch, or the place of a module among `Step.modules_called`
    args: Any
    kwargs: Any
    output: Any = None  # as the script got it


class Tape(TorchFunctionMode):
    """Records what a script calls from its first module in training on, outside of modules and of the optimiser."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[Call] = []
        self.depth = 0  # of modules
        self.loss: Any = None

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function and record it."""
        kwargs = kwargs or {}
        if self.depth == 0 and getattr(func, "__name__", "") == "backward" and args and torch.is_tensor(args[0]):
            self.loss = args[0]
        result = func(*args, **kwargs)
        if self.depth == 0 and self.calls and torch.is_grad_enabled() and any(map(torch.is_tensor, _leaves(result))):
            self.calls.append(Call(func, args, kwargs, result))
        return result

    def enter(self, module: torch.nn.Module, args: Any) -> None:
        """A module is called; a large one is not waited for."""
        if self.depth == 0 and torch.is_grad_enabled() and module.training:
            sizes = [each.numel() for each in module.parameters() if each.requires_grad]
            if sum(sizes) > MOST_PARAMETERS:
                named: Mapping[str, Any] = next(
                    (scope["kwargs"] for scope in frames(inspect.currentframe()) if "kwargs" in scope), {}
                )
                self.calls = [Call(module, args, dict(named), None)]
                raise Started
        self.depth += 1

    def leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A module has given its output."""
        self.depth -= 1
        if self.depth == 0 and torch.is_grad_enabled():
            self.calls.append(Call(module, args, kwargs, output))


class Step(torch.nn.Module):
    """The loss of a batch, as the script works it out: `step(**inputs).loss`."""

    def __init__(self, calls: Sequence[Call], loss: Result, dtypes: Mapping[str, torch.dtype]) -> None:
        super().__init__()
        self.dtypes = dict(dtypes)
        modules = [call.function for call in calls if isinstance(call.function, torch.nn.Module)]
        self.called = torch.nn.ModuleList(list(dict.fromkeys(modules)))
        places = {id(module): place for place, module in enumerate(self.called)}
        self.calls = [call._replace(function=places.get(id(call.function), call.function)) for call in calls]
        self.loss_at = loss

    def forward(self, **inputs: Any) -> Any:
        """Names of the script's batch to the output of its first module, with the loss as `loss`."""
        outputs: list[Any] = []

        def value(given: Any) -> Any:
            if isinstance(given, Result):
                if isinstance(given.source, str):
                    wanted = self.dtypes[given.source]
                    return inputs[given.source] if wanted.is_floating_point else inputs[given.source].to(wanted)
                found = outputs[given.source]
                for part in given.path:
                    found = found[part]
                return found
            return given

        for call in self.calls:
            function = self.called[call.function] if isinstance(call.function, int) else call.function
            outputs.append(function(*_mapped(value, call.args), **_mapped(value, call.kwargs)))
        loss = value(self.loss_at)
        first = next(
            (out for out, call in zip(outputs, self.calls, strict=True) if isinstance(call.function, int)), loss
        )
        return StepOutput(loss=getattr(loss, "loss", loss), logits=next(filter(torch.is_tensor, _leaves(first))))


class StepOutput(dict[str, Any]):
    """The loss and what stands for the output, by name and as attributes."""

    @property
    def loss(self) -> Any:
        """The mean loss of the batch."""
        return self["loss"]


def start_torch(path: Path) -> Script:
    """The script's step with its first batch and its optimiser; raises StudyError where no optimiser steps."""
    torch.compiler.set_stance("force_eager")  # a compiled step hides its functions
    tape, seen = Tape(), SimpleNamespace(optimizer=None, scopes=[], line=None)

    def stop(optimizer: Any, args: Any, kwargs: Any) -> None:
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if callable(closure):  # it works out the loss
            closure()
        seen.optimizer = optimizer
        seen.scopes, seen.line = list(frames(inspect.currentframe())), line_of(inspect.currentframe(), path)
        raise Started

    hooks = [
        register_module_forward_pre_hook(tape.enter),
        register_module_forward_hook(tape.leave, with_kwargs=True),
        register_optimizer_step_pre_hook(stop),
    ]
    try:
        with tape:
            run(path)
    except Started as started:
        if not seen.scopes:
            trace = inspect.getinnerframes(started.__traceback__) if started.__traceback__ else []
            seen.scopes = [each.frame.f_locals for each in reversed(trace)]
            seen.line = next((each.lineno for each in reversed(trace) if Path(each.filename).name == path.name), None)
    finally:
        for hook in hooks:
            hook.remove()
    if not tape.calls:
        ended = (
            "stepped before any module was called" if seen.optimizer is not None else "ended, and no optimiser stepped"
        )
        raise StudyError(f"{path.name}: {ended}: which training is meant?")
    step, batch = _step(tape, path)
    size = len(next(iter(batch.values())))
    loader = _loader(seen.scopes, size)
    found = Found(
        framework=TORCH,
        batch_size=size,
        examples=len(loader.dataset)
        if loader is not None
        else longest(seen.scopes, next(iter(batch.values())).shape, size),
        epochs=epochs_in(seen.scopes),
        precision=_precision(step, path),
        compiled=called_in(path, "compile"),
        line=seen.line,
    )
    data = {name: np.concatenate([_array(value)] * COPIES) for name, value in batch.items()}
    optimizer = seen.optimizer or _optimizer_in(seen.scopes)
    functions = SimpleNamespace(
        model=lambda: step, data=lambda: data, optimizer=lambda module: _again(optimizer, module)
    )
    return Script(found, functions, loader)


def _step(tape: Tape, path: Path) -> tuple[Step, dict[str, torch.Tensor]]:
    """The part of the tape that the loss needs, and the tensors of the first batch by name."""
    calls = tape.calls
    made: dict[int, list[Result]] = {}  # by tensor, in the order of calls: an operation in place makes it again
    for number, call in enumerate(calls):
        for key, leaf in _paths(call.output):
            if torch.is_tensor(leaf):
                made.setdefault(id(leaf), []).append(Result(number, key))

    def maker(leaf: Any, before: int) -> Result | None:
        found = [each for each in made.get(id(leaf), ()) if int(each.source) < before]
        return found[-1] if torch.is_tensor(leaf) and found else None

    loss = maker(tape.loss, len(calls)) or Result(len(calls) - 1)
    needed: set[int] = set()
    waiting = [int(loss.source)]
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            given = (*_leaves(calls[place].args), *_leaves(calls[place].kwargs))
            waiting += [int(found.source) for each in given if (found := maker(each, place)) is not None]
    modules = [place for place in sorted(needed) if isinstance(calls[place].function, torch.nn.Module)]
    if not modules:
        raise StudyError(f"{path.name}: its loss follows from no module: which training is meant?")
    kept = [place for place in sorted(needed) if place >= modules[0]]  # what came before made the batch
    first = calls[modules[0]]
    tensors = [leaf for leaf in (*_leaves(first.args), *_leaves(first.kwargs)) if torch.is_tensor(leaf) and leaf.ndim]
    if not tensors:
        raise StudyError(
            f"{path.name}: the first module takes no tensor, so its batch is not known; write a model file"
        )
    weights = {id(each) for place in modules for each in calls[place].function.parameters()}
    order = {old: new for new, old in enumerate(kept)}
    batch: dict[str, torch.Tensor] = {}
    names: dict[int, str] = {}

    def reference(leaf: Any, before: int, name: str) -> Any:
        """A leaf as the step has it: an earlier outcome, an input, or what it was."""
        found = maker(leaf, before)
        if found is not None and found.source in order:
            return found._replace(source=order[int(found.source)])
        if not torch.is_tensor(leaf) or id(leaf) in weights or not leaf.ndim or len(leaf) != len(tensors[0]):
            return leaf
        if id(leaf) not in names:
            names[id(leaf)] = name = name if name and name not in batch else f"input_{len(batch)}"
            batch[name] = leaf.detach()
        return Result(names[id(leaf)])

    linked = [
        Call(
            calls[place].function,
            _mapped(partial(reference, before=place, name=""), calls[place].args),
            {
                name: _mapped(partial(reference, before=place, name=name), each)
                for name, each in calls[place].kwargs.items()
            },
        )
        for place in kept
    ]
    step = Step(linked, loss._replace(source=order[int(loss.source)]), {key: each.dtype for key, each in batch.items()})
    return step, batch


def _precision(step: Step, path: Path) -> str:
    """Mixed where the script has `autocast`; else convolutions may use TF32, and products where it asks for that."""
    if called_in(path, "autocast"):
        return "mixed"
    convolves = any(isinstance(each, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d) for each in step.modules())
    return "single" if convolves or torch.get_float32_matmul_precision() != "highest" else "float32"


def _loader(scopes: Sequence[Mapping[str, Any]], size: int) -> Any:
    """The loader with this batch size, or the one of the most examples."""
    values = [value for scope in scopes for value in scope.values() if isinstance(value, DataLoader)]
    known = [loader for loader in values if hasattr(loader.dataset, "__len__")]
    return min(known, key=lambda loader: (loader.batch_size != size, -len(loader.dataset)), default=None)


def _optimizer_in(scopes: Sequence[Mapping[str, Any]]) -> Any:
    """The optimiser among the script's variables, of a module that was stopped at its first call."""
    values = [value for scope in scopes for value in scope.values()]
    return next((each for each in values if isinstance(each, torch.optim.Optimizer)), None)


def _again(optimizer: Any, module: Any) -> Any:
    """A fresh optimiser of the same kind and settings over the module's trained parameters."""
    weights = [each for each in module.parameters() if each.requires_grad]
    if optimizer is None:
        return torch.optim.AdamW(weights)
    known = inspect.signature(type(optimizer).__init__).parameters
    return type(optimizer)(weights, **{name: each for name, each in optimizer.defaults.items() if name in known})


def _array(tensor: torch.Tensor) -> np.ndarray:
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()


def _paths(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The leaves of nested tuples, lists and dicts with the keys that lead to each."""
    if isinstance(tree, Mapping):
        for key in tree:
            yield from _paths(tree[key], (*above, key))
    elif isinstance(tree, tuple | list):
        for place, part in enumerate(tree):
            yield from _paths(part, (*above, place))
    else:
        yield above, tree


def _leaves(tree: Any) -> list[Any]:
    return [leaf for _, leaf in _paths(tree)]


def _mapped(function: Any, tree: Any) -> Any:
    """The same structure with each leaf replaced; a Result is a leaf."""
    if isinstance(tree, Result):
        return function(tree)
    if isinstance(tree, Mapping):
        return {key: _mapped(function, part) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        return type(tree)(_mapped(function, part) for part in tree) if type(tree) in (tuple, list) else tree
    return function(tree)

"""The training step of an ordinary PyTorch loop, as a module that gives its loss.

A step is what runs between two steps of the optimiser. PyTorch's mode for functions (`torch.overrides`) shows the
functions that the script calls, its global hooks the modules; what is inside of a module belongs to that module. From
this tape `TapedStep` makes the loss of a batch again: tensors that have the batch as their first axis are its inputs,
everything else is kept as it was. Where layers take the time steps first, the batch is the second axis.
"""

import copy
import inspect
import math
import re
import time
import weakref
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, ValuesView
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import CodeType, MethodType
from typing import Any, NamedTuple

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode

from whichdevice.base.errors import StudyError
from whichdevice.models.script.run import NAME_IT
from whichdevice.models.script.size import Stack, own_code
from whichdevice.models.script.text import attribute
from whichdevice.models.script.torch_fakes import (
    EVALUATION_SECONDS,
    READING,
    Evaluations,
    Fakes,
    Passing,
    call_kind,
    is_fake,
    ones,
    replace_tensors,
)
from whichdevice.models.script.torch_names import HALVES, Whole, alone, on_cpu
from whichdevice.models.script.torch_sizes import resized

ON_GPU: Mapping[Any, Any] = {torch.Tensor.is_cuda.__get__: True, torch.Tensor.get_device: 0}  # type: ignore[attr-defined]
OWN = (dict, OrderedDict, list, MethodType)  # of a module: a copy has its own; settings may be no copy of themselves
FORMATS = (torch.float32, *HALVES)
PLAIN = frozenset({int, float, bool, str, type(None)})
PAUSE_SECONDS = 1.0  # that a script works without PyTorch
MAX_GRADIENTS = 1000  # that are taken without a step of the optimiser
WANTING = ("requires_grad_", "retain_grad")  # methods of a tensor whose gradient a script takes by itself
GETS_DATA, SETS_DATA = torch.Tensor.data.__get__, torch.Tensor.data.__set__  # type: ignore[attr-defined]
IN_PLACE = ("__iadd__", "__isub__", "__imul__")
MAKING = ("new_zeros", "new_ones", "new_full")
ADDING = ("add", "add_", "__add__", "__radd__", "__iadd__")
SUBTRACTING = ("sub", "sub_", "__sub__", "__isub__")
NUMBERS_GRAPHS = re.compile("batch|graph|segment|cluster|index|idx")  # a name of what tells a node's graph
MANY_READS = 4  # values that the host reads before a loss, as where it matches boxes
ABSENT = object()  # stands for an image that a smaller batch lacks, and for what follows from it alone
HEAVY = 3e7  # weights of an encoder or a teacher
FREE_BYTES = 2**30  # of what is made without gradients and may belong to a step
MAX_CALLS = 64  # until those are left out of whose outcomes nothing is held


class Result(NamedTuple):
    """Stands for a value of the step: an input by its name, or the outcome of an earlier call with its path in it."""

    source: str | int
    path: tuple[Any, ...] = ()


class Weight(Result):
    """Stands for a weight that a function of the script's uses outside of its module, by its place."""


class Call(NamedTuple):
    """One function or module of the step, with what it is given."""

    function: Any  # a function of PyTorch, or the place of a module among `TapedStep.called`
    args: Any
    kwargs: Any
    output: Any = None  # as the script got it
    no_grad: bool = False  # of gradients, as a teacher's
    held: tuple[str, ...] = ()  # attributes of the module that are outcomes, too: the output is a pair with them


class Loss(NamedTuple):
    """A tensor of which gradients are taken, and from which place: a loop takes those of each batch from the same."""

    tensor: Any
    place: tuple[Any, ...]  # lines of the functions at work
    loops: Any  # around it in the script


class Tape(TorchFunctionMode):
    """Records what a loop calls from its first module in training on, outside of modules and of the optimiser.

    With `fakes` devices of CUDA are the CPU, and nothing is computed from the first call of a module in training on:
    modules run on tensors without values, and gradients are not taken. With `values`, too, both are computed.
    """

    def __init__(self, fakes: Fakes | None = None, path: Path | None = None, values: bool = False) -> None:
        super().__init__()
        self.fakes, self.path = fakes, path  # of the script; None: a loop that runs on
        self._computes = values or fakes is None
        self.name = path.name if path else "watch"
        self.recording = True
        self.calls: list[Call] = []
        self.losses: list[Loss] = []
        self.mixed = False  # whether a module runs under autocast
        self.time_major: Sequence[int] = ()  # steps and sequences of what a layer with batch_first=False is given
        self._depth = 0  # of modules
        self._training = False  # whether a module was called in training
        self._faking = False  # whether the outermost module that runs now runs without values
        self._entered = 0.0  # when it was called
        self.pauses: list[tuple[float, Stack]] = []  # of a script: seconds of its own work, and where they ended
        self._left = math.inf  # seconds of its thread when a function of PyTorch ended
        self.works = set[CodeType]()  # the script's functions that use weights outside of modules
        self.evaluations, self._passing = Evaluations(), Passing()
        self._most_calls = MAX_CALLS
        self._threads = 0  # of the script's functions, while a module runs on one
        self._trained: dict[int, torch.Tensor] = {}  # weights of all optimisers, by their place
        self._free_bytes = 0
        self._evaluated = math.inf  # when a function first used weights that are trained, without gradients
        self.reads = 0  # of values by the host before a loss
        self.first: tuple[str, int | None] | None = None  # the first module that was called in training, and its line
        self._outermost: torch.nn.Module | None = None  # of those that run
        self._opened, self._closed = set[int](), set[int]()  # modules that take gradients; those not open yet
        self._bare: torch.Tensor | None = None  # the last weight that was read as plain data
        self._changed: tuple[int, int] | None = None  # calls and losses before weights changed without an optimiser
        self.by_hand: Callable[[], None] = lambda: None  # called where gradients are taken again after that

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function and record it, and how long the script worked without PyTorch before it."""
        seconds = time.thread_time() - self._left
        if seconds > PAUSE_SECONDS and self.path is not None and self.recording and not self._depth:
            self.pauses.append((seconds, Stack(self.path)))
        try:
            return self._called(function, args, kwargs)
        finally:
            self._left = time.thread_time()

    def _called(self, function: Any, args: Any, kwargs: Any) -> Any:
        kwargs, name, starts = kwargs or {}, getattr(function, "__name__", ""), False
        tensor = bool(args) and torch.is_tensor(args[0])
        if name == "backward" and tensor and self.recording and self._depth == 0 and self.calls:
            self._take(args[0])
            if not self._computes:
                return None
        if name == "backward" and self._depth and self.fakes is not None:
            self._closed.add(id(self._outermost))
        if self._changes_weight(function, name, args):
            self._changed = self._changed or (len(self.calls), len(self.losses))
        if name in READING and self._training and self._depth == 0 and not self.losses:
            self.reads += 1
        if self.fakes is None:
            result = function(*args, **kwargs)
        elif name in ("cuda", "pin_memory") and tensor:
            return args[0]
        elif self._depth == 0 and function in ON_GPU:
            return ON_GPU[function]
        else:
            if function is torch.device:
                number = [type(value) for value in args] == [int]
                return torch.device("cuda", *args) if number else torch.device(*args, **kwargs)
            if name == "to" and len(args) > 1 and type(args[1]) is int:
                args = (args[0], "cpu", *args[2:])
            args, kwargs = on_cpu(args, kwargs)
            if name in MAKING and tensor and not (self._training or self._depth):  # a module's own mask, at its start
                args = like_itself(args, kwargs)
            result = self._of_weights(function, args, kwargs)
            starts = result is not None and torch.is_grad_enabled()
            if result is None:
                result = self.fakes.call(function, args, kwargs)
        if function == GETS_DATA and is_weight(args[0]):
            self._bare = result
        if (self.calls or starts) and any(map(torch.is_tensor, leaves(result))):
            self._record(function, args, kwargs, result)
        return result

    def _changes_weight(self, function: Any, name: str, args: Any) -> bool:
        """Whether a function changes a weight in place after a loss, where no optimiser has any: a step by hand."""
        if self._trained or not self.losses or self._depth or not args:
            return False
        in_place = function == SETS_DATA or name in IN_PLACE or (name[-1:] == "_" != name[-2:-1])
        return in_place and name not in WANTING and (is_weight(args[0]) or args[0] is self._bare)

    def _of_weights(self, function: Any, args: Any, kwargs: Any) -> Any:
        """The outcome without values of a function that uses trained weights outside of their module; else None.

        Where a script trains so, its training starts there.
        """
        name = getattr(function, "__name__", "")
        changes = name[-1:] == "_" != name[:1]
        if self._depth or self.fakes is None or changes or name in ("__get__", "__set__", "__deepcopy__"):
            return None
        weight = next((leaf for leaf in leaves((args, kwargs)) if is_weight(leaf)), None)
        if weight is None or (not torch.is_grad_enabled() and not self._evaluates_long(weight)):
            return None
        with nullcontext() if self._computes else self.fakes.mode:
            result = self.fakes.call(function, args, kwargs)
        made = [leaf for leaf in leaves(result) if torch.is_tensor(leaf)]
        if not torch.is_grad_enabled():
            return result if made else None
        if not any(leaf.requires_grad and leaf is not weight for leaf in made) or not self._is_trained(weight):
            return None
        if not self._training:
            self._start(name)
        if self.path is not None and (code := own_code(self.path)) is not None:
            self.works.add(code)
        return result

    def _evaluates_long(self, weight: torch.nn.Parameter) -> bool:
        """Whether functions have used trained weights without gradients for a while, before the training."""
        if self._training or not self._is_trained(weight):
            return False
        self._evaluated = min(self._evaluated, time.monotonic())
        return time.monotonic() - self._evaluated > EVALUATION_SECONDS

    def _start(self, name: str) -> None:
        """Training starts in a call of this module or function."""
        self._training = True
        self.first = name, Stack(self.path).line if self.path else None
        self.evaluations.end()

    def _take(self, loss: torch.Tensor) -> None:
        """Note a loss, whose gradients have no values."""
        if self._changed is not None:
            self.forget(*self._changed)
            self._changed = None
            self.by_hand()
        if not self._training and self.fakes is not None:
            self._start("backward")
        stack = Stack(self.path or Path())
        place = stack.own_lines if self.path else stack.lines
        self.losses.append(Loss(loss, place, stack.amount if self.path else None))
        if len(self.losses) > MAX_GRADIENTS:
            raise StudyError(
                f"{self.name}: {MAX_GRADIENTS} gradients, and no optimiser of torch.optim stepped: take one"
            )
        if self.fakes is not None and not self._computes:
            modules = {call.function for call in self.calls if is_module(call.function) and not call.no_grad}
            for weight in [weight for module in modules for weight in weights_in(module) if weight.requires_grad]:
                weight.grad = self.fakes.like(weight) if weight.grad is None else weight.grad
            for leaf in (call.output for call in self.calls if getattr(call.function, "__name__", "") in WANTING):
                leaf.grad = self.fakes.like(leaf) if leaf.is_leaf and leaf.requires_grad else None

    def opens(self) -> bool:
        """Whether a module took gradients: from now on what is inside of it belongs to the step, which comes again."""
        new = self._closed - self._opened
        self._opened |= new
        if self._depth and id(self._outermost) in new:  # it steps by itself, and is left unseen
            self._depth -= 1
            self._compute()
        return bool(new)

    def _compute(self) -> None:
        """Let tensors have values again."""
        if self._threads:
            torch.set_num_threads(self._threads)
            self._threads = 0
        if self._faking and self.fakes is not None:
            self._faking = False
            self.fakes.mode.__exit__(None, None, None)

    def _record(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Keep a call outside of modules; of those without gradients no more than FREE_BYTES, as of a validation."""
        no_grad = not torch.is_grad_enabled()
        if not self.recording or self._depth or (no_grad and self.fakes is None):
            return
        if no_grad:
            made = (leaf for leaf in leaves(output) if torch.is_tensor(leaf) and not is_fake(leaf))
            self._free_bytes += sum(leaf.nbytes for leaf in made)
            if self._free_bytes > FREE_BYTES:
                self._free_bytes, self.calls = 0, [call for call in self.calls if not call.no_grad]
        held = [] if no_grad or not is_module(function) else [*kept_by(function)]
        given = (output, {name: kept(function, name) for name in held}) if held else output
        self.calls.append(Call(function, args, kwargs, given, no_grad, tuple(held)))

    def _let_go(self) -> None:
        """Leave out calls of whose outcomes nothing is held: where none of a network is left, no training has started.

        Such a script evaluates, or collects frames, in training mode and with gradients.
        """
        if self.losses or not self.recording or len(self.calls) < self._most_calls:
            return
        kinds = [call_kind(*call[:2]) if is_module(call.function) else None for call in self.calls]
        calls, self.calls = self.calls, []
        held = held_of(calls)
        self.calls = [held[place] for place in sorted(held)]
        self._passing.drop(kind for place, kind in enumerate(kinds) if kind is not None and place not in held)
        self._most_calls = 2 * len(self.calls) + MAX_CALLS
        if not any(is_module(call.function) or any(map(is_weight, tensors_of(call))) for call in self.calls):
            self._training, self.first, self.reads = False, None, 0

    def _enter(self, module: torch.nn.Module, args: Any) -> Any:
        """A module is called; return its inputs in the format of its weights."""
        weight = next(weights_in(module), None)
        if self._depth == 0 and weight is None and any(map(is_module, args)):  # a loss calls the model that it is given
            self._opened.add(id(module))
        if self._is_open(module):
            return args
        self.mixed = self.mixed or any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        if getattr(module, "batch_first", True) is False and args and torch.is_tensor(args[0]) and args[0].ndim == 3:
            self.time_major = self.time_major or tuple(args[0].shape[:2])
        if self._depth == 0 and self.fakes is not None and weight is not None:
            self._let_go()
            kind = call_kind(module, args)
            passes = not is_fake(weight) and self._passing.is_computed(kind)
            learns = module.training or any(is_weight(part) and self._is_trained(part) for part in args)
            if learns and torch.is_grad_enabled() and not (self._training or kind in self._passing):
                self._start(type(module).__name__)
            without = (
                self._training
                or kind in self._passing
                or self._is_heavy(module)
                or (not module.training and self._is_trained(weight))
            )
            if passes:  # threads that wait for each other take longer than a small network
                self._threads = torch.get_num_threads()
                torch.set_num_threads(1)
            elif without and not self._computes:
                self._faking = True
                args = plain(args)
                self.fakes.mode.__enter__()
        if self._depth == 0:
            self._entered, self._outermost = time.monotonic(), module
        self._depth += 1
        return in_format_of(next(weights_in(module, recurse=False), None), args)

    def _is_open(self, module: torch.nn.Module) -> bool:
        """Whether what is inside of a module is called in its place."""
        return id(module) in self._opened or isinstance(module, Whole)

    def _is_heavy(self, module: torch.nn.Module) -> bool:
        """Whether a module, called without gradients beside what is trained, is so large that values take long here."""
        if torch.is_grad_enabled() or not self._trained:
            return False
        return sum(weight.numel() for weight in weights_in(module)) >= HEAVY

    def _is_trained(self, weight: torch.nn.Parameter) -> bool:
        """Whether an optimiser has this weight."""
        return id(weight) in self._trained

    def trains(self, weights: Iterable[torch.Tensor]) -> None:
        """Remember that an optimiser has these weights."""
        self._trained |= {id(weight): weight for weight in weights}

    def _leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A module has given its output, or raised."""
        if self._is_open(module):
            return
        self._depth -= 1
        if self._depth == 0 and self.fakes is not None:
            seconds, faking, passes = time.monotonic() - self._entered, self._faking, self._threads > 0
            self._compute()
            if torch.is_grad_enabled():
                self._passing.add(call_kind(module, args), seconds, not faking)
            if passes or not (self._training or module.training):
                self.evaluations.add(module, (args, kwargs), output, math.inf if faking else seconds)
        self.time_major = self.time_major or wrapped_steps(module, args)
        self._record(module, args, kwargs, output)

    def hooks(self, step: Callable[..., None]) -> list[Any]:
        """Registered for all modules, and `step` for all optimisers."""
        return [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(step),
        ]

    @contextmanager
    def resting(self) -> Iterator[None]:
        """Record nothing for a while."""
        before, self.recording = self.recording, False
        try:
            yield
        finally:
            self.recording = before

    def forget(self, calls: int = 0, losses: int = 0) -> None:
        """Begin a new step, or go back to so many calls and losses of this one."""
        self.calls, self.losses = self.calls[:calls], self.losses[:losses]


class Guessed(TorchFunctionMode):
    """Makes functions of PyTorch find ones where they read values of fake tensors, and the CPU where they name CUDA."""

    def __init__(self, fakes: Fakes) -> None:
        super().__init__()
        self._fakes = fakes

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call a function."""
        name = getattr(function, "__name__", "")
        if name == "cuda":
            return args[0]
        return self._fakes.call(function, *on_cpu(args, kwargs or {}))


class TapedStep(torch.nn.Module):
    """The loss of a batch, as the script works it out: `step(**inputs).loss`."""

    def __init__(
        self,
        calls: Sequence[Call],
        losses: Sequence[Result],
        dtypes: Mapping[str, torch.dtype],
        time_major: bool = False,
        size: int = 0,
        graphs: Mapping[str, "OfGraphs"] | None = None,
        weights: Sequence[torch.nn.Parameter] = (),
    ) -> None:
        super().__init__()
        self.dtypes, self.time_major, self.size = dict(dtypes), time_major, size  # of the script's batch
        modules = [*dict.fromkeys(call.function for call in calls if is_module(call.function))]
        self.called = torch.nn.ModuleList(modules)
        self.weights = torch.nn.ParameterList(weights)  # that functions use
        places = {id(module): place for place, module in enumerate(modules)}
        self.calls = [call._replace(function=places.get(id(call.function), call.function)) for call in calls]
        self.losses = losses
        self.reads_values = False
        self.untrained: frozenset[str] = frozenset()  # weights that no optimiser has, though gradients may reach them
        self.wanting: frozenset[str] = frozenset()  # inputs that gradients are taken of
        self.joins = False  # whether it may talk to other processes
        self.graphs = dict(graphs or {})  # inputs of a batch of graphs: the part that each is

    @classmethod
    def from_tape(
        cls, calls: Sequence[Call], losses: Sequence[Loss], time_major: Sequence[int], name: str
    ) -> tuple["TapedStep", dict[str, torch.Tensor], int]:
        """The part of the tape that the loss needs, the tensors of one batch by name, and how many batches are summed.

        Where a loop takes the gradients of several batches before the optimiser steps, the last one is the step's.
        """
        makers = Makers(calls)
        passes, last = last_losses(makers, losses)
        needed = makers.needed_for(last)
        modules = [place for place in needed if is_module(calls[place].function)]
        modules = modules and modules[_first_of(calls, modules) :]
        learn = (place for place in needed if not calls[place].no_grad)
        begins = [*modules[:1], *(place for place in learn if any(map(is_weight, tensors_of(calls[place]))))]
        if not begins:
            raise StudyError(f"{name}: its loss follows from no module: {NAME_IT}")
        kept = [place for place in needed if place >= min(begins)]  # what came before made the batch
        inputs = Inputs(makers, kept, modules, time_major, name)
        linked = [inputs.linked(place) for place in kept]
        order = inputs.order
        outcomes = [loss._replace(source=order[int(loss.source)]) for loss in last if loss.source in order]
        if not inputs.batch:  # an image that is optimised is all that is given
            inputs.batch["input_0"] = torch.zeros(inputs.count)
        dtypes = {key: value.dtype for key, value in inputs.batch.items()}
        size = len(next(iter(inputs.batch.values())))
        step = cls(linked, outcomes, dtypes, inputs.time_major, size, inputs.kinds, list(inputs.weights.values()))
        step.wanting = frozenset() if inputs.time_major else frozenset(inputs.wanting)
        return step, inputs.batch, passes

    def forward(self, **inputs: Any) -> Any:
        """Names of the script's batch to the output of its first module, with the loss as `loss`.

        Of a smaller batch what a loop over its images does with the others is left out.
        """
        with self.in_its_group():
            return self._forward(inputs)

    def in_its_group(self) -> AbstractContextManager[None]:
        """Answer for the other processes of the script's group for a while, if it may have one."""
        return alone() if self.joins else nullcontext()

    def _forward(self, inputs: dict[str, Any]) -> Any:
        outputs: list[Any] = []
        size = len(next(iter(inputs.values())))
        inputs = inputs | {name: inputs[name].detach().requires_grad_() for name in self.wanting}

        def value(given: Any) -> Any:
            if not isinstance(given, Result):
                return given
            if isinstance(given, Weight):
                return self.weights[int(given.source)]
            if isinstance(given.source, str):
                return self._input(given.source, inputs[given.source])
            part_of = outputs[given.source]
            for part in given.path:
                part_of = (parts_of(part_of) or {}).get(part, ABSENT)
            return part_of

        for call in self.calls:
            function = self.called[call.function] if isinstance(call.function, int) else call.function
            args, kwargs = (
                present(mapped(value, tree))
                for tree in (
                    tuple(shared_out(part, self.size, size) for part in call.args),
                    shared_out(call.kwargs, self.size, size),
                )
            )
            name = getattr(function, "__name__", "")
            if not is_module(function) and not self.graphs:
                args, kwargs = resized(name, args, kwargs, self.size, size)
            elif self.graphs:  # whose number a module is given
                args, kwargs = mapped(
                    lambda part: size if type(part) is int and part == self.size else part, (args, kwargs)
                )
            given = [*args, *kwargs.values()]
            if any(part is ABSENT for part in given):
                rest = [part for part in given if part is not ABSENT]
                sums = name in ADDING or (name in SUBTRACTING and given[0] is not ABSENT)
                outputs.append(rest[0] if sums and rest else ABSENT)
                continue
            if name.endswith("_") and not name.endswith("__") and args:  # an earlier loss may need what it changes
                args = (args[0].clone(), *args[1:])
            with torch.no_grad() if call.no_grad else nullcontext():
                try:
                    output = function(*args, **kwargs)
                    held = {name: kept(function, name) for name in call.held}
                    outputs.append((output, held) if held else output)
                except IndexError:  # output[5] of four images
                    if size >= self.size:
                        raise
                    outputs.append(ABSENT)
        losses = [part for part in map(value, self.losses) if part is not ABSENT]
        first, *others = (_as_number(getattr(part, "loss", part)) for part in losses)
        loss = sum(others, first)
        modules = (out for out, call in zip(outputs, self.calls, strict=True) if isinstance(call.function, int))
        return StepOutput(loss=loss, logits=next(filter(torch.is_tensor, leaves(next(modules, loss)))))

    def _input(self, name: str, batch: torch.Tensor) -> torch.Tensor:
        """One input as the script gave it."""
        batch = batch.transpose(0, 1).contiguous() if self.time_major else batch
        if name in self.graphs:
            batch = joined_graphs(batch, self.graphs[name])
        dtype = self.dtypes[name]
        if dtype in HALVES:  # as its weights are, which may be in another format now
            return batch.to(next((weight.dtype for weight in self.parameters() if weight.is_floating_point()), dtype))
        return batch if dtype.is_floating_point else batch.to(dtype)

    def without_fakes(self) -> "TapedStep":
        """The same step for other modes of fake tensors and for none: weights on `meta`, constants of ones."""
        self.calls = [
            call._replace(args=mapped(ones, call.args), kwargs=mapped(ones, call.kwargs)) for call in self.calls
        ]
        for module in self.modules():
            for name, value in list(vars(module).items()):  # what a module kept of its first call
                if name not in ("_parameters", "_buffers", "_modules") and any(map(is_fake, leaves(value))):
                    setattr(module, name, ones(value))
        replace_tensors(self, lambda tensor: _shape(tensor) if is_fake(tensor) else tensor)
        return self

    def copied(self) -> "TapedStep":
        """A step of its own modules on the same weights, so that a change of one, as to 16 bits, is not in the next.

        Weights that were too large to be made are zeros, unless shapes are enough.
        """
        shared: list[Any] = [self.calls, *self.parameters(), *self.buffers()]
        for module in self.modules():  # trainers, settings, constants
            shared += [value for value in vars(module).values() if type(value) not in OWN]
        step = copy.deepcopy(self, {id(value): value for value in shared})
        probe = torch.empty(0)
        if not probe.is_meta and not is_fake(probe) and any(weight.is_meta for weight in step.parameters()):
            replace_tensors(
                step, lambda tensor: torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor
            )
        return step

    def extra_repr(self) -> str:
        """The functions that are called in turn, by which one step is known from another."""
        return " ".join(str(getattr(call.function, "__name__", call.function)) for call in self.calls)


class StepOutput(dict[str, Any]):
    """The loss and what stands for the output, by name and as attributes."""

    @property
    def loss(self) -> Any:
        """The mean loss of the batch."""
        return self["loss"]


class Makers:
    """The calls that made each tensor, in their order: an operation in place makes it again."""

    def __init__(self, calls: Sequence[Call]) -> None:
        self.calls = calls
        self._made: dict[int, list[Result]] = {}
        for number, call in enumerate(calls):
            for path, leaf in paths(call.output):
                if torch.is_tensor(leaf):
                    self._made.setdefault(id(leaf), []).append(Result(number, path))

    def of(self, leaf: Any, before: int) -> Result | None:
        """The last call before this one that made a tensor."""
        made = [result for result in self._made.get(id(leaf), ()) if int(result.source) < before]
        return made[-1] if torch.is_tensor(leaf) and made else None

    def needed_for(self, losses: Iterable[Result]) -> list[int]:
        """The calls that these losses follow from, in their order."""
        needed: set[int] = set()
        waiting = [int(loss.source) for loss in losses]
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                makers = (self.of(leaf, place) for leaf in tensors_of(self.calls[place]))
                waiting += [int(maker.source) for maker in makers if maker is not None]
        return sorted(needed)


def last_losses(makers: Makers, losses: Sequence[Loss]) -> tuple[int, list[Result]]:
    """How many batches losses are of, and those of the last one, of each place and networks; without any a last call.

    A batch's loss may be taken in parts: what they follow from they share, and each has a call of its own.
    """
    made = [(loss, makers.of(loss.tensor, len(makers.calls))) for loss in losses]
    last = dict[Any, list[list[Result]]]()  # the losses of each batch
    before = dict[Any, set[int]]()
    for loss, result in made:
        if result is None:
            continue
        called = [place for place in makers.needed_for([result]) if is_module(makers.calls[place].function)]
        # A loss, which has no weights, may be made anew for each batch.
        called = [place for place in called if next(weights_in(makers.calls[place].function), None) is not None]
        key = loss.place, *dict.fromkeys(makers.calls[place].function for place in called)
        learn = {place for place in called if not makers.calls[place].no_grad}
        known = before.get(key, set())
        if not (learn & known and learn - known and known - learn):
            last.setdefault(key, []).append([])
        last[key][-1].append(result)
        before[key] = learn
    _join_alike(makers, last)
    batches = sum(map(len, last.values())) // max(1, len(last))
    return max(1, batches), [part for of in last.values() for part in of[-1]] or [Result(len(makers.calls) - 1)]


def _join_alike(makers: Makers, last: dict[Any, list[list[Result]]]) -> None:
    """Join losses that are worked out in the same way, as where the last batch of a step has a line of its own.

    Two losses of each batch are as many as each other.
    """
    alike = defaultdict[Any, list[Any]](list)
    for key, batches in last.items():
        functions = (makers.calls[place].function for place in makers.needed_for(batches[-1]))
        alike[key[1:], tuple(functions)].append(key)
    for *keys, kept in alike.values():
        if len({len(last[key]) for key in (*keys, kept)}) > 1:
            last[kept] = [batch for key in (*keys, kept) for batch in last[key]]
            for key in keys:
                del last[key]


def _first_of(calls: Sequence[Call], modules: Sequence[int]) -> int:
    """The number of the first of these calls that works on a batch of the training, such as a teacher's.

    A network that collects frames before has a batch of its own, and so has what makes one image of a batch.
    """
    firsts = [next((leaf for leaf in tensors_of(calls[place]) if leaf.ndim), torch.empty(())) for place in modules]
    sizes = [tensor.shape[:2] for tensor in firsts]
    learn = [number for number, place in enumerate(modules) if not calls[place].no_grad]
    weighted = (number for number in learn if next(weights_in(calls[modules[number]].function), None) is not None)
    trains = next(weighted, next(iter(learn), 0))
    return next(number for number, size in enumerate(sizes) if set(size) & {*sizes[trains][:1]} or number == trains)


def held_of(calls: list[Call]) -> dict[int, Call]:
    """Empty a list of calls; return, by place, those of whose outcome the script or a later of them holds a part.

    A call that gives back what it is given, changed or not, is held where that is.
    """
    held, waiting = dict[int, Call](), defaultdict[int, list[tuple[int, Call]]](list)

    def judge(place: int, call: Call) -> None:
        call = _weakly(call, lambda leaf: leaf() if isinstance(leaf, weakref.ref) else leaf)
        if any(map(torch.is_tensor, leaves(call.output))):
            held[place] = call

    while calls:
        call = calls.pop()
        made = {id(leaf) for leaf in leaves(call.output) if torch.is_tensor(leaf)}
        given = made.intersection(map(id, leaves((call.args, call.kwargs))))
        call = _weakly(call, lambda leaf, made=made: weakref.ref(leaf) if id(leaf) in made else leaf, bool(given))  # type: ignore[misc]
        if given:
            waiting[min(given)].append((len(calls), call))
            continue
        judge(len(calls), call)
        for place, later in (pair for key in made for pair in waiting.pop(key, ())):
            judge(place, later)
    for place, later in (pair for pairs in waiting.values() for pair in pairs):
        judge(place, later)
    return held


def _weakly(call: Call, function: Callable[[Any], Any], given: bool = True) -> Call:
    """A call with another outcome, and with other arguments where they are such outcomes."""
    args, kwargs = mapped(function, (call.args, call.kwargs)) if given else (call.args, call.kwargs)
    return call._replace(output=mapped(function, call.output), args=args, kwargs=kwargs)


def tensors_of(call: Call) -> list[torch.Tensor]:
    """The tensors that a call is given."""
    return [leaf for leaf in leaves((call.args, call.kwargs)) if torch.is_tensor(leaf)]


class Inputs:
    """The tensors of a batch, by the names under which the first module takes them or by numbers."""

    def __init__(
        self, makers: Makers, kept: Sequence[int], modules: Sequence[int], time_major: Sequence[int], name: str
    ) -> None:
        calls, self._makers = makers.calls, makers
        self.order = {old: new for new, old in enumerate(kept)}
        given = [leaf for place in kept for leaf in tensors_of(calls[place])]
        tensors = tensors_of(calls[modules[0]]) if modules else [leaf for leaf in given if not self._is_made(leaf)]
        trained = [leaf for leaf in tensors if is_weight(leaf)]
        tensors = [leaf for leaf in tensors if leaf.ndim and leaf.layout == torch.strided and not is_weight(leaf)]
        tensors = tensors or [torch.zeros(leaf.shape[:1]) for leaf in trained if leaf.ndim]  # images that are optimised
        if not tensors:
            raise StudyError(f"{name}: the first module takes no tensor, so its batch is not known; write a model file")
        self.batch: dict[str, torch.Tensor] = {}
        self.time_major = bool(time_major) and tuple(time_major) == tuple(tensors[0].shape[:2])
        alike = (call for call in calls if modules and call.function is calls[modules[0]].function)
        self._second = not self.time_major and any(is_second(tensors_of(call)) for call in alike)
        self.time_major = self.time_major or self._second
        self._leading = tensors[0].shape[: 1 + self.time_major]
        self._names = dict[int, str]()
        self.kinds: dict[str, OfGraphs] = {}  # of inputs of graphs
        self.wanting = set[str]()  # inputs that gradients are taken of
        ids = (leaf for leaf in given if is_ids(leaf) and len(leaf) == self._leading[0])
        has_edges = any(map(is_edges, given))
        named = {id(leaf) for place in kept for name, leaf in named_leaves(calls[place]) if NUMBERS_GRAPHS.search(name)}
        self._ids = None if self.time_major else next((leaf for leaf in ids if has_edges or id(leaf) in named), None)
        self._graphs = 0 if self._ids is None else int(self._ids[-1]) + 1
        self._edges = {leaf.shape[1] for leaf in given if is_edges(leaf)}  # how many there are
        self.weights: dict[int, torch.nn.Parameter] = {}  # that functions use

    @property
    def count(self) -> int:
        """Examples of a batch."""
        return int(self._leading[-1])

    def _is_made(self, leaf: torch.Tensor) -> bool:
        """Whether a call of the step makes a tensor."""
        maker = self._makers.of(leaf, len(self._makers.calls))
        return maker is not None and maker.source in self.order

    def linked(self, place: int) -> Call:
        """A call with references to inputs and earlier outcomes in place of tensors."""
        call = self._makers.calls[place]
        args = mapped(lambda leaf: self._reference(leaf, place), call.args)
        kwargs = {
            name: mapped(lambda leaf, name=name: self._reference(leaf, place, name), value)  # type: ignore[misc]
            for name, value in call.kwargs.items()
        }
        return Call(call.function, args, kwargs, no_grad=call.no_grad, held=call.held)

    def _reference(self, leaf: Any, before: int, name: str = "") -> Any:
        """A leaf as the step has it: an earlier outcome, an input, or what it was."""
        maker = self._makers.of(leaf, before)
        if maker is not None and maker.source in self.order:
            return maker._replace(source=self.order[int(maker.source)])
        if is_weight(leaf):
            self.weights.setdefault(id(leaf), leaf)
            return Weight([*self.weights].index(id(leaf)))
        if not torch.is_tensor(leaf) or leaf.layout != torch.strided:
            return leaf  # a sparse matrix is of the whole graph
        kind = self._kind(leaf)
        if kind is None and not self._leads(leaf.shape):
            return leaf
        if id(leaf) not in self._names:
            self._names[id(leaf)] = name = name if name and name not in self.batch else f"input_{len(self.batch)}"
            tensor = leaf.detach()
            if leaf.requires_grad and leaf.is_leaf:
                self.wanting.add(name)
            if kind is not None:
                self.kinds[name] = kind
                tensor = by_graph(tensor, kind, self._graphs)
            self.batch[name] = tensor.transpose(0, 1) if self.time_major else tensor
        return Result(self._names[id(leaf)])

    def _leads(self, shape: Sequence[int]) -> bool:
        """Whether a tensor of this shape is of the batch."""
        if self._second:  # sequences of any length
            return tuple(shape[1:2]) == tuple(self._leading[1:])
        leading = self._leading if not self._graphs else (self._graphs,)
        return tuple(shape[: len(leading)]) == tuple(leading)

    def _kind(self, leaf: torch.Tensor) -> "OfGraphs | None":
        """The part of a tensor in a batch of graphs; None of one of another batch, or of a number for each graph."""
        if not self._graphs or not leaf.ndim or len(leaf) == self._graphs:
            return None
        nodes = -(-self._leading[0] // self._graphs)
        if leaf is self._ids:
            return OfGraphs("ids", nodes)
        if len(leaf) == self._leading[0]:
            return OfGraphs("rows", nodes)
        if is_edges(leaf):
            return OfGraphs("edges", nodes)
        return OfGraphs("values", nodes) if len(leaf) in self._edges else None


def wrapped_steps(module: torch.nn.Module, args: Any) -> Sequence[int]:
    """Steps and sequences of what is given to a layer that its wrapper, as one that drops weights, calls by `forward`.

    The layer takes the time steps first, and is all that there is in the wrapper.
    """
    layer = next(iter(module.children()), None) if len([*module.children()]) == 1 else None
    first = args[0] if args and torch.is_tensor(args[0]) and args[0].ndim == 3 else None
    if not isinstance(layer, torch.nn.RNNBase) or layer.batch_first or first is None:
        return ()
    return tuple(first.shape[:2]) if first.shape[2] == layer.input_size else ()


def is_ids(leaf: Any) -> bool:
    """Whether a tensor has the number of its graph for each node: 0, 0, 0, 1, 1, ..."""
    if not torch.is_tensor(leaf) or is_fake(leaf) or leaf.ndim != 1 or leaf.dtype != torch.int64 or len(leaf) < 2:
        return False
    steps = leaf.diff()
    return int(leaf[0]) == 0 and 0 < int(leaf[-1]) < len(leaf) - 1 and bool(((steps == 0) | (steps == 1)).all())


def is_second(given: Sequence[torch.Tensor]) -> bool:
    """Whether the batch is the second axis of a module's inputs: ids of sequences of several lengths agree in it.

    Several texts for each example are as many times as long, in the first axis.
    """
    wide = [tensor for tensor in given if tensor.ndim > 1]
    lengths = [len(tensor) for tensor in wide if tensor.ndim == 2 and tensor.dtype == torch.int64]
    least = max(1, min(lengths, default=1))
    return len({tensor.shape[1] for tensor in wide}) == 1 and any(length % least for length in lengths)


def is_edges(leaf: Any) -> bool:
    """Whether a tensor has the first and the last node of each edge in two rows."""
    return torch.is_tensor(leaf) and leaf.ndim == 2 and len(leaf) == 2 and leaf.dtype == torch.int64


def named_leaves(call: Call) -> Iterator[tuple[str, Any]]:
    """Return what a module is given, by the names of its arguments: they tell graphs from classes in order."""
    given = dict(call.kwargs)
    if is_module(call.function):
        with suppress(TypeError, ValueError):
            given = inspect.signature(call.function.forward).bind(*call.args, **call.kwargs).arguments
    return ((name.lower(), leaf) for name, value in given.items() for leaf in leaves(value))


class OfGraphs(NamedTuple):
    """The part of a batch of graphs that a tensor has: what nodes have (rows), their graphs (ids), edges, or values."""

    part: str
    nodes: int  # of each graph


def by_graph(tensor: torch.Tensor, kind: OfGraphs, graphs: int) -> torch.Tensor:
    """A tensor of a batch of graphs with the graphs first, each with the mean number of nodes and edges."""
    if kind.part == "edges":
        count = -(-tensor.shape[1] // graphs)
        edges = tensor[:, torch.arange(graphs * count) % tensor.shape[1]] % kind.nodes
        return edges.reshape(2, graphs, count).transpose(0, 1)
    count = -(-len(tensor) // graphs) if kind.part == "values" else kind.nodes
    return tensor[torch.arange(graphs * count) % len(tensor)].reshape(graphs, count, *tensor.shape[1:])


def joined_graphs(batch: torch.Tensor, kind: OfGraphs) -> torch.Tensor:
    """The tensor of these graphs as one large graph."""
    graphs = torch.arange(len(batch), device=batch.device)
    if kind.part == "edges":
        return (batch + kind.nodes * graphs.reshape(-1, 1, 1)).transpose(0, 1).flatten(1)
    return graphs.repeat_interleave(kind.nodes) if kind.part == "ids" else batch.flatten(0, 1)


def plain(tree: Any) -> Any:
    """The same with tensors of PyTorch's own class, in place of images and boxes of a library's."""

    def of(leaf: Any) -> Any:
        stays = not torch.is_tensor(leaf) or is_fake(leaf) or isinstance(leaf, torch.nn.Parameter)
        return leaf if stays or type(leaf) is torch.Tensor else leaf.as_subclass(torch.Tensor)

    return mapped(of, tree) if any(of(leaf) is not leaf for leaf in leaves(tree)) else tree


def like_itself(args: Any, kwargs: Any) -> Any:
    """The arguments of a function that makes a tensor, with values where these are truths or whole numbers."""
    dtype = kwargs.get("dtype") or args[0].dtype
    has_values = not is_fake(args[0]) or dtype.is_floating_point or dtype.is_complex
    return args if has_values else (torch.empty(0, dtype=args[0].dtype), *args[1:])


def is_module(function: Any) -> bool:
    """Whether a call is of a module."""
    return isinstance(function, torch.nn.Module)


def kept_by(module: torch.nn.Module) -> Iterator[str]:
    """The names of what a module keeps of its call as an attribute, such as its last loss, and a part of it as one."""
    for path, part in module.named_modules():
        for name, value in vars(part).items():
            made = torch.is_tensor(value) and value.requires_grad and not value.is_leaf
            if made and (part is module or value.ndim == 0):
                yield f"{path}.{name}".removeprefix(".")


def kept(module: torch.nn.Module, name: str) -> Any:
    """Return what it keeps by such a name."""
    path, _, last = name.rpartition(".")
    return getattr(module.get_submodule(path), last)


def weights_in(module: torch.nn.Module, recurse: bool = True) -> Iterator[torch.nn.Parameter]:
    """The weights of a module, whose class may have a `parameters` of its own."""
    return torch.nn.Module.parameters(module, recurse)


def is_weight(value: Any) -> bool:
    """Whether a value is a module's weight."""
    return isinstance(value, torch.nn.Parameter)


def optimizers_in(scopes: Iterable[Mapping[str, Any]]) -> list[torch.optim.Optimizer]:
    """The optimisers among the script's variables."""
    values = [value for scope in scopes for value in scope.values()]
    values += [inner for value in values if isinstance(value, list | tuple) for inner in value]
    return [value for value in values if isinstance(value, torch.optim.Optimizer)]


def weights_of(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """The weights that they change, one optimiser around another the same."""
    return {id(weight) for optimizer in optimizers for group in optimizer.param_groups for weight in group["params"]}


def _as_number(loss: Any) -> Any:
    """A loss, or what stands for an output whose gradient is given: all of its numbers together."""
    return loss.sum() if loss.numel() > 1 else loss


def _shape(tensor: torch.Tensor) -> torch.Tensor:
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def in_format_of(weight: torch.Tensor | None, inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """Inputs of a layer in the number format of its weight, as autocast has them on a GPU: it does nothing here."""
    if weight is None or weight.dtype not in FORMATS:
        return inputs
    return tuple(part.to(weight.dtype) if torch.is_tensor(part) and part.dtype in FORMATS else part for part in inputs)


def parts_of(tree: Any) -> Mapping[Any, Any] | None:
    """Return what is inside by key: of a mapping, a list, or an object that holds tensors; None of a leaf."""
    if isinstance(tree, Mapping):
        return tree
    if isinstance(tree, tuple | list) and not isinstance(tree, Result):
        return dict(enumerate(tree))
    if callable(attribute(tree, "to_dict")) and callable(attribute(tree, "keys")):  # a graph
        return dict(tree.to_dict())
    whole = torch.is_tensor(tree) or isinstance(tree, torch.optim.Optimizer) or callable(tree)
    return None if whole else _held_by(tree)


def _held_by(thing: Any) -> dict[str, Any] | None:
    """The attributes of an object of a script's own that are tensors or hold some, as images with their mask."""
    attributes = attribute(thing, "__dict__") or {}
    inside = {name: value.values() if isinstance(value, dict) else value for name, value in attributes.items()}
    kinds = (torch.Tensor, Result)
    held = {
        name: attributes[name]
        for name, value in inside.items()
        if isinstance(value, kinds)
        or (isinstance(value, Sequence | ValuesView) and any(isinstance(part, kinds) for part in value))
    }
    return held or None


def shared_out(tree: Any, size: int, count: int) -> Any:
    """The tree with so many parts of each list that has something fixed for each of `size` images."""
    if type(tree) not in (tuple, list, dict):
        return tree
    if isinstance(tree, dict):
        return {key: shared_out(part, size, count) for key, part in tree.items()}
    inside = leaves(list(tree))
    made = any(isinstance(leaf, Result) or is_module(leaf) for leaf in inside)
    if not made and any(map(torch.is_tensor, inside)) and len(tree) == size != count:
        return type(tree)(tree[place % size] for place in range(count))
    return type(tree)(shared_out(part, size, count) for part in tree)


def present(tree: Any) -> Any:
    """The arguments without what is absent in lists; it stays where it is an argument itself."""

    def without(part: Any) -> Any:
        if type(part) in (tuple, list):
            return type(part)(without(inner) for inner in part if inner is not ABSENT)
        return part

    return {key: without(part) for key, part in tree.items()} if isinstance(tree, dict) else tuple(map(without, tree))


def paths(tree: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[tuple[Any, ...], Any]]:
    """The leaves of nested containers with the keys that lead to each."""
    parts = None if torch.is_tensor(tree) or is_module(tree) else parts_of(tree)
    if parts is None:
        yield above, tree
        return
    for key in parts:
        yield from paths(parts[key], (*above, key))


def leaves(tree: Any) -> list[Any]:
    """The leaves of nested containers, of long lists of numbers as fast as they are read."""
    if type(tree) in PLAIN or torch.is_tensor(tree) or is_module(tree):
        return [tree]
    if type(tree) in (list, tuple) and all(type(part) in PLAIN for part in tree):
        return [*tree]
    parts = parts_of(tree)
    return [tree] if parts is None else [leaf for part in parts.values() for leaf in leaves(part)]


def mapped(function: Callable[[Any], Any], tree: Any) -> Any:
    """The same containers with each leaf replaced; a Result is a leaf."""
    parts = None if torch.is_tensor(tree) or is_module(tree) else parts_of(tree)
    if parts is None:
        return function(tree)
    made = {key: mapped(function, part) for key, part in parts.items()}
    if type(tree) in (tuple, list):
        return type(tree)(made.values())
    if isinstance(tree, tuple | list):
        return tree._make(made.values()) if hasattr(tree, "_make") else tree
    if isinstance(tree, Mapping):
        return made
    changed = _copied(tree)
    attributes = vars(changed)
    for key, part in made.items():
        if key in attributes:  # of an object that may be frozen
            attributes[key] = part
        else:
            setattr(changed, key, part)
    return changed


def _copied(thing: Any) -> Any:
    """A copy of an object of a script's own, also of one that asks what it holds for what it does not have."""
    with suppress(Exception):
        return copy.copy(thing)
    changed = object.__new__(type(thing))
    vars(changed).update(vars(thing))
    return changed

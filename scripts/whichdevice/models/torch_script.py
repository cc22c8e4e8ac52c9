"""The training step of an ordinary PyTorch script, as a module that gives its loss.

A step is what runs between two steps of the optimiser. PyTorch's mode for functions (`torch.overrides`) shows the
functions that the script calls, its global hooks the modules; what is inside of a module belongs to that module. From
this tape `Step` makes the loss of a batch again: tensors that have the batch as their first axis are its inputs,
everything else is kept as it was. Where layers take the time steps first, the batch is the second axis.
"""

import ast
import copy
import inspect
import os
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook
from torch.nn.parallel import DistributedDataParallel
from torch.optim.optimizer import register_optimizer_step_pre_hook
from torch.overrides import TorchFunctionMode
from torch.utils.data import DataLoader

from whichdevice.code_hash import parsed
from whichdevice.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.framework import TORCH
from whichdevice.models.script_run import (
    NAME_IT,
    Found,
    Script,
    Started,
    called_in,
    calls_of,
    line_of,
    others_like,
    run,
)
from whichdevice.models.script_size import HOLDERS, frames, is_whole, loops_in, outside, sizes, steps_in, switched_off

MOST_PARAMETERS = 3e8  # of a module that is stopped at its first call: its forward and backward take long here
COPIES = 4  # of the script's first batch, as data
SPAWNS = re.compile(r"\b(mp|multiprocessing)\.spawn\(")
ASKS_RANK = re.compile(r"environ\.get\(\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)\b")  # it runs without torchrun, too
TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
COMPILER = "_dynamo/eval_frame.py"  # the file of PyTorch from which a compiled function or module is called
MOST_GRADIENTS = 1000  # that are taken without a step of the optimiser
IN_MODULE = "put what is trained into a torch.nn.Module as torch.nn.Parameter"
FREE_BYTES = 2**30  # of what is made without gradients and may belong to a step
MOST_TRIAL_STEPS, TRIAL_SECONDS = 100, 10.0  # of what may come before the training: a search for a learning rate
SUMMED = "The optimiser steps after {passes} batches; the times count it for each batch."


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
    free: bool = False  # of gradients, as a teacher's


class Loss(NamedTuple):
    """A tensor of which gradients are taken, and from which lines: a loop takes those of each batch from the same."""

    tensor: Any
    lines: tuple[tuple[Any, int], ...]
    loops: tuple[int | None, int | None] | None  # around it in the script


class Tape(TorchFunctionMode):
    """Records what a script calls from its first module in training on, outside of modules and of the optimiser."""

    def __init__(self, start: Callable[[FrameType | None], None] | None, path: Path | None = None) -> None:
        super().__init__()
        self.start = start  # is called where the training starts, and does not return; None: the program trains on
        self.path = path  # of the script
        self.recording = True
        self.calls: list[Call] = []
        self.depth = 0  # of modules
        self.mixed = False  # whether a module runs under autocast
        self.compiled = False  # whether one runs in what torch.compile gave
        self.losses: list[Loss] = []
        self.free_bytes = 0
        self.time_major: Sequence[int] = ()  # steps and sequences of what a layer with batch_first=False is given

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Call the function and record it; gradients of the recorded modules are zeros, which take no time.

        Without a GPU the devices of CUDA that a script names are the CPU.
        """
        kwargs = kwargs or {}
        if self.start is not None and not torch.cuda.is_available():
            if getattr(func, "__name__", "") in ("cuda", "pin_memory") and args and torch.is_tensor(args[0]):
                return args[0]
            args = tuple("cpu" if is_cuda(each) else each for each in args)
            kwargs = {name: "cpu" if is_cuda(each) else each for name, each in kwargs.items()}
        backward = getattr(func, "__name__", "") == "backward" and args and torch.is_tensor(args[0])
        if backward and self.recording and self.depth == 0 and self.calls:
            frame = inspect.currentframe()
            loops = None if self.path is None else loops_in(frame, self.path)
            self.losses.append(Loss(args[0], tuple(_lines(frame)), loops))
            if len(self.losses) > MOST_GRADIENTS:
                where = self.path.name if self.path else "watch"
                raise StudyError(
                    f"{where}: {MOST_GRADIENTS} gradients, and no optimiser of torch.optim stepped: take one"
                )
            if self.start is not None:
                self._without_gradients()
                return None
        result = func(*args, **kwargs)
        if self.calls and any(map(torch.is_tensor, _leaves(result))):
            self._record(func, args, kwargs, result)
        return result

    def _record(self, function: Any, args: Any, kwargs: Any, output: Any) -> None:
        """Keep a call outside of modules; of those without gradients no more than FREE_BYTES, as of a validation."""
        free = not torch.is_grad_enabled()
        if not self.recording or self.depth or (free and self.start is None):
            return
        if free:
            self.free_bytes += sum(each.nbytes for each in _leaves(output) if torch.is_tensor(each))
            if self.free_bytes > FREE_BYTES:
                self.free_bytes, self.calls = 0, [call for call in self.calls if not call.free]
        self.calls.append(Call(function, args, kwargs, output, free))

    def _without_gradients(self) -> None:
        modules = {call.function for call in self.calls if isinstance(call.function, torch.nn.Module) and not call.free}
        for weight in [each for module in modules for each in module.parameters() if each.requires_grad]:
            weight.grad = torch.zeros_like(weight) if weight.grad is None else weight.grad

    def enter(self, module: torch.nn.Module, args: Any) -> None:
        """A module is called; a large one is not waited for."""
        self.mixed = self.mixed or any(map(torch.is_autocast_enabled, ("cpu", "cuda")))
        if getattr(module, "batch_first", True) is False and args and torch.is_tensor(args[0]) and args[0].ndim == 3:
            self.time_major = self.time_major or tuple(args[0].shape[:2])
        if self.recording and self.depth == 0 and torch.is_grad_enabled():
            callers = (code.co_filename for code, _ in _lines(inspect.currentframe()))
            self.compiled = self.compiled or any(name.endswith(COMPILER) for name in callers)
        if self.start is not None and self.depth == 0 and torch.is_grad_enabled() and module.training:
            sizes = [each.numel() for each in module.parameters() if each.requires_grad]
            if sum(sizes) > MOST_PARAMETERS:
                # The hook of all modules is not given them: they are in PyTorch's frame below it.
                named: Mapping[str, Any] = next(
                    (scope["kwargs"] for scope in frames(inspect.currentframe()) if "kwargs" in scope), {}
                )
                self.calls = [Call(module, args, dict(named), None)]
                self.start(inspect.currentframe())
        self.depth += 1

    def leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        """A module has given its output."""
        self.depth -= 1
        self._record(module, args, kwargs, output)

    def hooks(self, step: Callable[..., None]) -> list[Any]:
        """Registered for all modules, and `step` for all optimisers."""
        return [
            register_module_forward_pre_hook(self.enter),
            register_module_forward_hook(self.leave, with_kwargs=True),
            register_optimizer_step_pre_hook(step),
        ]


class Step(torch.nn.Module):
    """The loss of a batch, as the script works it out: `step(**inputs).loss`."""

    def __init__(
        self,
        calls: Sequence[Call],
        losses: Sequence[Result],
        dtypes: Mapping[str, torch.dtype],
        time_major: bool = False,
    ) -> None:
        super().__init__()
        self.dtypes, self.time_major = dict(dtypes), time_major
        modules = [*dict.fromkeys(call.function for call in calls if isinstance(call.function, torch.nn.Module))]
        # A copy has none of the hooks by which replicas exchange gradients.
        self.called = torch.nn.ModuleList(
            copy.deepcopy(each.module) if isinstance(each, DistributedDataParallel) else each for each in modules
        )
        places = {id(module): place for place, module in enumerate(modules)}
        self.calls = [call._replace(function=places.get(id(call.function), call.function)) for call in calls]
        self.losses = losses

    def forward(self, **inputs: Any) -> Any:
        """Names of the script's batch to the output of its first module, with the loss as `loss`."""
        outputs: list[Any] = []

        def value(given: Any) -> Any:
            if isinstance(given, Result):
                if isinstance(given.source, str):
                    wanted, batch = self.dtypes[given.source], inputs[given.source]
                    batch = batch.transpose(0, 1).contiguous() if self.time_major else batch
                    return batch if wanted.is_floating_point else batch.to(wanted)
                found = outputs[given.source]
                for part in given.path:
                    found = found[part]
                return found
            return given

        for call in self.calls:
            function = self.called[call.function] if isinstance(call.function, int) else call.function
            args, name = _mapped(value, call.args), getattr(function, "__name__", "")
            if (
                name.endswith("_") and not name.endswith("__") and args
            ):  # an earlier loss may still need what it changes
                args = (args[0].clone(), *args[1:])
            with torch.no_grad() if call.free else nullcontext():
                outputs.append(function(*args, **_mapped(value, call.kwargs)))
        given = [value(each) for each in self.losses]
        loss = sum((getattr(each, "loss", each) for each in given[1:]), getattr(given[0], "loss", given[0]))
        first = next(
            (out for out, call in zip(outputs, self.calls, strict=True) if isinstance(call.function, int)), loss
        )
        return StepOutput(loss=loss, logits=next(filter(torch.is_tensor, _leaves(first))))

    def extra_repr(self) -> str:
        """The functions that are called in turn, by which one step is known from another."""
        return " ".join(str(getattr(call.function, "__name__", call.function)) for call in self.calls)


class StepOutput(dict[str, Any]):
    """The loss and what stands for the output, by name and as attributes."""

    @property
    def loss(self) -> Any:
        """The mean loss of the batch."""
        return self["loss"]


class Watch:
    """The training step of a PyTorch loop that runs on: `with Watch(optimizer, ask) as step:` around its first steps.

    After it `module`, `batch` (tensors by name) and `optimizer` (a function of a module) are those of the first step.
    """

    module: Step | None = None
    meant: "Watch | None" = None  # in a script that is run until its training starts: the one that is meant
    probing = False  # whether a script is run so

    def __init__(self, optimizer: torch.optim.Optimizer, ask: Callable[..., Any]) -> None:
        self._optimizer, self._tape, self._ask = optimizer, Tape(None), ask
        self._hooks: list[Any] = []
        Watch.meant = self

    def __enter__(self) -> "Watch":
        if not Watch.probing:
            self._hooks = self._tape.hooks(lambda optimizer, *_: self._ends(optimizer))
            self._tape.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        for hook in self._hooks:
            hook.remove()
        if self._hooks:
            self._tape.__exit__(*error)
        if error[0] is None and not Watch.probing:
            if self._tape.recording:
                raise StudyError("watch: the optimiser did not step: run at least one step inside of `with`")
            self.module, self.batch, _ = _step(self._tape, "watch")
            self.optimizer = partial(_again, type(self._optimizer), dict(self._optimizer.defaults))
            self._tape.calls.clear()

    def ask(self, **wants: Any) -> Any:
        """The answer for this step, with the options of `whichdevice.ask`; raises StudyError in one line."""
        if self.module is None:
            raise StudyError("watch: nothing was recorded: run a step inside of `with whichdevice.watch(...)`")
        batch = {name: tensor.detach() for name, tensor in self.batch.items()}
        size = len(next(iter(batch.values())))
        return self._ask(self.module, batch, **{"optimizer": self.optimizer, "batch_size": size} | wants)

    def _ends(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer is self._optimizer:
            self._tape.recording = False
        elif self._tape.recording:  # another training's
            self._tape.calls.clear()
            self._tape.losses.clear()

    def means(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimiser's training is meant."""
        return optimizer is self._optimizer


def start_torch(path: Path) -> Script:
    """The script's step with its first batch and its optimiser; raises StudyError where no optimiser steps."""
    torch.compiler.set_stance("force_eager")  # a compiled step hides its functions
    sources = [each.read_text(encoding="utf-8") for each in read_address(str(path)).files()]
    if SPAWNS.search("".join(sources)):
        raise StudyError(
            f"{path.name}: it trains in processes of torch.multiprocessing.spawn; ask about a copy that calls the "
            "function itself, with rank 0 of 1"
        )
    if "init_process_group(" in "".join(sources) and not ASKS_RANK.search("".join(sources)):
        os.environ.update({**TORCHRUN, **os.environ})
    seen = SimpleNamespace(stepped=[], scopes=[], line=None, loops=None, outside=[])
    trials: dict[int | None, Any] = {}
    began = 0.0

    def start(frame: FrameType | None) -> None:
        """Stop here; a loop of few steps may come before the training, and goes on for a few seconds."""
        nonlocal began
        line, loops = line_of(frame, path), loops_in(frame, path)
        if line not in trials:
            seen.scopes, seen.line, seen.loops = list(frames(frame)), line, loops
            seen.outside = outside(frame, path)
            if not (loops[0] == 1 and loops[1] and loops[1] <= MOST_TRIAL_STEPS):
                raise Started
            trials[line] = SimpleNamespace(**vars(seen), calls=tape.calls, losses=tape.losses)
            began = began or time.monotonic()
        elif time.monotonic() - began > TRIAL_SECONDS:
            raise Started
        seen.stepped, tape.calls, tape.losses = [], [], []

    tape = Tape(start, path)

    def stop(optimizer: Any, args: Any, kwargs: Any) -> None:
        """Start where every optimiser of the script has stepped, as a GAN's two do, or the first one steps again."""
        if isinstance(optimizer, torch.optim.LBFGS):
            line = line_of(inspect.currentframe(), path)
            raise StudyError(f"{path.name}, line {line}: LBFGS evaluates the loss many times a step; ask with Adam")
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if callable(closure):  # it works out the loss
            closure()
        if Watch.meant is not None and not Watch.meant.means(optimizer):
            tape.calls.clear()
            tape.losses.clear()
            return
        seen.stepped.append(optimizer)
        others = _weights_of(_optimizers_in(frames(inspect.currentframe())))
        if optimizer in seen.stepped[:-1] or others <= _weights_of(seen.stepped):
            start(inspect.currentframe())

    hooks, Watch.probing, Watch.meant = tape.hooks(stop), True, None
    try:
        with tape:
            run(path)
    except Started:
        pass
    finally:
        for hook in hooks:
            hook.remove()
        Watch.probing = False
    if trials and seen.line in trials:  # no longer training came after them
        seen = max(trials.values(), key=lambda trial: trial.loops[1])
        tape.calls, tape.losses = seen.calls, seen.losses
    if seen.stepped and not tape.calls:
        raise StudyError(f"{path.name}: its optimiser steps and no module is called: {IN_MODULE}")
    if not seen.scopes:
        raise StudyError(f"{path.name}: ended, and no optimiser of torch.optim stepped: {NAME_IT}")
    called = {
        free: {call.function for call in tape.calls if isinstance(call.function, torch.nn.Module) and call.free == free}
        for free in (True, False)
    }
    trained = _weights_of([*seen.stepped, *_optimizers_in(seen.scopes)])
    if trained and not trained & {id(each) for module in called[False] for each in module.parameters()}:
        raise StudyError(f"{path.name}, line {seen.line}: its optimiser changes no weights of a module: {IN_MODULE}")
    for weight in (each for module in called[True] - called[False] for each in module.parameters()):
        weight.requires_grad_(id(weight) in trained)  # a teacher's have neither gradients nor an optimiser's state
    step, batch, passes = _step(tape, path.name)
    if any(weight.dtype == torch.float64 for weight in step.parameters()):
        raise StudyError(f"{path.name}: its weights are float64, which GPUs are slow in: leave out double()")
    size = len(next(iter(batch.values())))
    shapes = [each.transpose(0, 1).shape if step.time_major else each.shape for each in batch.values()]
    epochs, steps = seen.loops
    if steps and passes > 1 and tape.losses[-1].loops != seen.loops:  # a loop of its own takes the batches of a step
        steps *= passes
    loader = _loader(seen.scopes, size)
    if seen.loops == (None, None) and (most := steps_in(seen.scopes, loader and len(loader) // passes)):
        epochs, steps = 1, most * passes
    whole = is_whole(batch.values(), seen.outside)
    counts = sizes(seen.scopes, (epochs, steps), shapes, loader and len(loader.dataset), whole)
    if step.time_major and counts["examples"] and (steps or not loader):  # time steps were counted, of all sequences
        counts["examples"] = counts["examples"] * size // shapes[0][0]
    found = Found(
        framework=TORCH,
        batch_size=size,
        precision=_precision(step, path, tape.mixed or _asks_for_16_bits(seen.scopes), seen.scopes),
        compiled=tape.compiled,
        line=seen.line,
        notes=(*([SUMMED.format(passes=passes)] if passes > 1 else []), *others_like(path, seen.line)),
        **counts,
    )
    copies = max(COPIES, -(-8 // size))
    data = {name: np.concatenate([_array(value)] * copies) for name, value in batch.items()}
    optimizer = next(iter(seen.stepped or _optimizers_in(seen.scopes)), None)
    again = partial(_again, type(optimizer), {} if optimizer is None else dict(optimizer.defaults))
    both = (data,), (data,)  # for validation, too: a module may need a batch in its order
    functions = SimpleNamespace(model=lambda: step, data=lambda: both, optimizer=lambda module: again(module))
    return Script(found, functions, loader)


def _step(tape: Tape, name: str) -> tuple[Step, dict[str, torch.Tensor], int]:
    """The part of the tape that the loss needs, the tensors of one batch by name, and how many batches are summed.

    Where a loop takes the gradients of several batches before the optimiser steps, the last one is the step's.
    """
    calls = tape.calls
    made: dict[int, list[Result]] = {}  # by tensor, in the order of calls: an operation in place makes it again
    for number, call in enumerate(calls):
        for key, leaf in _paths(call.output):
            if torch.is_tensor(leaf):
                made.setdefault(id(leaf), []).append(Result(number, key))

    def maker(leaf: Any, before: int) -> Result | None:
        found = [each for each in made.get(id(leaf), ()) if int(each.source) < before]
        return found[-1] if torch.is_tensor(leaf) and found else None

    def needed_for(losses: Iterable[Result]) -> set[int]:
        needed: set[int] = set()
        waiting = [int(loss.source) for loss in losses]
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                given = (*_leaves(calls[place].args), *_leaves(calls[place].kwargs))
                waiting += [int(found.source) for each in given if (found := maker(each, place)) is not None]
        return needed

    taken = [(loss, found) for loss in tape.losses if (found := maker(loss.tensor, len(calls)))]
    last: dict[Any, Result] = {}
    for loss, found in taken:
        called = [calls[place].function for place in sorted(needed_for([found]))]
        nets = [each for each in called if isinstance(each, torch.nn.Module)]
        # A loss, which has no weights, may be made anew for each batch.
        last[loss.lines, *(net for net in nets if next(net.parameters(), None) is not None)] = found
    losses = [*last.values()] or [Result(len(calls) - 1)]
    needed = needed_for(losses)
    modules = [place for place in sorted(needed) if isinstance(calls[place].function, torch.nn.Module)]
    if not modules:
        raise StudyError(f"{name}: its loss follows from no module: {NAME_IT}")
    kept = [place for place in sorted(needed) if place >= modules[0]]  # what came before made the batch
    first = calls[modules[0]]
    tensors = [leaf for leaf in (*_leaves(first.args), *_leaves(first.kwargs)) if torch.is_tensor(leaf) and leaf.ndim]
    if not tensors:
        raise StudyError(f"{name}: the first module takes no tensor, so its batch is not known; write a model file")
    weights = {id(each) for place in modules for each in calls[place].function.parameters()}
    order = {old: new for new, old in enumerate(kept)}
    leading = tensors[0].shape[:2] if tape.time_major == tuple(tensors[0].shape[:2]) else tensors[0].shape[:1]
    batch: dict[str, torch.Tensor] = {}
    names: dict[int, str] = {}

    def reference(leaf: Any, before: int, name: str) -> Any:
        """A leaf as the step has it: an earlier outcome, an input, or what it was."""
        found = maker(leaf, before)
        if found is not None and found.source in order:
            return found._replace(source=order[int(found.source)])
        if not torch.is_tensor(leaf) or id(leaf) in weights or leaf.shape[: len(leading)] != leading:
            return leaf
        if id(leaf) not in names:
            names[id(leaf)] = name = name if name and name not in batch else f"input_{len(batch)}"
            batch[name] = leaf.detach().transpose(0, 1) if len(leading) > 1 else leaf.detach()
        return Result(names[id(leaf)])

    linked = [
        Call(
            calls[place].function,
            _mapped(partial(reference, before=place, name=""), calls[place].args),
            {
                name: _mapped(partial(reference, before=place, name=name), each)
                for name, each in calls[place].kwargs.items()
            },
            free=calls[place].free,
        )
        for place in kept
    ]
    outcomes = [loss._replace(source=order[int(loss.source)]) for loss in losses if loss.source in order]
    step = Step(linked, outcomes, {key: each.dtype for key, each in batch.items()}, len(leading) > 1)
    return step, batch, max(1, len(taken) // len(losses))


def _lines(frame: FrameType | None) -> Iterator[tuple[Any, int]]:
    while frame is not None:
        yield frame.f_code, frame.f_lineno
        frame = frame.f_back


def _precision(step: Step, path: Path, mixed: bool, scopes: Sequence[Mapping[str, Any]]) -> str:
    """Mixed where a module runs under `autocast`, or the script or a file beside it has it for GPUs; else TF32.

    Without convolutions products use TF32 only where the script asks for that.
    """
    own = read_address(str(path)).files()
    files = [each for each in own if called_in(each, "autocast")]
    given = (each for file in own for call in calls_of(parsed(file.read_bytes())) for each in call.keywords)
    where_available = any(each.arg in ("fp16", "bf16") and "cuda" in ast.unparse(each.value) for each in given)
    if mixed or where_available or not all(switched_off(each, "autocast", scopes) for each in files):
        return "mixed"
    convolves = any(isinstance(each, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d) for each in step.modules())
    return "single" if convolves or torch.get_float32_matmul_precision() != "highest" else "float32"


def _asks_for_16_bits(scopes: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the arguments of Hugging Face's Trainer or Accelerate do, which a CPU ignores."""
    held = [scope.get(name) for scope in scopes for name in (*HOLDERS, "accelerator")]
    asked = (getattr(each, name, None) for each in held for name in ("fp16", "bf16", "mixed_precision"))
    return any(each is True or each in ("fp16", "bf16") for each in asked if isinstance(each, bool | str))


def _loader(scopes: Sequence[Mapping[str, Any]], size: int) -> Any:
    """The loader with this batch size, or the one of the most examples."""
    values = [value for scope in scopes for value in scope.values()]
    values += [getattr(scope.get(name), "train_dataloader", None) for scope in scopes for name in HOLDERS]
    known = [each for each in values if isinstance(each, DataLoader) and hasattr(each.dataset, "__len__")]
    return min(known, key=lambda loader: (loader.batch_size != size, -len(loader.dataset)), default=None)


def _optimizers_in(scopes: Iterable[Mapping[str, Any]]) -> list[torch.optim.Optimizer]:
    """The optimisers among the script's variables."""
    values = [value for scope in scopes for value in scope.values()]
    values += [each for value in values if isinstance(value, list | tuple) for each in value]
    return [each for each in values if isinstance(each, torch.optim.Optimizer)]


def _weights_of(optimizers: Iterable[torch.optim.Optimizer]) -> set[int]:
    """Which weights they change, one optimiser around another the same."""
    return {id(each) for optimizer in optimizers for group in optimizer.param_groups for each in group["params"]}


def _again(kind: Any, defaults: Mapping[str, Any], module: Any) -> Any:
    """A fresh optimiser of the same kind and settings over the module's trained parameters; of no kind AdamW."""
    weights = [each for each in module.parameters() if each.requires_grad]
    if kind is type(None):
        return torch.optim.AdamW(weights)
    known = inspect.signature(kind.__init__).parameters
    return kind(weights, **{name: each for name, each in defaults.items() if name in known})


def is_cuda(value: Any) -> bool:
    """Whether it names a device of CUDA."""
    return isinstance(value, str | torch.device) and str(value).startswith("cuda")


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

"""A PyTorch script that runs as it is until one period of its training is recorded: its work, memory and amounts.

A period goes from the end of an optimiser's step to the end of its next one; of several optimisers the one that steps
least often counts. Weights have shapes alone, so what follows from them takes no time and no memory. Batches are real
until they meet a weight: masks, lengths and labels keep their values. Devices of CUDA are the CPU.
"""

import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from functools import partial, wraps
from importlib import import_module
from types import FrameType, ModuleType
from typing import Any, ClassVar

import torch
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_forward_hook,
    register_module_forward_pre_hook,
    register_module_parameter_registration_hook,
)
from torch.optim.optimizer import register_optimizer_step_post_hook, register_optimizer_step_pre_hook
from torch.utils._pytree import tree_leaves

from whichdevice.base.errors import StudyError
from whichdevice.models.address import file_address
from whichdevice.models.framework import TORCH
from whichdevice.models.script.amounts import loops_at
from whichdevice.models.script.environment import environment_in
from whichdevice.models.script.found import RECORDER, Script
from whichdevice.models.script.frames import frames, is_own, line_of
from whichdevice.models.script.run import SEED, ScriptRun
from whichdevice.models.script.text import launch_of
from whichdevice.models.script.torch_answers import answer
from whichdevice.models.script.torch_fakes import Outcomes, is_fake
from whichdevice.models.script.torch_loaders import Rows
from whichdevice.models.script.torch_names import HALVES
from whichdevice.models.script.torch_recorded import Recorded, TorchPeriods, TorchTurn
from whichdevice.models.script.torch_timing import Clock

TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
MAX_TRIAL_STEPS, TRIAL_SECONDS = 100, 10.0  # of what may come before the training: a search for a learning rate
LONG = 0.3  # seconds of a batch's passes, of which one is taken down for several
COLLECT_SECONDS = 40.0  # until frames of an environment are collected again
MAX_GRADIENTS = 1000  # that are taken without a step of an optimiser
PASSES = 16  # without gradients after which another batch is not waited for: the script evaluates, or samples
LIKE = 3  # modules of one class in a row from which on checkpointing runs them again


class Watching(Recorded):
    """Watches PyTorch in a script until a period is recorded of the optimiser that steps least often."""

    probing: ClassVar[bool] = False  # whether a script is run until its training starts
    meant: ClassVar[Any] = None  # the optimiser whose steps the script watches itself, by `whichdevice.watch`

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self._is_other = False  # whether another batch is tried
        self._passes = 0  # without gradients since then
        self._optimizers: list[Any] = []  # that were made
        self._depth, self._casts = 0, list[Any]()
        self._rows, self._gradients = Rows(), 0
        self._changed = False  # whether weights changed without an optimiser
        self._part_began = 0.0  # when its batch's pass began
        self._blocks = set[int]()  # modules that repeat, whose passes checkpointing would run again
        self._outcomes, self._repeats = Outcomes(), False
        self._repeated = set[Any]()  # kernels of batches that came twice in a step

    @property
    def trains(self) -> bool:
        """Return whether a module was called in training."""
        return self._called is not None

    @property
    def without_values(self) -> bool:
        """Return whether its training has started and is not computed."""
        return self.trains and not self.run.conditions.values

    @property
    def has_started(self) -> bool:
        """Return whether a period was recorded, after which an error is no matter, or a step, where it exits itself."""
        return bool(self._trials) or self._periods.is_whole or (self.run.exited and self._has_stepped)

    @property
    def _has_stepped(self) -> bool:
        """Whether an optimiser has stepped."""
        return bool(self._periods.turns or self._trials)

    def stand_in(self, package: str) -> Mapping[str, Any]:
        """Return what stands for a package that trains on several GPUs."""
        return self._names.stand_in(package)

    def attach(self, package: ModuleType) -> None:
        """Watch PyTorch, or a library on it."""
        if package.__name__ == TORCH:
            self._attach_torch()
        else:
            self._names.replace_library(package)

    def _attach_torch(self) -> None:
        has_gpu = torch.cuda.is_available()
        self._replace_names()
        if self.run.conditions.timed:
            Clock(self, self._loaders, has_gpu)  # hooks hold it
            return
        Watching.probing, Watching.meant = True, None
        self._replace_gradients()
        self._loaders.watch(self.replace)
        self._hook()
        for mode in (self.recorder, import_module(RECORDER).AsOnGPU(self.recorder)):
            mode.__enter__()  # of the script's thread, which does not end
        answer(self)

    def _replace_names(self) -> None:
        """Let the script see GPUs, and one process."""
        source = "".join(file.read_text("utf-8", "replace") for file in file_address(str(self.run.path)).files()
                         if file.suffix == ".py")  # fmt: skip
        self._launch = launch = launch_of(source)
        self._names.mixed = launch.mixed
        if launch.by_torchrun or (launch.has_batches and self.run.conditions.gpus > 1):
            os.environ.update({**TORCHRUN, "WORLD_SIZE": str(self.run.conditions.gpus), **os.environ})
        self._names.casts = self.run.conditions.precision != "float32"
        self._names.replace_torch(self.moved)
        self._names.replace_processes(partial(is_own, path=self.run.path), launch.joins)
        self._names.replace_sharding(source)
        torch.manual_seed(SEED)

    def attach_live(self, optimizer: torch.optim.Optimizer) -> None:
        """Watch a loop that trains on with this optimiser."""
        self._replace_gradients()
        self._hook()
        for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
            self._trained(weight)
        self._optimizers.append(optimizer)
        self.replacements.enter_context(self.recorder)

    def _hook(self) -> None:
        """See weights, calls of modules and steps of optimisers."""
        hooks = [
            register_module_parameter_registration_hook(self._registered),
            register_module_buffer_registration_hook(self._buffered),
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, with_kwargs=True, always_call=True),
            register_optimizer_step_pre_hook(self._begin_step),
            register_optimizer_step_post_hook(self._end_step),
        ]
        for hook in hooks:
            self.replacements.callback(hook.remove)

    def detach(self) -> None:
        """Give everything back."""
        super().detach()
        self._names.leave()
        self._outcomes.end()
        Watching.probing = False

    # What has no values, and what is on the GPU.

    def _registered(self, module: torch.nn.Module, name: str, weight: Any) -> torch.nn.Parameter | None:
        """Return a weight without values in place of one with some, the same for each module."""
        if weight is None or self.run.over or isinstance(weight, torch.nn.UninitializedParameter):
            return None
        made = self.weight(weight)
        return None if made is weight else made

    def weight(self, weight: Any) -> Any:
        """Return a weight as it is here: without values unless the script is computed."""
        if self.run.conditions.values or is_fake(weight) or weight.is_meta:
            return self._held(weight)
        if not hasattr(weight, "_without_values"):
            weight._without_values = torch.nn.Parameter(self.recorder.fakes.like(weight), weight.requires_grad)
        return self._held(weight._without_values)

    def _held(self, weight: Any) -> Any:
        """Let the recorder know a weight, and when its gradient is whole."""
        if weight.device.type != "meta":
            self.recorder.hold_as("weights", weight)
        if not hasattr(weight, "_is_watched"):
            weight._is_watched = True
            if weight.requires_grad and weight.is_leaf:
                weight.register_post_accumulate_grad_hook(self.recorder.gradient_is_whole)
        return weight

    def _buffered(self, module: torch.nn.Module, name: str, buffer: Any) -> None:
        known = isinstance(buffer, torch.Tensor) and buffer.layout == torch.strided and not buffer.is_meta
        if known and not self.run.over:
            self.recorder.hold_as("weights", buffer)

    def moved(self, module: torch.nn.Module, dtype: torch.dtype | None, layout: torch.memory_format | None) -> None:
        """Change the type of a module's tensors, or the order of their axes in memory."""
        for owner in module.modules():
            for weight in owner.parameters(recurse=False):
                weight.data = _changed(weight.detach(), dtype, layout)
                self.recorder.hold_as("weights", weight)
            for name, buffer in owner.named_buffers(recurse=False):
                setattr(owner, name, _changed(buffer, dtype, layout))

    # Calls of modules.

    def _enter(self, module: torch.nn.Module, args: Any) -> None:
        """A module is called."""
        if self.run.over or self.recorder.resting:
            return
        self._depth += 1
        for name, weight in [*module.named_parameters(recurse=False)]:
            if not hasattr(weight, "_is_watched"):
                setattr(module, name, self.weight(weight))
        if self._depth == 1:
            self._begin_call(module)
            self._in_format()
        self._rows.note(args)
        self._rows.note_time_steps(self._gradients, module, args)
        if id(module) in self._blocks:
            self.recorder.begin_block()

    def _begin_call(self, module: torch.nn.Module) -> None:
        """A module is called that no other one calls."""
        if self._changed and torch.is_grad_enabled():
            self._step_by_hand()
        if id(module) not in self._modules:
            self._modules[id(module)] = module
            self._blocks.update(map(id, blocks_in(module)))
        if not (torch.is_grad_enabled() and module.training):
            self._passes += self._is_other
            if self._passes > PASSES:
                self.run.stop(self._longest)
            return
        frame = sys._getframe(2)
        if self._called is None and next(module.parameters(), None) is not None:
            self._called = type(module).__name__, line_of(frame, self.run.path)
            self._outcomes.end()
        self._rows.begin(self._gradients, module, frame)

    def _in_format(self) -> None:
        """Let the outermost module run in the number format that is tried."""
        tried = self.run.conditions.precision
        if tried == "mixed" or (tried is None and self._names.mixed):  # a library's trainer would do so on a GPU
            cast = torch.autocast("cpu", torch.float16)
            cast.__enter__()
            self._casts.append(cast)

    def _leave(self, module: torch.nn.Module, args: Any, kwargs: Any, output: Any) -> None:
        if self.run.over or self.recorder.resting:
            return
        self._depth = max(0, self._depth - 1)
        if id(module) in self._blocks:
            self.recorder.end_block([leaf for leaf in tree_leaves(output) if isinstance(leaf, torch.Tensor)])
        if not self._depth:
            self._rows.end(kwargs)
        if not self._depth and self._casts:
            self._casts.pop().__exit__(None, None, None)
        if self._depth or self.run.conditions.values:
            return
        if self.trains and torch.is_grad_enabled():
            self._outcomes.note(module, (args, kwargs), output, self.recorder.apart)
        elif not self.trains and not torch.is_grad_enabled():
            self._outcomes.add_evaluation(module, (args, kwargs), output)

    # Gradients and steps.

    def _replace_gradients(self) -> None:
        """See where backward passes begin and end, and which optimisers are made."""
        for name in ("backward", "grad"):
            self.replace(torch.autograd, name, self._taking(getattr(torch.autograd, name)))
        self.replace(torch.Tensor, "backward", _backward)  # so that modes see what checkpointing computes again
        add, watching = torch.optim.Optimizer.add_param_group, self

        def added(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
            given = group["params"]
            given = [given] if isinstance(given, torch.Tensor) else list(given)
            named = [part if isinstance(part, tuple) else (None, part) for part in given]
            kept = [(name, watching._trained(weight)) for name, weight in named]
            add(optimizer, {**group, "params": [weight if name is None else (name, weight) for name, weight in kept]})
            if optimizer not in watching._optimizers:
                watching._optimizers.append(optimizer)
                if not (watching._has_stepped or watching.trains):
                    watching.recorder.take()  # what makes a model is in no step

        self.replace(torch.optim.Optimizer, "add_param_group", added)

    def _trained(self, weight: Any) -> Any:
        """Return what an optimiser trains: an image, too, becomes a weight."""
        if not isinstance(weight, torch.Tensor) or self.run.over:
            return weight
        if isinstance(weight, torch.nn.Parameter) or is_fake(weight) or self.run.conditions.values:
            return self.weight(weight) if weight.is_leaf else weight
        return self._held(weight)

    def _taking(self, function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def taking(*args: Any, **kwargs: Any) -> Any:
            if self.run.over or self.recorder.resting:
                return function(*args, **kwargs)
            self._gradients += 1
            if self._gradients > MAX_GRADIENTS and not self._has_stepped:
                text = f"{MAX_GRADIENTS} gradients, and no optimiser of torch.optim stepped: take one"
                self.run.stop(StudyError(f"{self.run.path.name}: {text}"))
            if self._called is None:
                self._called = "backward", line_of(sys._getframe(1), self.run.path)
            if self._repeats and function.__name__ == "backward":  # of a loss that a module may have kept
                return self._end_part()
            self.recorder.begin_backward()
            try:
                return function(*args, **kwargs)
            finally:
                self.recorder.backwards -= 1
                if function.__name__ == "backward" and not self.recorder.backwards:
                    self._end_part()

        return taking

    def _end_part(self) -> None:
        """Gradients of a batch were summed: of long ones, two that are the same stand for those that follow."""
        recorder, now = self.recorder, time.monotonic()
        if self._repeats:
            recorder.repeat_part()
        else:
            recorder.end_part()
            kernels = frozenset(recorder.parts[-1].kernels.items())
            again = len(recorder.parts) > 1 and recorder.parts[-1].kernels == recorder.parts[-2].kernels
            is_long = now - self._part_began > LONG and not self.run.conditions.values
            if is_long and (again or kernels in self._repeated):
                self._repeats = True
                self._repeated.add(kernels)
                self._outcomes.repeat()
        self._outcomes.forget()
        self._part_began = now

    def changes(self, weight: Any) -> None:
        """Note that the script changes a weight itself after a backward pass."""
        if not self._optimizers and self._gradients and self.recorder.is_weight(weight):
            self._changed = True

    def _step_by_hand(self) -> None:
        self._changed, self._by_hand, self._depth = False, True, 0
        self._end_step(None, (), {})
        self._depth = 1

    def _begin_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """Let the optimiser update all parameters at once, as on a GPU."""
        if self.run.over:
            return
        if self._repeats:
            self._repeats = False
            self._outcomes.end()
        trained = [weight for group in optimizer.param_groups for weight in group["params"] if weight.requires_grad]
        self.recorder.weights_trained = max(1, len(trained))
        self._learn |= {id(weight): weight for weight in trained}
        if not self._periods.ends[optimizer]:
            self._mixed = self._mixed or any(weight.dtype in HALVES for weight in trained)
        self.recorder.stepping += 1
        for group in optimizer.param_groups:
            if group.get("fused"):
                group |= {"fused": False, "foreach": True}
            elif group.get("foreach", 0) is None:
                group["foreach"] = True

    def _end_step(self, optimizer: Any, args: Any, kwargs: Any) -> None:
        """An optimiser has stepped: a period ends, or a part of one."""
        if self.run.over:
            return
        self.recorder.stepping = max(0, self.recorder.stepping - 1)
        if self.recorder.stepping:  # an optimiser inside of another
            return
        if Watching.meant not in (None, optimizer):
            return
        for tensor in tree_leaves([*getattr(optimizer, "state", {}).values()]):
            if isinstance(tensor, torch.Tensor) and self.recorder.is_held(tensor):
                self.recorder.hold_as("optimizer", tensor)
        if not self._has_stepped:
            self.write_nothing()
        frame = sys._getframe(1)
        line = line_of(frame, self.run.path)
        if any(line == turn.line for trial in self._trials for turn in trial.turns):
            self.recorder.take()
            self._loaders.take()
            self._rows.take()
            if time.monotonic() - self._trials[0].began > TRIAL_SECONDS:
                self.run.stop(self._longest)
            return
        self._add_turn(optimizer, frame, line)

    def _add_turn(self, optimizer: Any, frame: FrameType, line: int | None) -> None:
        """Add what ran until an optimiser has stepped; end the script where that is enough."""
        loops, trainer = loops_at(frame, self._loaders.begins, self._loaders.sizes)
        periods = self._of_other if self._is_other else self._periods
        segments, loaded, rows = self.recorder.take(), self._loaders.take(), self._rows.take()
        periods.add(TorchTurn(optimizer, loops, line, segments, loaded, rows, trainer))
        self._part_began = time.monotonic()
        self._outcomes.forget()
        if self._is_other:
            self._has_other = self._knows_other()
            if self._has_other or periods.are_enough(time.monotonic() - periods.began, known=self._optimizers):
                self.run.stop(self._longest)
        elif (waited := self._waited(frame)) is not None and periods.are_enough(waited, known=self._optimizers):
            if self._is_trial():
                self._trials.append(periods)
                self._periods = TorchPeriods()
            elif not self._try_other():
                self.run.stop(self._longest)

    def _try_other(self) -> bool:
        """Let the loader of the training give batches of half as many examples, or of two.

        False where none gives any, or where the training is over: what comes after it would write.
        """
        periods = self._periods.of_least()
        loader, _ = self._batch(periods)
        if loader is None or self._periods.ends[periods[-1][-1].end] >= self._whole(self._periods):
            return False
        self._is_other = True
        self._loaders.share = Fraction(1, 2) if self._loaders.sizes[id(loader)] > 1 else Fraction(2)
        return True

    def fails(self) -> None:
        """End the script where another batch fails: its own `finally:` would write."""
        if self._is_other and not self.run.over:
            self.run.stop(self._longest)

    def write_nothing(self) -> None:
        """Let the script write nothing once it trains."""
        super().write_nothing()
        self.replace(torch, "save", lambda *_, **__: None)

    def _knows_other(self) -> bool:
        """Return whether a period with another batch was recorded; where periods vary, as many as with the script's."""
        if self._periods.repeats:
            return self._is_as_large() or self._of_other.is_whole
        return self._of_other.is_whole and len(self._of_other.of_least()) >= len(self._periods.of_least())

    def _is_as_large(self) -> bool:
        """Return whether the first turns with another batch have all of its examples: a library may load ahead."""
        least = self._periods.of_least()[-1]
        rows, others = (sum(n for turn in turns for n in turn.rows.values()) for turns in (least, self._of_other.turns))
        is_whole = len(self._of_other.turns) == len(least)
        return is_whole and others == rows * self._loaders.share > 0

    def _is_trial(self) -> bool:
        """Return whether a loop of few steps was recorded, after which the training may come."""
        by_loader = self._length(self._periods).by_loader
        return self._whole(self._periods) <= MAX_TRIAL_STEPS and not by_loader and self._environment is None

    def _waited(self, frame: FrameType) -> float | None:
        """Return for how many seconds periods were waited for; None where frames are not collected again yet."""
        waited = time.monotonic() - self._periods.began
        if self._environment is None:
            self._environment = environment_in([one.f_locals for one in frames(frame)])
            return waited if self._environment is None else None
        return math.inf if self._environment.stepped() or waited > COLLECT_SECONDS else None

    def ended(self) -> Script | None:
        """Return what was seen of a script that came to its end."""
        if self._changed and not self._periods.turns:
            self._step_by_hand()
        return self._longest() if self._has_stepped else None


def _changed(tensor: torch.Tensor, dtype: torch.dtype | None, layout: torch.memory_format | None) -> torch.Tensor:
    """A tensor in another number format or with its axes in another order."""
    if dtype is not None and tensor.is_floating_point():
        tensor = tensor.to(dtype)
    return tensor if layout is None or tensor.ndim not in (4, 5) else tensor.contiguous(memory_format=layout)


def _backward(tensor: torch.Tensor, gradient: Any = None, *args: Any, **named: Any) -> None:
    """Take gradients by a tensor's edge: a tensor would take modes out of what checkpointing computes again."""
    if tensor.grad_fn is None or (gradient is None and tensor.numel() != 1):
        torch.autograd.backward(tensor, gradient, *args, **named)
        return
    edge = torch.autograd.graph.get_gradient_edge(tensor)
    torch.autograd.backward(edge, (torch.ones_like(tensor) if gradient is None else gradient,), *args, **named)


def blocks_in(module: Any) -> Iterator[Any]:
    """Yield the outermost modules that come several times in a row, as what checkpointing runs again."""
    kinds = Counter(map(type, module.children()))
    for child in module.children():
        if kinds[type(child)] >= LIKE:
            yield child
        else:
            yield from blocks_in(child)

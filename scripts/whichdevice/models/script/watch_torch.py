"""A PyTorch script that runs as it is until one period of its training is recorded: its work, memory and amounts.

A period goes from the end of an optimiser's step to the end of its next one; of several optimisers the one that steps
least often counts. Weights have no values, so what follows from them takes neither time nor memory; batches are real
until they meet a weight: masks, lengths and labels keep their values. Devices of CUDA are the CPU.
"""

import math
import os
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from fractions import Fraction
from functools import partial, wraps
from importlib import import_module
from types import FrameType, ModuleType, SimpleNamespace
from typing import Any

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
from whichdevice.base.numbers import number, two
from whichdevice.models.address import file_address
from whichdevice.models.framework import TORCH
from whichdevice.models.script.amounts import Length, Loop, known_length, length_of, loops_at, steps_of
from whichdevice.models.script.environment import Environment, environment_in
from whichdevice.models.script.evaluation import of_trainer
from whichdevice.models.script.found import RECORDER, SHARED, Found, Script
from whichdevice.models.script.run import SEED, ScriptRun, Watcher, is_own, others_like
from whichdevice.models.script.torch_answers import answer
from whichdevice.models.script.torch_fakes import Outcomes, is_fake
from whichdevice.models.script.torch_loaders import Loaders, frames
from whichdevice.models.script.torch_names import Names
from whichdevice.models.script.torch_periods import NOT_YET, Periods, Turn
from whichdevice.models.script.torch_timing import Clock

MAX_TRIAL_STEPS, TRIAL_SECONDS = 100, 10.0  # of what may come before the training: a search for a learning rate
LONG = 0.3  # seconds of a batch's passes, of which one is taken down for several
COLLECT_SECONDS = 40.0  # until frames of an environment are collected again
MAX_GRADIENTS = 1000  # that are taken without a step of an optimiser
PASSES = 16  # without gradients after which another batch is not waited for: the script evaluates, or samples
TIMED = 3  # axes of sequences: time, example, feature
LIKE = 3  # modules of one class in a row from which on checkpointing runs them again
PLACES = 12  # innermost lines that tell one call from another
ASKS_RANK = re.compile(r"environ\.get\(\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*,")  # it runs without torchrun, too
NEEDS_RANK = re.compile(r"environ\[\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*\](?!\s*=[^=])")  # it does not
JOINING = ("init_process_group(", "init_distributed(", "init_device_mesh(", "DistributedSampler(")
TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
LAUNCHED_MIXED = re.compile(r"--mixed[_-]precision[=\s]+[\"']?(fp16|bf16)")
LAUNCHED = re.compile(  # GPUs of a script's command, in its text
    r"(?:--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[=\s]+|\bN_?GPUS?=)[\"']?(\d+)"
)
VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)+)")
IN_MODULE = "put what is trained into a torch.nn.Module as torch.nn.Parameter"
SIMULATES = "Between two steps it collects {frames} frames on the GPU: its environment's own time there is not counted."
COLLECTS = "Between two steps it collects {frames} frames; its environment gives {rate} a second here."
BY_HAND = "It changes its weights itself, without an optimiser."
EVALUATES = "LBFGS takes the loss up to {times} times a step; what is recorded here ends sooner."


class Meant:
    """The optimiser whose steps a script watches itself, by `whichdevice.watch`."""

    here: "Meant | None" = None  # in a script that is run until its training starts
    probing = False  # whether a script is run so

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer = optimizer
        Meant.here = self


class Watching(Watcher):
    """Watches PyTorch in a script until a period is recorded of the optimiser that steps least often."""

    package = "PyTorch"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.recorder = import_module(RECORDER).Recorder()
        self._names = Names(self.replace, self._count)
        self._loaders = Loaders(self.recorder)
        self._periods, self._of_other = Periods(), Periods()  # of the script's batch, and of another one
        self._is_other = self._has_other = False  # whether another batch is tried, and was recorded
        self._passes = 0  # without gradients since then
        self._trials = list[Periods]()  # loops of few steps
        self._optimizers: list[Any] = []  # that were made
        self._called: tuple[str, int | None] | None = None  # the first module that was called in training, and its line
        self._learn: dict[int, torch.Tensor] = {}  # weights that take gradients where their optimiser steps
        self._modules: dict[int, torch.nn.Module] = {}  # outermost ones that were called
        self._depth, self._casts = 0, list[Any]()
        self._rows = Counter[Any]()  # examples by the number of the next gradients, and the place of a call
        self._waits_for_rows: Any = None  # such of a call whose examples do not show yet
        self._gradients, self._by_hand = 0, False
        self._changed = False  # whether weights changed without an optimiser
        self._mixed = False
        self._part_began = 0.0  # when its batch's pass began
        self._environment: Environment | None = None
        self._shares_out = False  # whether several GPUs share a loader's examples out
        self._by_loader = False  # whether an epoch is a pass of a loader
        self._steps: int | None = None  # of the whole training on one GPU
        self._blocks = set[int]()  # modules that repeat, whose passes checkpointing would run again
        self._outcomes, self._repeats = Outcomes(), False
        self._repeated = set[Any]()  # kernels of batches that came twice in a step
        self._joins = self._each = False
        self._launched, self._by_torchrun = 1, False

    @property
    def missing(self) -> str:
        """Return how far it came."""
        name, line = self._called or ("", None)
        called = f"{name} was called in line {line}, and " if name else ""
        return f"{called}no optimiser of torch.optim stepped"

    @property
    def trains(self) -> bool:  # type: ignore[override]
        """Return whether a module was called in training."""
        return self._called is not None

    @property
    def computes(self) -> bool:
        """Return whether weights have values."""
        return self.run.conditions.values

    @property
    def without_values(self) -> bool:  # type: ignore[override]
        """Return whether its training has started and is not computed."""
        return self.trains and not self.computes

    @property
    def has_started(self) -> bool:
        """Return whether a period was recorded, after which an error is no matter, or a step, where it exits itself."""
        return bool(self._trials) or self._periods.is_whole or (self.run.exited and self._has_stepped)

    @property
    def _has_stepped(self) -> bool:
        """Whether an optimiser has stepped."""
        return bool(self._periods.turns or self._trials)

    def _count(self) -> int:
        """The GPUs that the script sees."""
        self.run.counts_gpus = True
        return max(self.run.conditions.gpus, self._names.gpus)

    def stand_in(self, package: str) -> Mapping[str, Any]:
        """Return what stands for a package that trains on several GPUs."""
        return self._names.stand_in(package)

    def attach(self, package: ModuleType) -> None:
        """Watch PyTorch, or Lightning or DeepSpeed on it."""
        if package.__name__ == "deepspeed":
            self._names.replace_deepspeed(package)
        elif package.__name__ == "transformers.training_args":
            self._names.replace_arguments(package.TrainingArguments)
        elif package.__name__ in ("torch.utils.tensorboard", "tensorboardX"):  # it would run a model in its own way
            self.replace(package.SummaryWriter, "add_graph", lambda *_, **__: None)
        elif package.__name__ != TORCH:
            self._names.replace_trainers(package)
        else:
            self._attach_torch()

    def _attach_torch(self) -> None:
        has_gpu = torch.cuda.is_available()
        self._replace_names()
        if self.run.conditions.timed:
            Clock(self, self._loaders, has_gpu)  # hooks hold it
            return
        Meant.probing, Meant.here = True, None
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
        self._names.mixed = LAUNCHED_MIXED.search(source) is not None
        self._joins = any(name in source for name in JOINING)
        self._each = self._joins or "Accelerator(" in source or "horovod" in source
        self._launched = max((int(count) for count in LAUNCHED.findall(source)), default=1)
        if self._each:
            self._launched = max([self._launched, *(devices.count(",") + 1 for devices in VISIBLE.findall(source))])
        self._by_torchrun = self._joins and (NEEDS_RANK.search(source) is not None or not ASKS_RANK.search(source))
        if self._by_torchrun or (self._each and self.run.conditions.gpus > 1):
            os.environ.update({**TORCHRUN, "WORLD_SIZE": str(self.run.conditions.gpus), **os.environ})
        self._names.casts = self.run.conditions.precision != "float32"
        self._names.replace_torch(self.moved)
        self._names.replace_processes(partial(is_own, path=self.run.path), self._joins)
        if "fsdp" in source.lower() or "fully_shard" in source:
            self._names.replace_fsdp()
        if "parallelize_module" in source:
            self._names.replace_tensor_parallel()
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
        Meant.probing = False

    # What has no values, and what is on the GPU.

    def _registered(self, module: torch.nn.Module, name: str, weight: Any) -> torch.nn.Parameter | None:
        """Return a weight without values in place of one with some, the same for each module."""
        if weight is None or self.run.over or isinstance(weight, torch.nn.UninitializedParameter):
            return None
        made = self.weight(weight)
        return None if made is weight else made

    def weight(self, weight: Any) -> Any:
        """Return a weight as it is here: without values unless the script is computed."""
        if self.computes or is_fake(weight) or weight.is_meta:
            made = weight
        else:
            made = getattr(weight, "_without_values", None)
            if made is None:
                made = torch.nn.Parameter(self.recorder.fakes.like(weight), weight.requires_grad)
                weight._without_values = made
        if made.device.type != "meta":
            self.recorder.hold_as("weights", made)
        if not hasattr(made, "_is_watched"):
            made._is_watched = True
            if made.requires_grad:
                made.register_post_accumulate_grad_hook(self.recorder.gradient_is_whole)
        return made

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
        self._note_rows(args)
        self._note_time_steps(module, args)
        if id(module) in self._blocks:
            self.recorder.begin_block()

    def _note_time_steps(self, module: torch.nn.Module, args: Any) -> None:
        """Note the examples of a call whose layer takes time steps first, as long as what the call was given."""
        given = args[0] if args else None
        if getattr(module, "batch_first", True) or not isinstance(given, torch.Tensor) or given.ndim != TIMED:
            return
        call = next(reversed(self._rows), (None,))
        if call[0] == self._gradients and self._rows[call] == given.shape[0]:
            self._rows[call] = given.shape[1]

    def _note_rows(self, given: Any) -> None:
        """Note the examples of a call by the first tensor that a module in it is given."""
        tensors = [part for part in tree_leaves(given) if isinstance(part, torch.Tensor) and part.ndim]
        if self._waits_for_rows is not None and tensors:
            self._rows.setdefault(self._waits_for_rows, len(tensors[0]))
            self._waits_for_rows = None

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
            self._called = type(module).__name__, self._line(frame)
            self._outcomes.end()
        place = tuple((code, line) for code, line in _lines(frame))
        self._waits_for_rows = self._gradients, id(module), place

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
            self._note_rows(kwargs)
            self._waits_for_rows = None
        if not self._depth and self._casts:
            self._casts.pop().__exit__(None, None, None)
        if self._depth or self.computes:
            return
        if self.trains and torch.is_grad_enabled():
            self._outcomes.note(module, (args, kwargs), output, self.recorder.apart)
        elif not self.trains and not torch.is_grad_enabled():
            self._outcomes.add_evaluation(module, (args, kwargs), output)

    def _line(self, frame: FrameType | None) -> int | None:
        """Return the line of the script that a frame's caller is at; None: they are in other files."""
        while frame is not None:
            if frame.f_code.co_filename == str(self.run.path):
                return frame.f_lineno
            frame = frame.f_back
        return None

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
            if all(optimizer is not other for other in watching._optimizers):
                watching._optimizers.append(optimizer)
                if not (watching._has_stepped or watching.trains):
                    watching.recorder.take()  # what makes a model is in no step

        self.replace(torch.optim.Optimizer, "add_param_group", added)

    def _trained(self, weight: Any) -> Any:
        """Return what an optimiser trains: an image, too, becomes a weight."""
        if not isinstance(weight, torch.Tensor) or self.run.over:
            return weight
        if isinstance(weight, torch.nn.Parameter) or is_fake(weight) or self.computes:
            return self.weight(weight) if weight.is_leaf else weight
        self.recorder.hold_as("weights", weight)
        if weight.requires_grad and weight.is_leaf and not hasattr(weight, "_is_watched"):
            weight._is_watched = True  # type: ignore[attr-defined]
            weight.register_post_accumulate_grad_hook(self.recorder.gradient_is_whole)
        return weight

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
                self._called = "backward", self._line(sys._getframe(1))
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
            if now - self._part_began > LONG and not self.computes and (again or kernels in self._repeated):
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
        self._end_step("by hand", (), {})
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
        if not self._periods.stepped[optimizer]:
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
        if Meant.here is not None and optimizer is not Meant.here.optimizer:
            return
        for tensor in tree_leaves([*getattr(optimizer, "state", {}).values()]):
            if isinstance(tensor, torch.Tensor) and self.recorder.is_held(tensor):
                self.recorder.hold_as("optimizer", tensor)
        if not self._has_stepped:
            self.write_nothing()
        frame = sys._getframe(1)
        line = self._line(frame)
        if any(line == turn.line for trial in self._trials for turn in trial.turns):
            self.recorder.take()
            self._loaders.take()
            self._rows = Counter()
            if time.monotonic() - self._trials[0].began > TRIAL_SECONDS:
                self.run.stop(self._longest)
            return
        self._add_turn(optimizer, frame, line)

    def _add_turn(self, optimizer: Any, frame: FrameType, line: int | None) -> None:
        """Add what ran until an optimiser has stepped; end the script where that is enough."""
        loops, trainer = loops_at(frame, self._loaders.begins, self._loaders.sizes)
        periods = self._of_other if self._is_other else self._periods
        periods.add(Turn(optimizer, self.recorder.take(), self._loaders.take(), self._rows, loops, trainer, line))
        self._rows, self._part_began = Counter(), time.monotonic()
        self._outcomes.forget()
        if self._is_other:
            self._has_other = self._knows_other()
            if self._has_other or periods.are_enough(self._optimizers, time.monotonic() - periods.began):
                self.run.stop(self._longest)
        elif periods.are_enough(self._optimizers, self._waited(frame)):
            if self._is_trial():
                self._trials.append(periods)
                self._periods = Periods()
            elif not self._try_other():
                self.run.stop(self._longest)

    def _try_other(self) -> bool:
        """Let the loader of the training give batches of half as many examples, or of two.

        False where none gives any, or where the training is over: what comes after it would write.
        """
        least, periods = self._periods.of_least()
        loader, _ = self._batch(periods)
        if loader is None or self._periods.stepped[least] >= self._whole(self._periods):
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
        return self._of_other.is_whole and len(self._of_other.of_least()[1]) >= len(self._periods.of_least()[1])

    def _is_as_large(self) -> bool:
        """Return whether the first turns with another batch have all of its examples: a library may load ahead."""
        least = self._periods.of_least()[1][-1]
        own, other = (sum(n for turn in turns for n in turn.rows.values()) for turns in (least, self._of_other.turns))
        is_whole = len(self._of_other.turns) == len(least)
        return is_whole and other == own * self._loaders.share > 0

    def _is_trial(self) -> bool:
        """Return whether a loop of few steps was recorded, after which the training may come."""
        by_loader = self._length(self._periods).by_loader
        return self._whole(self._periods) <= MAX_TRIAL_STEPS and not by_loader and self._environment is None

    def _longest(self) -> Script:
        """The longest of what was recorded."""
        self._periods = max([*self._trials, *([self._periods] if self._periods.turns else [])], key=self._whole)
        return self._script()

    def _whole(self, recorded: Periods) -> float:
        """The steps of the whole training that some periods are of; as many as one likes where that does not show."""
        length = self._length(recorded)
        return (length.turns or math.inf) * (length.epochs or 1)

    def _waited(self, frame: FrameType) -> float:
        """Return for how many seconds periods were waited for: for long where frames are collected again."""
        waited = time.monotonic() - self._periods.began
        if self._environment is None:
            self._environment = environment_in([one.f_locals for one in frames(frame)])
            return waited if self._environment is None else NOT_YET
        is_enough = self._environment.stepped() or waited > COLLECT_SECONDS
        return math.inf if is_enough else NOT_YET

    # The result.

    def ended(self, variables: Mapping[str, Any]) -> Script | None:
        """Return what was seen of a script that came to its end."""
        if self._changed and not self._periods.turns:
            self._step_by_hand()
        return self._longest() if self._has_stepped else None

    def _script(self) -> Script:
        """The script as what was recorded of it."""
        name = self.run.path.name
        least, periods = self._periods.of_least()
        line = periods[-1][-1].line
        where = f"{name}, line {line}" if line else name
        if not self._modules and not self._by_hand and self._called is None:
            raise StudyError(f"{where}: its optimiser steps and no module is called: {IN_MODULE}")
        counts = self._parameters(periods, where)
        trace = self._trace(periods, counts)
        (loader, size), trainer = self._batch(periods), periods[-1][-1].trainer
        counted = self._amounts(loader, size)
        collects, between = self._collects()
        gpus, shared = self._of_gpus(size, trainer)
        notes = collects + [BY_HAND] * self._by_hand + shared
        if isinstance(least, torch.optim.LBFGS):
            notes.append(EVALUATES.format(times=least.defaults["max_iter"]))
        found = Found(
            framework=TORCH,
            batch_size=size,
            precision=self._precision(trace),
            compiled=self._names.compiled,
            unit="graph" if self._loaders.graphs else "example",
            line=line,
            notes=(*notes, *(others_like(self.run.path, line) if line else ())),
            **gpus,
            **counted,
            between=between,
            evaluations=tuple(of_trainer(trainer) or ()),
        )
        compares = trainer is None and not self._names.is_alone and not self._has_fixed_number
        joins = self._each or self._names.each or not self._by_loader
        recorded = SimpleNamespace(
            trace=trace, steps=self._steps, loads=self._loaders.sizes.get(id(loader)), compares=compares, joins=joins,
            takes_bfloat16=self.recorder.takes_bfloat16, counts_gpus=self.run.counts_gpus,
            other=self._other(size, counts), shares_weights=self._names.shares_weights,
        )  # fmt: skip
        return Script(found, recorded, loader)

    def _parameters(self, periods: Sequence[Sequence[Turn]], where: str) -> tuple[int, int, bool]:
        """Return the numbers of weights and of trained ones, and whether all are float32."""
        trained = self._learn
        used = {id(weight): weight for module in self._modules.values() for weight in module.parameters()}
        if self._by_hand:
            trained = {key: weight for key, weight in used.items() if weight.requires_grad}
        segments = (segment for period in periods for turn in period for segment in turn.segments)
        if not trained or not any(segment.whole for segment in segments):
            raise StudyError(f"{where}: its optimiser changes no weights of a module: {IN_MODULE}")
        if any(weight.dtype == torch.float64 for weight in trained.values()):
            raise StudyError(f"{where}: its weights are float64, which GPUs are slow in: leave out double()")
        weights = {**used, **trained}
        single = all(weight.dtype == torch.float32 for weight in weights.values())
        whole, learning = (sum(weight.numel() for weight in some.values()) for some in (weights, trained))
        return whole, learning, single

    def _trace(self, periods: Sequence[Sequence[Turn]], counts: tuple[int, int, bool]) -> Any:
        """Return the trace of some periods; `counts` are of `_parameters`."""
        parts = [[segment for turn in period for segment in turn.segments] for period in periods]
        return import_module(RECORDER).trace_of(parts, self.recorder, *counts)

    def _other(self, size: int, counts: tuple[int, int, bool]) -> tuple[int, Any] | None:
        """The examples and the trace of a step with another batch; None where none was recorded."""
        if not self._loaders.shared or not self._has_other:
            return None
        count = 1 if self._periods.repeats else len(self._periods.of_least()[1])
        trace = self._trace(self._of_other.of_least()[1][-count:], counts)
        return max(1, round(size * self._loaders.share)), trace.digest()

    def _batch(self, periods: Sequence[Sequence[Turn]]) -> tuple[Any, int]:
        """Return the loader of the training, and the examples of a period on one GPU."""
        loaded = sum((turn.loaded for period in periods for turn in period), Counter[int]())
        if loaded:
            key = max(loaded, key=loaded.__getitem__)
            loader = next(one for one in self._loaders.known if id(one) == key)
            return loader, max(1, round(self._loaders.sizes[key] * loaded[key] / len(periods) / self._split))
        rows = defaultdict[Any, float](float)
        for (_, *call), count in (pair for period in periods for turn in period for pair in turn.rows.items()):
            rows[tuple(call)] += count / len(periods)
        called = next((count for count in rows.values() if count > 1), 1)  # by the first that is not of one: acting is
        return None, max(1, round((called if rows else periods[-1][0].segments[0].rows) / self._split))

    def _amounts(self, loader: Any, size: int) -> dict[str, Any]:
        """Return examples of an epoch and epochs, as far as they were observed."""
        batches, examples = known_length(loader), known_length(getattr(loader, "dataset", None))
        length = self._length(self._periods, loader)
        self._by_loader = length.by_loader
        if length.turns is None or length.epochs is None or not math.isfinite(length.turns * length.epochs):
            whole = examples if loader is not None and examples else None
            return {"examples": whole, "epochs": None, "unknown": length.unknown}
        steps = max(1, round(length.turns))
        self._steps = steps * max(1, round(length.epochs))
        own = steps * size * self._split
        if length.by_loader and examples and batches:
            loads = self._loaders.sizes[id(loader)] * self._world
            if abs(loads * batches - examples) <= loads:  # but for a part of a batch
                own, self._shares_out = examples, self._world > 1
        return {"examples": own, "epochs": max(1, round(length.epochs))}

    @property
    def _has_fixed_number(self) -> bool:
        """Whether the script states the number of processes, and each of them runs it."""
        return self._names.gpus > self.run.conditions.gpus and not self._names.is_alone

    def _length(self, recorded: Periods, loader: Any = None) -> Length:
        """Return how long the loops around the steps go on, or what a trainer states."""
        least, periods = recorded.of_least()
        ends = [turn for turn in recorded.turns if turn.optimizer is least]
        drawn = sum((turn.loaded for period in periods for turn in period), Counter[int]())
        each = {key: batches / len(periods) for key, batches in drawn.items()}
        if (most := steps_of(ends[-1].trainer)) is None:
            return length_of(ends[0].loops, ends[-1].loops, max(1, len(ends) - 1), each)
        batches = known_length(loader)
        return _by_trainer(most, ends[-1].loops, batches and batches / each.get(id(loader), 1.0))

    @property
    def _split(self) -> int:
        """The GPUs that share each batch in one process."""
        return self.run.conditions.gpus if self._names.splits else 1

    @property
    def _world(self) -> int:
        several = (self._each or self._names.each) and not self._names.is_alone
        return max(1, self.run.conditions.gpus, self._names.gpus) if several else 1

    def _collects(self) -> tuple[list[str], float]:
        """Return what there is to say of the frames that are collected, and seconds between two steps for them."""
        environment = self._environment
        frames = None if environment is None else environment.frames_per_step
        rate = environment.frames_per_second() if environment is not None and frames else None
        if environment is None or not frames or not rate:
            return [], 0.0
        note = SIMULATES if environment.is_on_gpu else COLLECTS
        between = 0.0 if environment.is_on_gpu else frames / rate
        return [note.format(frames=number(frames), rate=two(rate))], between

    def _of_gpus(self, size: int, trainer: Any) -> tuple[dict[str, Any], list[str]]:
        """Return the GPUs that the script asks for, and what GPUs of one process share.

        What GPUs of several processes share shows where it runs on two.
        """
        if self._names.splits:
            return {}, [SHARED.format(batch=size * self._split)]
        gpus = self._names.gpus if self._names.gpus > 1 else self._launched
        each = self._each or self._names.each
        several = gpus > 1 or self._by_torchrun or self._names.shares_out
        if not (several or each):
            return {}, []
        by_steps = (getattr(getattr(trainer, "args", None), "max_steps", None) or 0) > 0
        keeps = "steps" if by_steps or (self._has_fixed_number and not self._shares_out) else "examples"
        return {"keeps": keeps, "asks": gpus if gpus > 1 else None if several else 1}, []

    def _precision(self, trace: Any) -> str:
        """Mixed where products are in 16 bits; else TF32: of products only where the script asks for that."""
        if self._mixed or self._names.mixed or _is_most(trace, lambda item: item.precision == "half"):
            return "mixed"
        convolves = _is_most(trace, lambda item: "convolution" in item.kind)  # which TF32 is the default of
        return "single" if convolves or torch.get_float32_matmul_precision() != "highest" else "float32"


HALVES = (torch.float16, torch.bfloat16)


def _is_most(trace: Any, chosen: Callable[[Any], bool]) -> bool:
    """Whether these are more than half of the operations."""
    whole = sum(item.operations * item.count for item in trace.work.items)
    return bool(sum(item.operations * item.count for item in trace.work.items if chosen(item)) > 0.5 * whole)


def _by_trainer(steps: int, loops: Sequence[Loop], turns: float | None) -> Length:
    """Return the length of a training whose trainer states its steps, with the loops that start it again."""
    times = math.prod(loop.turns or 1 for loop in loops)
    epochs = round(steps / math.ceil(turns)) if turns else 0
    if turns and epochs and abs(steps - epochs * turns) <= epochs:
        return Length(turns, epochs * times, by_loader=True)
    return Length(float(steps), times)


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


def _lines(frame: FrameType | None) -> Iterator[tuple[int, int]]:
    """The innermost lines at which functions are, but for PyTorch's."""
    left = PLACES
    for one in frames(frame):
        if left and not (one.f_globals.get("__name__") or "").startswith("torch."):
            left -= 1
            yield id(one.f_code), one.f_lineno


def blocks_in(module: Any) -> Iterator[Any]:
    """Yield the outermost modules that come several times in a row, as what checkpointing runs again."""
    kinds = Counter(map(type, module.children()))
    for child in module.children():
        if kinds[type(child)] >= LIKE:
            yield child
        else:
            yield from blocks_in(child)

"""A PyTorch script, stopped where its optimiser first steps: its step, its first batch, and what it asks for.

Everything runs for real until a module is called in training; from then on modules run on tensors without values
(`Tape`), so that a step of any size takes no memory here. Weights beyond MAX_REAL bytes have no values from the start.
"""

import inspect
import itertools
import math
import os
import re
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from types import CodeType, FunctionType, ModuleType, SimpleNamespace
from typing import Any, NoReturn

import numpy as np
import torch
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils.data import DataLoader

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import number, time_words, two
from whichdevice.models.address import file_address
from whichdevice.models.data import repeated
from whichdevice.models.framework import TORCH
from whichdevice.models.script.environment import FRAMES, Environment, environment_in
from whichdevice.models.script.evaluation import after_trainer, evaluations_in, of_trainer, passes_in
from whichdevice.models.script.found import Evaluation, Found, Script
from whichdevice.models.script.run import SEED, ScriptRun, Watcher, is_own, others_like
from whichdevice.models.script.several import ACCUMULATION, GPU_COUNT, SHARED, divides_by_gpus, divides_steps
from whichdevice.models.script.size import HOLDERS, Stack, TrainingLength, amounts, is_whole, named_count, steps_in
from whichdevice.models.script.text import attribute
from whichdevice.models.script.torch_batches import Resting, of_few
from whichdevice.models.script.torch_fakes import Fakes, is_fake, ones
from whichdevice.models.script.torch_names import Names, takes_gradients
from whichdevice.models.script.torch_tape import (
    MANY_READS,
    Call,
    Guessed,
    Loss,
    Tape,
    TapedStep,
    is_module,
    is_weight,
    leaves,
    optimizers_in,
    tensors_of,
    weights_in,
    weights_of,
)

MAX_REAL = 1e9  # bytes of weights that have values here
COPIES = 4  # of the script's first batch, as data
ASKS_RANK = re.compile(r"environ\.get\(\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*,")  # it runs without torchrun, too
NEEDS_RANK = re.compile(r"environ\[\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*\](?!\s*=[^=])")  # it does not
JOINING = ("init_process_group(", "init_distributed(", "init_device_mesh(", "DistributedSampler(")
TORCHRUN = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
OF_PROCESSES = JOINING  # of a group, each with a batch
IN_MODULE = "put what is trained into a torch.nn.Module as torch.nn.Parameter"
MAX_SIZES, SIZE_SECONDS = 64, 3.0  # batches whose sizes are read
SIDE = 32  # pixels; a multiple of it stays one
MAX_TRIAL_STEPS, TRIAL_SECONDS = 100, 10.0  # of what may come before the training: a search for a learning rate
COLLECT_SECONDS = 40.0  # until frames of an environment are collected again
SUMMED = "The optimiser steps after {passes} batches; the times count it for each batch."
SIMULATES = "Between two steps it collects {frames} frames on the GPU: its environment's own time there is not counted."
COLLECTS = "Between two steps it collects {frames} frames; its environment gives {rate} a second here."
PREPARES = (
    "Its first epoch began with {seconds} of the CPU's work before line {line}: {whole} if each does, not counted."
)
SPARSE = (
    "Gradients of its embeddings are sparse; they are forecast as dense ones: an upper bound where tables are large."
)
DRAWN = "Each step draws its length: all are counted as the first one, of {length}."
BY_HAND = "It changes its weights itself; that is forecast as torch.optim.SGD's update."
EVALUATES = "LBFGS takes the loss up to {times} times a step: each is counted, with Adam's update and memory."
LAUNCHED_MIXED = re.compile(r"--mixed[_-]precision[=\s]+[\"']?(fp16|bf16)")
LAUNCHED = re.compile(  # in its text
    r"(?:--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[=\s]+|\bN_?GPUS?=)[\"']?(\d+)"
)
VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)+)")  # of a command, in its text


@dataclass(frozen=True)
class Stopped:
    """The part of its training that a script has done when all of its optimisers have stepped."""

    stack: Stack  # where that is in the script
    optimizers: tuple[torch.optim.Optimizer, ...]
    calls: Sequence[Call]
    losses: Sequence[Loss]


class Watching(Watcher):
    """Watches PyTorch in a script until every optimiser has stepped, as a GAN's two do, or one steps again."""

    package = "PyTorch"

    @property
    def missing(self) -> str:
        """Return how far it came."""
        name, line = self._tape.first or ("", None)
        called = f"{name} was called in line {line}, and " if name else ""
        return f"{called}no optimiser of torch.optim stepped"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self._fakes, self._names = Fakes(), Names(self.replace, self._count)
        self._tape = Tape(self._fakes, run.path, run.conditions.values)
        self._stepped: dict[torch.optim.Optimizer, Any] = {}  # with the lines that stepped them
        self._learn: dict[int, torch.Tensor] = {}  # weights that take gradients where their optimiser steps
        self._by_hand = False  # whether the script changes its weights itself
        self._kept = 0, 0  # calls and losses until the last of these steps
        self._trials: dict[int | None, Stopped] = {}  # by line
        self._began = 0.0  # of the first trial
        self._loaders: list[Any] = []  # that gave batches
        self._worker: SimpleNamespace | None = None  # which this process stands for
        self._environment: Environment | None = None  # that it collects frames of
        self._joins = False  # whether it is for a group of processes
        self._by_torchrun = False  # whether several processes run the script, one for each GPU
        self._launched = 1  # GPUs of its command as its text has it
        self._each = False  # whether several processes have a batch each
        self._shares = self._sums_less = False  # whether they share a batch, or the batches that are summed
        self._divides_steps = False  # whether they share the steps
        self._real, self._known = 0.0, set[int]()  # bytes of weights with values, and which they are
        self._has_shapes_alone = False  # whether some weights have none

    def _count(self) -> int:
        """The GPUs that the script sees."""
        self.run.counts_gpus = True
        return self.run.conditions.gpus

    def stand_in(self, package: str) -> Mapping[str, Any]:
        """Return what stands for a package that trains on several GPUs."""
        return self._names.stand_in(package)

    def attach(self, package: ModuleType) -> None:
        """Watch PyTorch, or Lightning or DeepSpeed on it."""
        if package.__name__ == "deepspeed":
            self._names.replace_deepspeed(package)
            return
        if package.__name__ == "transformers.training_args":
            self._names.replace_arguments(package.TrainingArguments)
            return
        if package.__name__ in ("torch.utils.tensorboard", "tensorboardX"):  # to draw a model it runs it in its own way
            self.replace(package.SummaryWriter, "add_graph", lambda *_, **__: None)
            return
        if package.__name__ != TORCH:
            self._names.replace_trainers(package)
            return
        texts = [file.read_text(encoding="utf-8") for file in file_address(str(self.run.path)).files()]
        source = "".join(texts)
        self._names.mixed = LAUNCHED_MIXED.search(source) is not None
        self._launched = max((int(count) for count in LAUNCHED.findall(source)), default=1)
        self._shares = any(map(divides_by_gpus, texts))
        self._sums_less = any(divides_by_gpus(text, ACCUMULATION) for text in texts)
        self._divides_steps = divides_steps(texts, GPU_COUNT)
        joins = any(name in source for name in OF_PROCESSES)
        self._each = joins or "Accelerator(" in source or "horovod" in source
        if self._each:
            self._launched = max(self._launched, *(devices.count(",") + 1 for devices in VISIBLE.findall(source)), 1)
        self._joins = joins and torch.distributed.is_available()
        self._by_torchrun = joins and (NEEDS_RANK.search(source) is not None or not ASKS_RANK.search(source))
        if self._by_torchrun:
            os.environ.update({**TORCHRUN, **os.environ})
        self._names.replace_torch()
        self._names.replace_processes(lambda target: self._is_meant(target) and (joins or takes_gradients(target)))
        if "fsdp" in source.lower() or "fully_shard" in source:
            self._names.replace_fsdp()
        if "parallelize_module" in source:
            self._names.replace_tensor_parallel()
        Watch.probing, Watch.meant = True, None
        torch.manual_seed(SEED)
        hooks = [*self._tape.hooks(self._step), register_module_parameter_registration_hook(self._weight)]
        for hook in hooks:
            self.replacements.callback(hook.remove)
        begin, worker = DataLoader.__iter__, torch.utils.data.get_worker_info
        self.replace(torch.utils.data, "get_worker_info", lambda: self._worker or worker())
        self.replace(DataLoader, "__iter__", lambda loader: self._begun(begin, loader))
        self._tape.by_hand = self._steps_by_hand
        add = torch.optim.Optimizer.add_param_group

        def added(optimizer: torch.optim.Optimizer, group: dict[str, Any]) -> None:
            add(optimizer, group)
            for weight in optimizer.param_groups[-1]["params"]:
                if type(weight) is torch.Tensor and weight.requires_grad:  # an image that is optimised
                    weight.__class__ = torch.nn.Parameter
            self._tape.trains(optimizer.param_groups[-1]["params"])

        self.replace(torch.optim.Optimizer, "add_param_group", added)
        self._tape.__enter__()

    def _is_meant(self, function: FunctionType) -> bool:
        """Whether a function that other processes run is the script's own."""
        return is_own(function.__code__.co_filename, self.run.path)

    def _begun(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        """Return what gives a loader's batches, in this process: dozens of workers would fill the memory for one."""
        known = any(other is loader for other in self._loaders)
        self._loaders = [*(other for other in self._loaders if other is not loader), loader]
        if loader.num_workers and loader.worker_init_fn is not None and not known:  # it may open the data set's files
            self._worker = SimpleNamespace(id=0, num_workers=1, seed=SEED, dataset=loader.dataset)
            loader.worker_init_fn(0)
            self._worker = None
        batches = of_few(loader, self._fakes, self._tape.resting)
        workers, seconds = batches.num_workers, batches.timeout
        batches.num_workers = batches.timeout = 0
        try:
            begun = begin(batches)
            return Resting(begun, self._tape.resting) if batches is loader else begun
        finally:
            batches.num_workers, batches.timeout = workers, seconds

    def detach(self) -> None:
        """Give everything back."""
        super().detach()
        self._tape.evaluations.end()
        self._names.leave()
        Watch.probing = False

    @property
    def trains(self) -> bool:  # type: ignore[override]
        """Return whether a module was called in training."""
        return self._tape.first is not None

    @property
    def without_values(self) -> bool:  # type: ignore[override]
        """Return whether its training has started and is not computed, though its weights have values."""
        return self.trains and not self.run.conditions.values and not self._has_shapes_alone

    @property
    def has_started(self) -> bool:
        """Return whether it has seen a step."""
        return bool(self._trials)

    def ended(self, variables: Mapping[str, Any]) -> Script | None:
        """The longest of the loops of few steps, where no longer training came after them."""
        if self._trials:
            return self._script(max(self._trials.values(), key=lambda trial: trial.stack.amount.steps or 0))
        return None

    def _weight(self, module: torch.nn.Module, name: str, weight: Any) -> torch.nn.Parameter | None:
        """A weight without values in place of one that makes them more than MAX_REAL bytes."""
        if weight is None or is_fake(weight) or weight.is_meta or id(weight) in self._known or self.run.over:
            return None  # one of the device `meta` takes no memory until it is on another
        if self._real + weight.nbytes <= MAX_REAL:
            self._real += weight.nbytes
            self._known.add(id(weight))
            return None
        self._has_shapes_alone = True
        return torch.nn.Parameter(self._fakes.like(weight), weight.requires_grad)

    def _step(self, optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        """An optimiser steps: the training starts where all have, and else nothing is computed."""
        stack = Stack(self.run.path)
        closure = kwargs.get("closure", args[1] if len(args) > 1 else None)
        if callable(closure):  # it works out the loss
            closure()
        if Watch.meant is not None and not Watch.meant.means(optimizer):
            self._tape.forget()
            return
        if self._tape.opens():
            self._tape.forget()
            _without_gradients(optimizer)
            return
        known = self._stepped.get(optimizer)
        if known is not None and known != stack.lines:  # a further loss of some steps, as a penalty each 16
            self._tape.forget(*self._kept)
            return
        weights = (weight for group in optimizer.param_groups for weight in group["params"])
        self._learn |= {id(weight): weight for weight in weights if weight.requires_grad}
        if known is not None:  # it steps again before another one does: its first step is enough
            self._tape.forget(*self._kept)
        self._stepped[optimizer], self._kept = stack.lines, (len(self._tape.calls), len(self._tape.losses))
        if known is not None or weights_of(optimizers_in(stack.scopes)) <= weights_of(self._stepped):
            self._start(stack)
        _without_gradients(optimizer)

    def _steps_by_hand(self) -> None:
        """The script changes its weights itself, which no optimiser has: as gradient descent does."""
        modules = [call.function for call in self._tape.calls if is_module(call.function) and not call.no_grad]
        weights = {id(weight): weight for module in modules for weight in weights_in(module) if weight.requires_grad}
        if weights:
            self._by_hand = True
            self._step(torch.optim.SGD(weights.values()), (), {})

    def _start(self, stack: Stack) -> None:
        """Stop here; a loop of few steps may come before the training, and goes on for a few seconds.

        A script that collects frames of an environment goes on until it does so again.
        """
        optimizers = tuple(self._stepped or optimizers_in(stack.scopes))
        stopped = Stopped(stack, optimizers, self._tape.calls, self._tape.losses)
        if self._environment is not None:
            if self._environment.stepped() or time.monotonic() - self._began > COLLECT_SECONDS:
                self._stop(next(iter(self._trials.values())))
        elif (environment := environment_in(stack.scopes, self.run.path)) is not None:
            self._environment, self._began, self._trials = environment, time.monotonic(), {stack.line: stopped}
            if stack.amount == TrainingLength() and named_count(stack.scopes):  # a library collects, for so many epochs
                self._stop(stopped)
        elif stack.line not in self._trials:
            if not (stack.amount.epochs == 1 and stack.amount.steps and stack.amount.steps <= MAX_TRIAL_STEPS):
                self._stop(stopped)
            self._trials[stack.line] = stopped
            self._began = self._began or time.monotonic()
        elif time.monotonic() - self._began > TRIAL_SECONDS:
            self._stop(max(self._trials.values(), key=lambda trial: trial.stack.amount.steps or 0))
        self._stepped = {}
        self._tape.forget()

    def _stop(self, stopped: Stopped) -> NoReturn:
        self.run.stop(lambda: self._script(stopped))

    def _script(self, stopped: Stopped) -> Script:
        """The script as a workload: its step, its data and its optimiser."""
        name, stack = self.run.path.name, stopped.stack
        if not stopped.calls:
            raise StudyError(f"{name}: its optimiser steps and no module is called: {IN_MODULE}")
        self._shares = self._shares or self._names.shares or self._names.splits > 0 or _splits_batches(stack)
        self._sums_less = self._sums_less or self._names.sums_less
        optimizers = [*stopped.optimizers, *optimizers_in(stack.scopes)]
        trained = weights_of(optimizers) | _copied_by(optimizers, stopped.calls)
        for weight in self._learn.values():  # which a GAN freezes in its other part
            weight.requires_grad_()
        _freeze(stopped.calls, trained, stack.where)
        step, batch, passes = TapedStep.from_tape(stopped.calls, stopped.losses, self._tape.time_major, name)
        if any(weight.dtype == torch.float64 for weight in step.parameters()):
            raise StudyError(f"{name}: its weights are float64, which GPUs are slow in: leave out double()")
        step.reads_values, step.joins = self._tape.reads >= MANY_READS, self._joins
        others = (name for name, weight in step.named_parameters() if id(weight) not in trained)
        step.untrained = frozenset(others if trained else ())
        size = len(next(iter(batch.values())))
        loader = _loader(stack.scopes, size, self._loaders)
        batch, varied = self._at_mean(step, batch, loader)
        step.without_fakes()
        counts, by_steps = self._sizes(stopped, step, batch, passes, loader)
        asked = [SUMMED.format(passes=passes)] if passes > 1 else []
        between = 0.0
        if (environment := self._environment) is not None:
            frames, rate = environment.frames_per_step, environment.frames_per_second()
            if frames is None and (epochs := named_count(stack.scopes)):  # so many over the frames in minibatches
                frames = size / epochs
            between = frames / rate if frames and rate and not environment.is_on_gpu else 0.0
            total = named_count(stack.scopes, FRAMES)
            if frames and total:
                counts = {"examples": math.ceil(total / frames) * size, "epochs": 1, "unknown": None}
            if frames and rate:
                note = SIMULATES if environment.is_on_gpu else COLLECTS
                asked.append(note.format(frames=number(frames), rate=two(rate)))
        asked += [SPARSE] * _made_dense(step) + [BY_HAND] * self._by_hand
        times = _evaluations_of(stopped.optimizers)
        asked += [EVALUATES.format(times=times)] * (times > 1)
        keeps, shared = self._of_gpus(size, by_steps and counts["examples"] is not None)
        asked += shared
        asked += [DRAWN.format(length=number(stack.drawn))] if stack.drawn else []
        asked += self._prepares(stack, counts["epochs"])
        training = Found(
            framework=TORCH,
            batch_size=size,
            precision=_precision(step, self._tape.mixed or self._names.mixed),
            compiled=self._names.compiled,
            unit="graph" if step.graphs else "example",
            line=stack.line,
            notes=(*asked, *varied, *others_like(self.run.path, stack.line)),
            **keeps,
            between=between,
            evaluations=tuple(self._evaluations(stopped, step, size, passes)),
            **counts,
        )
        return Script(training, _functions(step, batch, stopped.optimizers), loader)

    def _loops(self, stack: Stack) -> TrainingLength:
        """The loops around a step; where a generator gives its batches, they end as seen between two collections."""
        loops, environment = stack.amount, self._environment
        if environment is None or environment.steps is None or environment.place is None:
            return loops
        if loops.steps or loops.batches or not (turns := stack.turns_with(environment.place)):
            return loops
        epochs = loops.epochs or turns
        return TrainingLength(epochs, max(1, turns * environment.steps // epochs))

    def _prepares(self, stack: Stack, epochs: int | None) -> list[str]:
        """Return how long the script worked by itself in its first epoch before its first step, where that shows."""
        pauses = [(seconds, at.line) for seconds, at in self._tape.pauses if stack.begins_with(at)]
        if not pauses or (epochs or 1) < 2:
            return []
        taken = sum(seconds for seconds, _ in pauses)
        whole = time_words(taken * (epochs or 1))
        return [PREPARES.format(seconds=time_words(taken), line=pauses[-1][1], whole=whole)]

    def _evaluations(self, stopped: Stopped, step: TapedStep, size: int, passes: int) -> Iterator[Evaluation]:
        """Yield what the script does besides its steps: what a trainer says, else what its text shows."""
        forwards = _forwards(step, self._tape.works)
        by_trainer = of_trainer(stopped.stack.scopes, partial(passes_in, stopped.stack, size, forwards[0]))
        if by_trainer is None:
            known = evaluations_in(stopped.stack, size, *forwards)
        else:
            known = by_trainer + after_trainer(stopped.stack, size)
        summed = passes if by_trainer is None and stopped.losses[-1:] and _apart(stopped) else 1
        shared = self._shares or self._sums_less
        loops = self._loops(stopped.stack)
        for evaluation in known:
            if self._environment is not None and evaluation.per == "epoch":  # amounts are frames
                steps = loops.steps or loops.batches
                every = evaluation.every * steps if evaluation.every and steps else None
                evaluation = replace(evaluation, per="step", every=every)
            yield replace(evaluation, passes=max(summed, evaluation.passes), shared=shared)

    def _of_gpus(self, size: int, by_steps: bool) -> tuple[dict[str, Any], list[str]]:
        """Return what several GPUs do not change, as fields of what is found, and how to ask for those of a batch."""
        if splits := self._names.splits:
            return {}, [SHARED.format(gpus=splits if splits > 1 else 4, batch=size)]
        gpus = self._names.gpus if self._names.gpus > 1 else self._launched
        several = gpus > 1 or self._by_torchrun or self._names.shares_out
        if self._shares and self._names.gpus == 1:
            return {}, [SHARED.format(gpus=gpus if gpus > 1 else 4, batch=size)] * several
        if not (several or self._each or self._names.each):
            return {}, []
        keeps = "steps" if by_steps and not (self._sums_less or self._divides_steps) else "examples"
        return {"keeps": keeps, "asks": gpus if gpus > 1 else None if several else 1}, []

    def _at_mean(
        self, step: TapedStep, batch: dict[str, torch.Tensor], loader: Any
    ) -> tuple[dict[str, torch.Tensor], tuple[str, ...]]:
        """The batch at the mean size of what the loader gives, and a note where sizes vary.

        It stays as it is where the script's step does not run at that size.
        """
        first = next(iter(batch.values()))
        shapes = [] if loader is None or step.time_major else _shapes(loader, first, self._fakes)
        varying = [place for place in range(1, first.ndim) if len({shape[place] for shape in shapes}) > 1]
        if not varying or varying != list(range(varying[0], varying[-1] + 1)):
            return batch, ()
        sides = [[shape[place] for shape in shapes] for place in varying]
        means = [max(1, round(sum(side) / len(side) / math.gcd(SIDE, *side))) * math.gcd(SIDE, *side) for side in sides]
        old, least, most = (
            tuple(shape[place] for place in varying)
            for shape in (first.shape, min(shapes, key=math.prod), max(shapes, key=math.prod))
        )
        words = [" × ".join(map(str, size)) for size in (least, most, means)]
        changed = {name: _resized(tensor, old, means) for name, tensor in batch.items()}
        try:
            with self._fakes.mode, Guessed(self._fakes), torch.no_grad():
                step(**changed)
        except Exception:  # of the script's own step, which has its first batch's size in it
            first = " × ".join(map(str, old))
            return batch, (f"Sizes vary from {words[0]} to {words[1]}; steps are of the first batch, {first}.",)
        return changed, (f"Sizes vary from {words[0]} to {words[1]}; steps are of the mean, {words[2]}.",)

    def _sizes(
        self, stopped: Stopped, step: TapedStep, batch: Mapping[str, torch.Tensor], passes: int, loader: Any
    ) -> tuple[dict[str, Any], bool]:
        """Examples of an epoch and epochs, as far as the script shows them, and whether it counts steps."""
        scopes, loops = stopped.stack.scopes, self._loops(stopped.stack)
        size = len(next(iter(batch.values())))
        shapes = [value.transpose(0, 1).shape if step.time_major else value.shape for value in batch.values()]
        if loops.steps and passes > 1 and _apart(stopped):  # a loop of its own takes a step's batches
            loops = loops._replace(steps=loops.steps * passes)
        batches, times = _length(loader), _evaluations_of(stopped.optimizers)
        if loops == TrainingLength() and times > 1:  # one step is the training
            loops = TrainingLength(1)
        if loops == TrainingLength() and (most := steps_in(scopes, batches and batches // passes)):
            loops = TrainingLength(1, most * passes)
        whole = not any(map(is_fake, batch.values())) and is_whole(batch.values(), stopped.stack.outside)
        endless = loops == TrainingLength(loops.epochs or 0) and self._environment is None
        whole = whole or (endless and stopped.stack.is_turn)
        loaded = None if loader is None else len(loader.dataset)
        counts = amounts(scopes, loops, shapes, loaded, batches, whole)
        if step.time_major and counts["examples"] and (loops.steps or not loader):  # time steps were counted, of all
            counts["examples"] = counts["examples"] * size // shapes[0][0]
        if counts["epochs"]:
            counts["epochs"] *= times
        if (repeats := stopped.stack.repeats) is None:
            counts["unknown"] = "how often its trainer is started does not show"
        elif counts["epochs"]:
            counts["epochs"] *= repeats
        return counts, bool(loops.steps) and loops.steps != batches


class Watch:
    """The training step of a PyTorch loop that runs on: `with Watch(optimizer, ask) as step:` around its first steps.

    After it `module`, `batch` (tensors by name) and `optimizer` (a function of a module) are those of the first step.
    """

    module: TapedStep | None = None
    meant: "Watch | None" = None  # in a script that is run until its training starts: the one that is meant
    probing = False  # whether a script is run so

    def __init__(self, optimizer: torch.optim.Optimizer, ask: Callable[..., Any]) -> None:
        self._optimizer, self._tape, self._ask = optimizer, Tape(), ask
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
            tape = self._tape
            self.module, self.batch, _ = TapedStep.from_tape(tape.calls, tape.losses, tape.time_major, tape.name)
            self.optimizer = partial(again, type(self._optimizer), dict(self._optimizer.defaults))
            self._tape.forget()

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
            self._tape.forget()

    def means(self, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this optimiser's training is meant."""
        return optimizer is self._optimizer


def _splits_batches(stack: Stack) -> bool:
    """Whether an object of Accelerate shares each batch out over its processes."""
    return any(attribute(value, "split_batches") is True for scope in stack.scopes for value in scope.values())


def _without_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Take away gradients, so that a step changes nothing."""
    for weight in (weight for group in optimizer.param_groups for weight in group["params"]):
        weight.grad = None


def _apart(stopped: Stopped) -> bool:
    """Whether gradients are taken in another loop than the one that steps."""
    return bool(stopped.losses[-1].loops != stopped.stack.amount)


def _forwards(
    step: TapedStep, works: Collection[CodeType]
) -> tuple[Callable[[Any], float | None], Callable[[Any], bool]]:
    """Return the work of a forward pass over that of a step, and whether it is a teacher in it.

    That of a module goes by its weights; functions of the script's that use weights themselves (`works`) are the whole.
    """
    modules = [step.called[call.function] for call in step.calls if isinstance(call.function, int)]
    trained = [*step.weights, *(weight for module in modules for weight in weights_in(module))]
    total = sum(weight.numel() for weight in trained) or 1
    no_grad = [step.called[call.function] for call in step.calls if call.no_grad and isinstance(call.function, int)]
    teachers = {id(part) for module in no_grad for part in module.modules()}

    def forward(called: Any) -> float | None:
        if inspect.isroutine(called) and attribute(inspect.unwrap(called), "__code__") in works:
            return 1.0
        called = called if is_module(called) else attribute(called, "module")  # of an engine
        weights = sum(weight.numel() for weight in weights_in(called)) if is_module(called) else 0
        return min(1.0, weights / total) if weights else None

    return forward, lambda called: id(called) in teachers


def _copied_by(optimizers: Sequence[torch.optim.Optimizer], calls: Sequence[Call]) -> set[int]:
    """The weights of the modules of a step where optimisers have as many numbers elsewhere: their copies in float32."""
    modules = {call.function for call in calls if is_module(call.function) and not call.no_grad}
    weights = {id(weight): weight for module in modules for weight in weights_in(module) if weight.requires_grad}
    given = [group["params"] for optimizer in optimizers for group in optimizer.param_groups]
    copies = {id(weight): weight for params in given for weight in params}
    total, copied = (sum(weight.numel() for weight in known.values()) for known in (weights, copies))
    return {*weights} if total == copied and not weights.keys() & copies.keys() else set()


def _freeze(calls: Sequence[Call], trained: set[int], where: str) -> None:
    """Let a teacher's weights have neither gradients nor an optimiser's state."""
    frozen, others = (
        {call.function for call in calls if is_module(call.function) and call.no_grad == without}
        for without in (True, False)
    )
    used = {id(weight) for module in others for weight in weights_in(module)}
    used |= {id(leaf) for call in calls if not call.no_grad for leaf in tensors_of(call) if is_weight(leaf)}
    if trained and not trained & used:
        raise StudyError(f"{where}: its optimiser changes no weights of a module: {IN_MODULE}")
    for weight in (weight for module in frozen - others for weight in weights_in(module)):
        weight.requires_grad_(id(weight) in trained)


def _shapes(loader: Any, like: torch.Tensor, fakes: Fakes) -> list[tuple[int, ...]]:
    """The shapes of tensors like this one in some whole batches of a loader."""
    shapes: list[tuple[int, ...]] = []
    if loader.batch_sampler is None:  # the data set gives batches itself
        return shapes
    batches = of_few(loader, fakes)
    end = time.monotonic() + SIZE_SECONDS
    with suppress(Exception):  # of the script's own data set
        for batch in itertools.islice(batches, MAX_SIZES):
            alike = (
                part
                for part in leaves(batch)
                if torch.is_tensor(part) and (part.ndim, part.dtype, len(part)) == (like.ndim, like.dtype, len(like))
            )
            shapes += [tuple(part.shape) for part in itertools.islice(alike, 1)]
            if time.monotonic() > end:
                break
    return shapes


def _resized(tensor: torch.Tensor, old: tuple[int, ...], new: Sequence[int]) -> torch.Tensor:
    """A tensor with other sides where it has these after its first axis."""
    for place in range(1, tensor.ndim - len(old) + 1):
        if tuple(tensor.shape[place : place + len(old)]) == old:
            for axis, (before, side) in enumerate(zip(old, new, strict=True), place):
                tensor = tensor.index_select(axis, torch.arange(side) % before)
            return tensor
    return tensor


def _functions(
    step: TapedStep, batch: Mapping[str, torch.Tensor], optimizers: Sequence[torch.optim.Optimizer]
) -> SimpleNamespace:
    """A model file's functions: the step, copies of the first batch, and an optimiser like the script's."""
    copies = max(COPIES, -(-8 // len(next(iter(batch.values())))))
    data = repeated({name: _array(value) for name, value in batch.items()}, copies)
    optimizer = next(iter(optimizers), None)
    make = partial(again, type(optimizer), {} if optimizer is None else dict(optimizer.defaults))
    both = (data,), (data,)  # for validation, too: a module may need a batch in its order
    return SimpleNamespace(model=step.copied, data=lambda: both, optimizer=lambda module: make(module))


def _evaluations_of(optimizers: Iterable[torch.optim.Optimizer]) -> int:
    """How often a step of theirs takes the loss: that of LBFGS at most so many times."""
    return max((part.defaults["max_iter"] for part in optimizers if isinstance(part, torch.optim.LBFGS)), default=1)


def _made_dense(step: TapedStep) -> bool:
    """Let embeddings have dense gradients, as sparse ones cannot be traced; return whether one had sparse ones."""
    sparse = [part for part in step.modules() if getattr(part, "sparse", False) is True]
    for part in sparse:
        part.sparse = False  # type: ignore[assignment]
    return bool(sparse)


def _precision(step: TapedStep, mixed: bool) -> str:
    """Mixed under autocast; else TF32, without convolutions only where the script asks for that."""
    if mixed:
        return "mixed"
    convolves = any(isinstance(part, torch.nn.Conv1d | torch.nn.Conv2d | torch.nn.Conv3d) for part in step.modules())
    return "single" if convolves or torch.get_float32_matmul_precision() != "highest" else "float32"


def _loader(scopes: Sequence[Mapping[str, Any]], size: int, used: Sequence[Any]) -> Any:
    """The loader of the training: one that gave batches, of this size or of a sampler's own, with the most examples."""
    values = [value for scope in scopes for value in scope.values()]
    values += [attribute(scope.get(name), "train_dataloader") for scope in scopes for name in HOLDERS]
    known = [
        value for value in (*values, *used) if isinstance(value, DataLoader) and _length(value.dataset) is not None
    ]

    def order(loader: Any) -> tuple[Any, ...]:
        unused = all(loader is not other for other in used)
        return unused, loader.batch_size not in (size, None), -len(loader.dataset)

    return min(known, key=order, default=None)


def _length(data: Any) -> int | None:
    """The length of a loader or of data; None where it has none or does not know it."""
    try:
        return len(data)
    except Exception:  # of the script's own sampler or data
        return None


def again(kind: Any, defaults: Mapping[str, Any], module: Any) -> Any:
    """A fresh optimiser of the same kind and settings over the module's trained parameters; of no kind AdamW."""
    others = getattr(module, "untrained", ())
    weights = [weight for name, weight in module.named_parameters() if weight.requires_grad and name not in others]
    if kind is type(None):
        return torch.optim.AdamW(weights)
    kind = torch.optim.Adam if kind in (torch.optim.SparseAdam, torch.optim.LBFGS) else kind
    known = inspect.signature(kind.__init__).parameters
    return kind(weights, **{name: value for name, value in defaults.items() if name in known})


def _array(tensor: torch.Tensor) -> np.ndarray:
    tensor = ones(tensor)
    return (tensor.float() if tensor.is_floating_point() else tensor).cpu().numpy()

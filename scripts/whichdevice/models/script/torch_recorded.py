"""The training of a PyTorch script as it was recorded: its batch, amounts, GPUs and number format."""

import math
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import SimpleNamespace
from typing import Any

import torch

from whichdevice.base.errors import StudyError
from whichdevice.base.numbers import number, two
from whichdevice.models.framework import TORCH
from whichdevice.models.script.amounts import Amounts, Length, Loop, amounts_of, known_length, steps_of
from whichdevice.models.script.environment import Environment
from whichdevice.models.script.evaluation import of_trainer
from whichdevice.models.script.found import RECORDER, SHARED, Found, Script
from whichdevice.models.script.periods import PERIODS, Periods, Turn
from whichdevice.models.script.run import ScriptRun, Watcher
from whichdevice.models.script.text import Launch, others_like
from whichdevice.models.script.torch_libraries import Libraries
from whichdevice.models.script.torch_loaders import Loaders

IN_MODULE = "put what is trained into a torch.nn.Module as torch.nn.Parameter"
SIMULATES = "Between two steps it collects {frames} frames on the GPU: its environment's own time there is not counted."
COLLECTS = "Between two steps it collects {frames} frames; its environment gives {rate} a second here."
BY_HAND = "It changes its weights itself, without an optimiser."
EVALUATES = "LBFGS takes the loss up to {times} times a step; what is recorded here ends sooner."


@dataclass
class TorchTurn(Turn):
    """The work between two ends of optimisers' steps."""

    segments: Sequence[Any]  # of the recorder
    loaded: Counter[int]  # batches by the place of their loader in memory
    rows: Counter[Any]  # examples that modules were called with in training, by the place in the script
    trainer: Any  # of a library, that states its steps


class TorchPeriods(Periods[TorchTurn]):
    """The turns of a training so far."""

    def are_enough(self, waited: float, wanted: int = PERIODS, known: Collection[Any] = ()) -> bool:
        """Return whether there are periods of all optimisers; one is enough where it repeats what came before it."""
        trained = [one for one in known if any(
            weight.requires_grad for group in one.param_groups for weight in group["params"])]  # fmt: skip
        return super().are_enough(waited, 1 if self.is_whole and self.repeats else wanted, trained)

    @property
    def repeats(self) -> bool:
        """Return whether the first period has the passes of what came before it."""
        return self.done(self.before()) == self.done(self._whole()[0])

    def done(self, turns: Sequence[TorchTurn]) -> Counter[Any]:
        """Return the kernels of forward and backward passes."""
        kernels = Counter[Any]()
        for segment in (segment for turn in turns for segment in turn.segments):
            for kernel, count in segment.kernels.items():
                if kernel[0] != "optimizer":
                    kernels[kernel] += count * segment.times
        return kernels


class Recorded(Watcher):
    """The training that was recorded so far."""

    package = "PyTorch"

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.recorder = import_module(RECORDER).Recorder()
        self._names = Libraries(self.replace, self._count)
        self._loaders = Loaders(self.recorder)
        self._launch = Launch()
        self._periods, self._of_other = TorchPeriods(), TorchPeriods()  # of the script's batch, and of another one
        self._has_other = False  # whether another batch was recorded
        self._trials = list[TorchPeriods]()  # loops of few steps
        self._called: tuple[str, int | None] | None = None  # the first module that was called in training, and its line
        self._learn: dict[int, torch.Tensor] = {}  # weights that take gradients where their optimiser steps
        self._modules: dict[int, torch.nn.Module] = {}  # outermost ones that were called
        self._by_hand = False  # whether the script changes its weights itself
        self._mixed = False  # whether trained weights are in 16 bits
        self._environment: Environment | None = None

    @property
    def missing(self) -> str:
        """Return how far it came."""
        name, line = self._called or ("", None)
        called = f"{name} was called in line {line}, and " if name else ""
        return f"{called}no optimiser of torch.optim stepped"

    def _count(self) -> int:
        """The GPUs that the script sees."""
        self.run.counts_gpus = True
        return max(self.run.conditions.gpus, self._names.gpus)

    def _longest(self) -> Script:
        """The longest of what was recorded."""
        self._periods = max([*self._trials, *([self._periods] if self._periods.turns else [])], key=self._whole)
        return self._script()

    def _whole(self, recorded: TorchPeriods) -> float:
        """The steps of the whole training that some periods are of; as many as one likes where that does not show."""
        length = self._length(recorded)
        return (length.turns or math.inf) * (length.epochs or 1)

    def _script(self) -> Script:
        """The script as what was recorded of it."""
        name = self.run.path.name
        periods = self._periods.of_least()
        last = periods[-1][-1]
        where = f"{name}, line {last.line}" if last.line else name
        if not self._modules and not self._by_hand and self._called is None:
            raise StudyError(f"{where}: its optimiser steps and no module is called: {IN_MODULE}")
        counts = self._parameters(periods, where)
        trace = self._trace(periods, counts)
        loader, size = self._batch(periods)
        amounts, shares_out = self._amounts(loader, size)
        notes, between = self._collects()
        notes += [BY_HAND] * self._by_hand
        notes += [SHARED.format(batch=size * self._split)] if self._names.splits else []
        if isinstance(last.end, torch.optim.LBFGS):
            notes.append(EVALUATES.format(times=last.end.defaults["max_iter"]))
        training = Found(
            framework=TORCH,
            batch_size=size,
            precision=self._precision(trace),
            compiled=self._names.compiled,
            unit="graph" if self._loaders.graphs else "example",
            line=last.line,
            notes=(*notes, *(others_like(self.run.path, last.line) if last.line else ())),
            examples=amounts.examples,
            epochs=amounts.epochs,
            unknown=amounts.unknown,
            **self._of_gpus(last.trainer, shares_out),
            between=between,
            evaluations=tuple(of_trainer(last.trainer) or ()),
        )
        recorded = SimpleNamespace(
            trace=trace, steps=amounts.steps, loads=self._loaders.sizes.get(id(loader)),
            compares=last.trainer is None and not self._names.is_alone and not self._has_fixed_number,
            joins=self._launch.has_batches or self._names.each or not self._length(self._periods, loader).by_loader,
            takes_bfloat16=self.recorder.takes_bfloat16, counts_gpus=self.run.counts_gpus,
            other=self._other(size, counts), shares_weights=self._names.shares_weights,
        )  # fmt: skip
        return Script(training, recorded, loader)

    def _parameters(self, periods: Sequence[Sequence[TorchTurn]], where: str) -> tuple[int, int, bool]:
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

    def _trace(self, periods: Sequence[Sequence[TorchTurn]], counts: tuple[int, int, bool]) -> Any:
        """Return the trace of some periods; `counts` are of `_parameters`."""
        parts = [[segment for turn in period for segment in turn.segments] for period in periods]
        return import_module(RECORDER).trace_of(parts, self.recorder, *counts)

    def _other(self, size: int, counts: tuple[int, int, bool]) -> tuple[int, Any] | None:
        """The examples and the trace of a step with another batch; None where none was recorded."""
        if not self._loaders.shared or not self._has_other:
            return None
        count = 1 if self._periods.repeats else len(self._periods.of_least())
        trace = self._trace(self._of_other.of_least()[-count:], counts)
        return max(1, round(size * self._loaders.share)), trace.digest()

    def _batch(self, periods: Sequence[Sequence[TorchTurn]]) -> tuple[Any, int]:
        """Return the loader of the training, and the examples of a period on one GPU."""
        if loaded := loaded_in(periods):
            key = max(loaded, key=loaded.__getitem__)
            loader = next(one for one in self._loaders.known if id(one) == key)
            return loader, max(1, round(self._loaders.sizes[key] * loaded[key] / len(periods) / self._split))
        rows = defaultdict[Any, float](float)
        for (_, *call), count in (pair for period in periods for turn in period for pair in turn.rows.items()):
            rows[tuple(call)] += count / len(periods)
        called = next((count for count in rows.values() if count > 1), 1)  # by the first that is not of one: acting is
        return None, max(1, round((called if rows else periods[-1][0].segments[0].rows) / self._split))

    def _amounts(self, loader: Any, size: int) -> tuple[Amounts, bool]:
        """Return the amounts that were observed, and whether several GPUs share a loader's examples out."""
        examples, length = known_length(getattr(loader, "dataset", None)), self._length(self._periods, loader)
        together = amounts_of(length, size * self._split * self._world, examples)
        if self._world > 1 and together.steps and together.examples == examples:
            return together, True
        return amounts_of(length, size * self._split, examples), False

    @property
    def _has_fixed_number(self) -> bool:
        """Whether the script states the number of processes, and each of them runs it."""
        return self._names.gpus > self.run.conditions.gpus and not self._names.is_alone

    def _length(self, recorded: TorchPeriods, loader: Any = None) -> Length:
        """Return how long the loops around the steps go on, or what a trainer states."""
        periods = recorded.of_least()
        drawn = {key: batches / len(periods) for key, batches in loaded_in(periods).items()}
        if (most := steps_of(periods[-1][-1].trainer)) is None:
            return recorded.length(drawn)
        batches = known_length(loader)
        return _by_trainer(most, periods[-1][-1].loops, batches and batches / drawn.get(id(loader), 1.0))

    @property
    def _split(self) -> int:
        """The GPUs that share each batch in one process."""
        return self.run.conditions.gpus if self._names.splits else 1

    @property
    def _world(self) -> int:
        several = (self._launch.has_batches or self._names.each) and not self._names.is_alone
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

    def _of_gpus(self, trainer: Any, shares_out: bool) -> Mapping[str, Any]:
        """Return the GPUs that the script asks for, and what stays the same with their number.

        What GPUs of several processes share shows where it runs on two.
        """
        gpus = self._names.gpus if self._names.gpus > 1 else self._launch.gpus
        several = gpus > 1 or self._launch.by_torchrun or self._names.shares_out
        if self._names.splits or not (several or self._launch.has_batches or self._names.each):
            return {}
        by_steps = (getattr(getattr(trainer, "args", None), "max_steps", None) or 0) > 0
        keeps = "steps" if by_steps or (self._has_fixed_number and not shares_out) else "examples"
        return {"keeps": keeps, "asks": gpus if gpus > 1 else None if several else 1}

    def _precision(self, trace: Any) -> str:
        """Mixed where products are in 16 bits; else TF32: of products only where the script asks for that."""
        if self._mixed or self._names.mixed or _is_most(trace, lambda item: item.precision == "half"):
            return "mixed"
        convolves = _is_most(trace, lambda item: "convolution" in item.kind)  # which TF32 is the default of
        return "single" if convolves or torch.get_float32_matmul_precision() != "highest" else "float32"


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


def loaded_in(turns: Sequence[Sequence[TorchTurn]]) -> Counter[int]:
    """Return the batches of some periods by the place of their loader in memory."""
    return sum((turn.loaded for period in turns for turn in period), Counter[int]())

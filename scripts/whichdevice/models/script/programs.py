"""Programs that a script of Keras, TensorFlow or JAX runs, and a period of its training that they make up.

A period goes from one end of a function that takes gradients to its next end; of several such functions the one that
ends least often counts. All programs that run in it are the step. Each is lowered and counted once, for its batch and
for twice of it: between two batches all is linear.
"""

import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from types import FrameType, SimpleNamespace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.framework import JAX
from whichdevice.models.script.amounts import Length, amounts_of, loops_at
from whichdevice.models.script.found import COUNTER, Evaluation, Found, Script
from whichdevice.models.script.frames import caller, line_of, own_frames
from whichdevice.models.script.periods import PERIODS, TIMED_PERIODS, TIMED_SECONDS, Periods, Turn
from whichdevice.models.script.run import ScriptRun, Watcher
from whichdevice.models.script.text import others_like

VARYING = 8  # periods that are recorded where lengths vary
MAX_OPERATIONS, MAX_KERNELS, MAX_BYTES = 5e10, 400, 2**30  # of a program in all its runs that is computed here
LENGTHS = "Lengths vary from {least} to {most}: a step is the mean of {count} batches."
NO_BATCH = "How many examples its batch has does not show: it is counted by steps."
NAMED_FOR_BATCH = re.compile("batch_?size", re.IGNORECASE)  # in the name of a variable or setting


@dataclass(eq=False)
class Program:
    """A program that no other one calls, with arguments of some shapes."""

    function: Hashable  # that it is of, whatever its shapes
    name: str  # of that function
    counted: Any  # its kernels and memory (forecast/count/fusion.py)
    twice: Any = None  # the same with twice the examples; None: it is of one batch
    arrays: int = 0  # that a call hands over
    trained: float = 0.0  # bytes of weights that it takes gradients by; 0: of none
    state: float = 0.0  # bytes of arguments that it returns anew
    rows: int | None = None  # examples of its batch; None: they do not show
    steps: float | None = 1.0  # of its training in a run; None: their number does not show
    has_all: bool = True  # whether all of these are in it, rather than one
    shapes: tuple[tuple[int, ...], ...] = ()  # of its batch
    devices: int = 1  # that run it together
    shared: int = 1  # devices that `rows` are of
    runs: int = 0
    results: Any = None  # shapes and types

    @property
    def is_computed(self) -> bool:
        """Return whether it takes little to compute it again."""
        work = self.counted.total().work("gpu")
        nbytes = self.counted.arguments + self.counted.results
        small = work.kernels <= MAX_KERNELS and nbytes <= MAX_BYTES
        return bool(small and (1 + self.runs) * work.operations <= MAX_OPERATIONS)


@dataclass
class ProgramTurn(Turn):
    """The work between two ends of functions that train."""

    runs: list[Program]
    held: dict[int, float]  # bytes of arguments, by their place in memory
    seconds: float


class Training(Periods[ProgramTurn]):
    """Records what a script runs until enough of its training has run, and ends it there."""

    def __init__(self, watcher: Watcher) -> None:
        super().__init__()
        self.run, self.framework, self._watcher = watcher.run, JAX, watcher
        self.notes: list[str] = []
        self.evaluations: tuple[Evaluation, ...] = ()
        self.stated: Length | None = None  # as arguments of a library's loop say, whatever loops show
        self.examples: int | None = None  # of an epoch, where they are stated
        self.batches: Any = None  # what gives batches; None: what the innermost loop goes over
        self.without_values = False  # whether a program was not computed
        self.keras, self.recurrent, self.parallel = False, list[Any](), False
        self.counted_notes: list[str] = []  # on how the step is counted
        self.frame: FrameType | None = None  # that called a library's loop; None: the script's own trains
        self._runs, self._held, self._seconds = list[Program](), dict[int, float](), 0.0  # of the turn that goes on

    def computes(self, program: Program) -> bool:
        """Return whether a program is run, rather than its results made up."""
        computes = program.is_computed or self.run.conditions.values
        self.without_values = self.without_values or not computes
        return computes

    def done(self, turns: Sequence[ProgramTurn]) -> Counter[Any]:
        """Return the programs that some turns run."""
        return Counter(program for turn in turns for program in turn.runs)

    @property
    def is_whole(self) -> bool:
        """Return whether a period was recorded: a function that trains ended twice, or trains for several steps."""
        return super().is_whole or any(turn.runs[-1].steps != 1 for turn in self.turns)

    def ran(self, program: Program, held: Mapping[int, float], seconds: float, frame: FrameType | None) -> None:
        """Note that a program ran, with these arguments; one that trains ends a turn."""
        program.runs += 1
        self._runs.append(program)
        self._held |= held
        self._seconds += seconds
        if not program.trained or self.run.over:
            return
        if not self.turns:  # what came before it is of no step
            self._watcher.write_nothing()
            self._runs, self._held, self._seconds = [program], dict(held), seconds
        loops, _ = loops_at(frame, self.run.loaders, {})
        line = line_of(frame, self.run.path)
        self.add(ProgramTurn(program.function, loops, line, self._runs, self._held, self._seconds))
        self._runs, self._held, self._seconds = [], {}, 0.0
        if self._is_enough():
            self.run.stop(self.script)

    def _is_enough(self) -> bool:
        waited, least = time.monotonic() - self.began, min(self.ends.values())
        if self.run.conditions.timed:
            return least > TIMED_PERIODS or (waited > TIMED_SECONDS and least > PERIODS)
        return self.are_enough(waited, VARYING if self._lengths() else PERIODS)

    def _lengths(self) -> set[int]:
        """Return the lengths of batches, where they differ by more than the number of examples; the longest ones."""
        of_one = [turn.runs[-1].shapes for turn in self.turns if turn.end == self.turns[0].end]
        arrays = [[shape[1:] for shape in shapes] for shapes in zip(*of_one, strict=False)]
        sizes = [{*axis} for shapes in arrays for axis in zip(*shapes, strict=False)]
        return max((axis for axis in sizes if len(axis) > 1), key=max, default=set())

    def script(self) -> Script:
        """Return what was found of the training, with the count or the seconds of its step."""
        periods = self.of_least()
        last = periods[-1][-1]
        steps, rows = last.runs[-1].steps, last.runs[-1].rows
        if rows is None:  # as of a GAN's maker, beside a judge that sees a batch
            rows = sum(turn.runs[-1].rows or 0 for turn in periods[-1]) or None
        if self.run.conditions.timed:
            seconds = [sum(turn.seconds for turn in period) / (steps or 1) for period in periods[1:] or periods]
            return Script(Found(self.framework, 1), SimpleNamespace(seconds=statistics.median(seconds)))
        gpus = self.run.conditions.gpus
        whole = (rows or 1) * last.runs[-1].shared
        size = max(1, whole // gpus)
        count = self._count(periods, size, steps or 1) if gpus == 1 or not self.run.counts_gpus else None
        length = self._length()
        turns = None if length.turns is None or steps is None else length.turns * steps
        amounts = amounts_of(length._replace(turns=turns), whole, self.examples)
        several: dict[str, Any] = {"keeps": "examples", "asks": None} if self.run.counts_gpus and gpus == 1 else {}
        training = Found(
            self.framework, size, unit="example" if rows else "step", line=last.line, precision=_precision(count),
            notes=(*self.notes, *self._varies(), *([] if rows else [NO_BATCH]),
                   *others_like(self.run.path, last.line, last.runs[-1].name)),
            examples=amounts.examples, epochs=amounts.epochs, unknown=amounts.unknown, evaluations=self.evaluations,
            **several,
        )  # fmt: skip
        parallel = self.parallel or any(one.devices > 1 for period in periods for turn in period for one in turn.runs)
        record = SimpleNamespace(count=count, steps=amounts.steps, compares=True, joins=True, parallel=parallel)
        loaders = [loop.loader for loop in last.loops if loop.loader is not None]
        return Script(training, record, self.batches if self.batches is not None or not loaders else loaders[-1])

    def _count(self, periods: Sequence[Sequence[ProgramTurn]], size: int, steps: float) -> dict[str, Any]:
        """Count the mean period, of which each run of the last program may be several steps."""
        runs = self.done([turn for period in periods for turn in period])
        times = {one: count / len(periods) / (steps if one.has_all else 1) for one, count in runs.items()}
        held = max((sum({key: size for turn in period for key, size in turn.held.items()}.values())
                    for period in periods), default=0.0)  # fmt: skip
        count = import_module(COUNTER).step_count(times, size, held, self.recurrent, self.keras, self.counted_notes)
        return dict(count.model_dump(mode="json"))

    def _length(self) -> Length:
        """Return how long the training is, in runs of the function that ends least often."""
        around = self.length({})
        if self.stated is None:
            return around
        has_loops = bool(self.of_least()[-1][-1].loops)  # around `fit`
        if not has_loops or around.turns is None or around.epochs is None:
            return Length(self.stated.turns, None, around.unknown) if has_loops else self.stated
        epochs = None if self.stated.epochs is None else self.stated.epochs * around.turns * around.epochs
        return self.stated._replace(epochs=epochs)

    def _varies(self) -> list[str]:
        lengths = self._lengths()
        return [LENGTHS.format(least=min(lengths), most=max(lengths), count=len(self.turns) - 1)] if lengths else []


class ProgramWatcher(Watcher):
    """Watches what runs programs, of whichever framework."""

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.periods: Training = run.periods or Training(self)
        run.periods = self.periods

    @property
    def trains(self) -> bool:
        """Return whether a program took gradients."""
        return bool(self.periods.turns)

    @property
    def without_values(self) -> bool:
        """Return whether its training has started and is not computed."""
        return self.trains and self.periods.without_values

    @property
    def has_started(self) -> bool:
        """Return whether a period was recorded, after which an error is no matter, or a step, where it exits itself."""
        return self.periods.is_whole or (self.run.exited and self.trains)

    def say(self, *notes: str | None) -> None:
        """Note sentences for the answer, each once."""
        self.periods.notes += [note for note in notes if note and note not in self.periods.notes]

    def computed(self, program: Program, held: Mapping[int, float], compute: Callable[[], Any]) -> Any:
        """Return what a program gives, or results without values where it would take long; note that it ran."""
        frame, began = self.periods.frame or caller(), time.perf_counter()
        result = None if self.periods.computes(program) else self.made(program)
        if result is None:
            result = compute()
        self.periods.ran(program, held, time.perf_counter() - began, frame)
        return result

    def made(self, program: Program) -> Any:
        """Return results of a program without values; None: it has to be computed."""
        return program.results

    def ended(self) -> Script | None:
        """Return what was recorded of a script that came to its end."""
        return self.periods.script() if self.trains else None


def rows_of(arguments: Iterable[Sequence[tuple[int, ...]]], named: Collection[int] = ()) -> int | None:
    """Return the examples of a batch by the shapes of arrays, for each argument; None: they do not show.

    The arrays of an argument have a length in common. Where most arrays have several, it is the one that a variable
    named for a batch's size has; else the one that they begin with.
    """
    arrays, begins = Counter[int](), Counter[int]()
    for shapes in arguments:
        common = set[int]().union(*shapes).intersection(*shapes)
        arrays.update(size for size in common for _ in shapes)
        begins.update(shape[0] for shape in shapes if shape and shape[0] in common)
    known = [size for size in arrays if size in begins or size in named]
    return max(known[::-1], key=lambda size: (arrays[size], size in named, begins[size]), default=None)


def doubled(shape: Sequence[int], rows: int) -> tuple[int, ...]:
    """Return the shape of an array of twice as many examples."""
    place = [*shape].index(rows) if rows in shape else None
    return tuple(2 * size if at == place else size for at, size in enumerate(shape))


def named_sizes(run: ScriptRun) -> set[int]:
    """Return the values of what is named for a batch's size where the script is: variables and settings in them."""
    sizes = set[int]()
    for frame in own_frames(sys._getframe(1), run.path):
        for variables in (frame.f_locals, frame.f_globals):
            sizes.update(_named(variables))
            for value in [*variables.values()]:
                sizes.update(_named(value if isinstance(value, dict) else getattr(value, "__dict__", {})))
    return sizes


def _named(variables: Mapping[Any, Any]) -> Iterator[int]:
    for name, held in [*variables.items()]:
        if isinstance(name, str) and NAMED_FOR_BATCH.search(name):
            value = getattr(held, "value", held)  # of a flag
            if type(value) is int:
                yield value


def _precision(count: Mapping[str, Any] | None) -> str:
    """Mixed where most products are in 16 bits; else what frameworks make of float32, unless it asks for its own."""
    sums = Counter[str]()
    for _, precision, operations, _, times, *_ in [] if count is None else count["sizes"][0]["gpu"]["items"]:
        sums[precision] += operations * times
    if sums["half"] > (sums["tf32"] + sums["float32"]):
        return "mixed"
    return "float32" if sums["float32"] > sums["tf32"] else "single"


def refused(run: ScriptRun, reason: str) -> StudyError:
    """Return an error that names the line that the script is at."""
    line = line_of(sys._getframe(1), run.path)
    return StudyError(f"{run.path.name}{f', line {line}' if line else ''}: {reason}")

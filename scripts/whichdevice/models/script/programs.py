"""Programs that a script of Keras, TensorFlow or JAX runs, and a period of its training that they make up.

A period goes from one end of a function that takes gradients to its next end; of several such functions the one that
ends least often counts. All programs that run in it are the step. Each is lowered and counted once, for its batch and
for twice of it: between two batches all is linear.
"""

import math
import re
import statistics
import sys
import time
from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from itertools import pairwise
from types import FrameType, SimpleNamespace
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.models.framework import JAX
from whichdevice.models.script.amounts import Length, Loop, length_of, loops_at
from whichdevice.models.script.found import COUNTER, Found, Script
from whichdevice.models.script.run import ScriptRun, Watcher, is_own, others_like

PERIODS, VARYING = 2, 8  # that are recorded; where lengths vary
SLOW, PATIENCE, MANY = 10.0, 20.0, 64  # seconds and ends for which another function that trains is waited for
TIMED_PERIODS, TIMED_SECONDS = 20, 10.0  # until a step is timed here
MAX_OPERATIONS, MAX_KERNELS, MAX_BYTES = 5e10, 400, 2**30  # of a program in all its runs that is computed here
LENGTHS = "Lengths vary from {least} to {most}: a step is the mean of {count} batches."
NO_BATCH = "How many examples its batch has does not show: it is counted by steps."
NO_END = "how long its training goes on does not show"
BATCH_SIZE = re.compile("batch_?size", re.IGNORECASE)  # in the name of a variable or setting


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
class Turn:
    """The work between two ends of functions that train."""

    runs: list[Program] = field(default_factory=list)
    held: dict[int, float] = field(default_factory=dict)  # bytes of arguments, by their place in memory
    seconds: float = 0.0
    loops: list[Loop] = field(default_factory=list)
    line: int | None = None  # of the script

    @property
    def function(self) -> Hashable:
        """Return the function at whose end it ends."""
        return self.runs[-1].function


class Periods:
    """Records what a script runs until enough of its training has run, and ends it there."""

    def __init__(self, watcher: Watcher) -> None:
        self.run, self.framework, self._watcher = watcher.run, JAX, watcher
        self.turns: list[Turn] = []
        self.notes: list[str] = []
        self.facts: dict[str, Any] = {}  # of what is found, beside amounts
        self.stated: Length | None = None  # by arguments of a library's loop, in place of those of loops
        self.examples: int | None = None  # of an epoch, where they are stated
        self.batches: Any = None  # what gives batches; None: what the innermost loop goes over
        self.without_values = False  # whether a program was not computed
        self.keras, self.recurrent, self.parallel = False, list[Any](), False
        self.counted_notes: list[str] = []  # on how the step is counted
        self.frame: FrameType | None = None  # that called a library's loop; None: the script's own trains
        self._turn, self._began = Turn(), math.inf

    def computes(self, program: Program) -> bool:
        """Return whether a program is run, rather than its results made up."""
        computes = program.is_computed or self.run.conditions.values
        self.without_values = self.without_values or not computes
        return computes

    @property
    def is_whole(self) -> bool:
        """Return whether a period was recorded: a function that trains ended twice, or trains for several steps."""
        ends = Counter(turn.function for turn in self.turns)
        return max(ends.values(), default=0) > 1 or any(turn.runs[-1].steps != 1 for turn in self.turns)

    def ran(self, program: Program, held: Mapping[int, float], seconds: float, frame: FrameType | None) -> None:
        """Note that a program ran, with these arguments; one that trains ends a turn."""
        program.runs += 1
        self._turn.runs.append(program)
        self._turn.held |= held
        self._turn.seconds += seconds
        if not program.trained or self.run.over:
            return
        if not self.turns:
            self._watcher.write_nothing()
            self._turn = Turn([program], dict(held), seconds)  # what came before belongs to no step
        self._began = min(self._began, time.monotonic())
        self._turn.loops, _ = loops_at(frame, self.run.loaders, {})
        self._turn.line = line_of(frame, self.run)
        self.turns.append(self._turn)
        self._turn = Turn()
        if self._is_enough():
            self.run.stop(self.script)

    def _is_enough(self) -> bool:
        ends, waited = Counter(turn.function for turn in self.turns), time.monotonic() - self._began
        if self.run.conditions.timed:
            return min(ends.values()) > TIMED_PERIODS or (waited > TIMED_SECONDS and min(ends.values()) > PERIODS)
        wanted = 1 if waited > SLOW else VARYING if self._lengths() else PERIODS
        return min(ends.values()) > wanted or waited > PATIENCE or len(self.turns) > MANY * len(ends)

    def _lengths(self) -> set[int]:
        """Return the lengths of batches, where they differ by more than the number of examples; the longest ones."""
        first = self.turns[0].function
        of_one = [turn.runs[-1].shapes for turn in self.turns if turn.function == first]
        arrays = [[shape[1:] for shape in shapes] for shapes in zip(*of_one, strict=False)]
        sizes = [{*axis} for shapes in arrays for axis in zip(*shapes, strict=False)]
        return max((axis for axis in sizes if len(axis) > 1), key=max, default=set())

    def periods(self) -> list[list[Turn]]:
        """Return the turns of each period of the function that ends least often."""
        ends = Counter(turn.function for turn in self.turns)
        if len(ends) == len(self.turns):  # none comes again
            return [self.turns]
        repeated = [one for one, count in ends.items() if count > 1] or [*ends]
        least = min(repeated, key=ends.__getitem__)
        places = [place for place, turn in enumerate(self.turns) if turn.function == least]
        places = [-1, *places] if len(places) == 1 else places
        return [self.turns[begin + 1 : end + 1] for begin, end in pairwise(places)]

    def script(self) -> Script:
        """Return what was found of the training, with the count or the seconds of its step."""
        periods = self.periods()
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
        length = self._length(periods)
        known = steps is not None and length.turns is not None and length.epochs is not None
        if known and not math.isfinite(length.turns * length.epochs):  # type: ignore[operator]
            known = False
        turns = max(1, round(length.turns * steps)) if known else None  # type: ignore[operator]
        facts: dict[str, Any] = {"examples": self.examples, "epochs": None, "unknown": length.unknown or NO_END}
        if known and turns is not None and length.epochs is not None:
            exact = self.examples if self.examples and abs(self.examples - turns * whole) <= whole else turns * whole
            facts = {"unknown": None, "examples": exact, "epochs": max(1, round(length.epochs))}
        several: dict[str, Any] = {"keeps": "examples", "asks": None} if self.run.counts_gpus and gpus == 1 else {}
        found = Found(
            self.framework, size, unit="example" if rows else "step", line=last.line, precision=_precision(count),
            notes=(*self.notes, *self._varies(), *([] if rows else [NO_BATCH]),
                   *others_like(self.run.path, last.line, last.runs[-1].name)),
            **several, **facts, **self.facts,
        )  # fmt: skip
        total = turns * facts["epochs"] if turns else None
        parallel = self.parallel or any(one.devices > 1 for period in periods for turn in period for one in turn.runs)
        record = SimpleNamespace(count=count, steps=total, compares=True, joins=True, parallel=parallel)
        loaders = [loop.loader for loop in last.loops if loop.loader is not None]
        return Script(found, record, self.batches if self.batches is not None or not loaders else loaders[-1])

    def _count(self, periods: Sequence[Sequence[Turn]], size: int, steps: float) -> dict[str, Any]:
        """Count the mean period, of which each run of the last program may be several steps."""
        runs = Counter(one for period in periods for turn in period for one in turn.runs)
        times = {one: count / len(periods) / (steps if one.has_all else 1) for one, count in runs.items()}
        held = max((sum({key: size for turn in period for key, size in turn.held.items()}.values())
                    for period in periods), default=0.0)  # fmt: skip
        count = import_module(COUNTER).step_count(times, size, held, self.recurrent, self.keras, self.counted_notes)
        return dict(count.model_dump(mode="json"))

    def _length(self, periods: Sequence[Sequence[Turn]]) -> Length:
        """Return how long the training is, in runs of the function that ends least often."""
        ends = [turn for turn in self.turns if turn.function == periods[-1][-1].function]
        around = length_of(ends[0].loops, ends[-1].loops, max(1, len(ends) - 1), {})
        if self.stated is None:
            return around
        if not ends[-1].loops or around.turns is None or around.epochs is None:  # of a loop around `fit`
            return self.stated if not ends[-1].loops else Length(self.stated.turns, None, around.unknown)
        epochs = None if self.stated.epochs is None else self.stated.epochs * around.turns * around.epochs
        return self.stated._replace(epochs=epochs)

    def _varies(self) -> list[str]:
        lengths = self._lengths()
        return [LENGTHS.format(least=min(lengths), most=max(lengths), count=len(self.turns) - 1)] if lengths else []


class ProgramWatcher(Watcher):
    """Watches what runs programs, of whichever framework."""

    def __init__(self, run: ScriptRun) -> None:
        super().__init__(run)
        self.periods: Periods = run.periods or Periods(self)
        run.periods = self.periods

    @property
    def trains(self) -> bool:  # type: ignore[override]
        """Return whether a program took gradients."""
        return bool(self.periods.turns)

    @property
    def without_values(self) -> bool:  # type: ignore[override]
        """Return whether its training has started and is not computed."""
        return self.trains and self.periods.without_values

    @property
    def has_started(self) -> bool:
        """Return whether a period was recorded, after which an error is no matter, or a step, where it exits itself."""
        return self.periods.is_whole or (self.run.exited and self.trains)

    def say(self, *notes: str | None) -> None:
        """Note sentences for the answer, each once."""
        self.periods.notes += [note for note in notes if note and note not in self.periods.notes]

    def ended(self, variables: Mapping[str, Any]) -> Script | None:
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
    found, frame = set[int](), caller(run)
    while frame is not None:
        if is_own(frame.f_code.co_filename, run.path):
            for variables in (frame.f_locals, frame.f_globals):
                found.update(_named(variables))
                for value in [*variables.values()]:
                    found.update(_named(value if isinstance(value, dict) else getattr(value, "__dict__", {})))
        frame = frame.f_back
    return found


def _named(variables: Mapping[Any, Any]) -> Iterator[int]:
    for name, held in [*variables.items()]:
        if isinstance(name, str) and BATCH_SIZE.search(name):
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


def line_of(frame: FrameType | None, run: ScriptRun) -> int | None:
    """Return the line of the script that a frame's callers are at; None: they are in other files."""
    while frame is not None:
        if frame.f_code.co_filename == str(run.path):
            return frame.f_lineno
        frame = frame.f_back
    return None


def caller(run: ScriptRun | None = None) -> FrameType | None:
    """Return the innermost frame outside of this package; of a run, the innermost one in the script's files."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        passes = (frame.f_globals.get("__name__") or "").startswith("whichdevice.")
        if not passes and (run is None or is_own(frame.f_code.co_filename, run.path)):
            break
        frame = frame.f_back
    return frame


def refused(run: ScriptRun, reason: str) -> StudyError:
    """Return an error that names the line that the script is at."""
    line = line_of(sys._getframe(1), run)
    return StudyError(f"{run.path.name}{f', line {line}' if line else ''}: {reason}")

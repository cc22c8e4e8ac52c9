"""How long a script trains, observed while it does: loops that are running where its optimiser has stepped.

    seen.append(loops_at(frame))          # after one step, and after a later one
    length_of(seen[0], seen[-1], 2, drawn)     # Length(turns=250, epochs=3)

The running script's own objects give ranges and lengths; a counter is compared with its limit before and after. What
no loop shows is not known.
"""

import ast
import contextlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple

from whichdevice.base.code_hash import parsed

ARITHMETIC = (
    ast.expr_context, ast.operator, ast.unaryop, ast.Name, ast.Attribute, ast.Constant, ast.BinOp, ast.UnaryOp,
    ast.Subscript, ast.List, ast.Tuple,
)  # fmt: skip
PURE = ("len", "int", "float", "min", "max", "range", "round", "abs")  # functions that a limit may call
DIVIDING = ("split", "chunk", "unbind", "items", "keys", "values", "tolist")  # methods whose outcome has a length
AROUND = ("tqdm", "enumerate", "reversed", "iter", "list", "sorted", "track")  # hand on what they are given
RANGES = ("range", "trange", "arange")
RUNNERS = ("torch.", "runpy", "whichdevice.", "threading", "importlib", "tqdm")  # modules whose loops are no training's
BOUNDS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE, ast.Eq, ast.NotEq)
NAMES, STARTS = "whichdevice.models.script.torch_names", "started"
STAYING, LEAVING = (ast.LtE, ast.GtE), (ast.Lt, ast.Gt)  # of a `while`, of what breaks: they turn where both are equal
NO_END = "how long its training goes on does not show"
MOST = 1e15  # turns; of more nobody waits for the end


Sides = tuple[float, float, bool]  # of a comparison, and whether a loop still turns where they are equal


@dataclass(frozen=True)
class Loop:
    """A loop that is running."""

    line: int
    turns: int | None = None  # in all; None: its end does not show
    loader: Any = None  # what gives its batches, where that is a loader
    place: float | None = None  # of the turn that is running, in steps of its range
    limits: Mapping[str, Sides] = field(default_factory=dict)  # of what ends it
    is_epoch: bool = False  # whether its variable counts epochs


class Length(NamedTuple):
    """How long a training is, in periods."""

    turns: float | None = None  # of an epoch; None: not known
    epochs: float | None = None
    unknown: str | None = None
    by_loader: bool = False  # whether an epoch is a pass of a loader


class Amounts(NamedTuple):
    """The amounts of a whole training; None: not known."""

    examples: int | None = None  # of an epoch
    epochs: int | None = None
    steps: int | None = None  # of all epochs
    unknown: str | None = None  # why they are not known


def amounts_of(length: Length, batch: int, stated: int | None = None) -> Amounts:
    """Return the amounts of a training whose period has a batch of so many examples.

    The examples that its data state are exact where a pass gives as many, but for a part of a batch.
    """
    if length.turns is None or length.epochs is None or not math.isfinite(length.turns * length.epochs):
        return Amounts(stated, unknown=length.unknown or NO_END)
    turns, epochs = max(1, round(length.turns)), max(1, round(length.epochs))
    is_exact = stated is not None and abs(stated - turns * batch) <= batch
    return Amounts(stated if is_exact else turns * batch, epochs, turns * epochs)


def loops_at(frame: FrameType | None, loaders: Mapping[Any, Any], sizes: Mapping[int, int]) -> tuple[list[Loop], Any]:
    """Return the loops around what a frame calls, outermost first, and a library's trainer at work.

    `loaders` are what gives batches by the file and line where a loop began to go over it, `sizes` the examples of a
    batch by the place of its loader in memory. With such a number the loops are those around the trainer.
    """
    loops, trainer = list[Loop](), None
    while frame is not None:
        name = frame.f_globals.get("__name__") or ""
        if frame.f_code.co_name == STARTS and name == NAMES:  # another process: the script starts some at once
            break
        if not name.startswith(RUNNERS) or name == "__main__":
            inner = trainer_in(frame.f_locals.get("self"))
            trainer = inner or trainer
            loops = [] if inner is not None else _loops_in(frame, loaders, sizes) + loops
        frame = frame.f_back
    return loops, trainer


def trainer_in(owner: Any) -> Any:
    """Return the trainer of Hugging Face or Lightning that an object is or has; None: it states no steps."""
    return next((held for held in (owner, attribute(owner, "trainer")) if steps_of(held)), None)


def steps_of(trainer: Any) -> int | None:
    """Return the number of steps that a trainer states."""
    stated = attribute(attribute(trainer, "state"), "max_steps"), attribute(trainer, "estimated_stepping_batches")
    for limit in stated:
        if isinstance(limit, int | float) and not isinstance(limit, bool) and 0 < limit < MOST:
            return int(limit)
    return None


def attribute(owner: Any, name: str) -> Any:
    with contextlib.suppress(Exception):  # of the script's own objects
        return getattr(owner, name, None)
    return None


@cache
def _tree(file: str) -> ast.Module | None:
    with contextlib.suppress(OSError, ValueError, SyntaxError):
        return parsed(Path(file).read_bytes())
    return None


def _loops_in(frame: FrameType, loaders: Mapping[Any, Any], sizes: Mapping[int, int]) -> list[Loop]:
    """Return the loops around the line that a frame is at."""
    node: Any = _tree(frame.f_code.co_filename)
    loops, line = list[Loop](), frame.f_lineno
    while node is not None:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            loops = []
        elif isinstance(node, ast.For | ast.While) and node.body[0].lineno <= line <= (node.body[-1].end_lineno or 0):
            loop = _loop(node, frame, loaders, sizes)
            loops += [loop] if loop is not None else []
        inner = (part for part in ast.iter_child_nodes(node) if hasattr(part, "lineno"))
        node = next((part for part in inner if part.lineno <= line <= part.end_lineno), None)  # type: ignore[attr-defined]
    return loops


def _loop(
    node: ast.For | ast.While, frame: FrameType, loaders: Mapping[Any, Any], sizes: Mapping[int, int]
) -> Loop | None:
    """Return a loop as it is now; None where it goes over optimisers."""
    ends = [(part.test, LEAVING) for part in _parts(node.body) if isinstance(part, ast.If) and _leaves(part)]
    tests = [(node.test, STAYING), *ends] if isinstance(node, ast.While) else ends
    limits = {text: sides for test, equal in tests for text, sides in _limits(test, equal, frame).items()}
    if isinstance(node, ast.While):
        return Loop(node.lineno, limits=limits)
    names = [part.id for part in ast.walk(node.target) if isinstance(part, ast.Name)]
    values = [frame.f_locals.get(name, frame.f_globals.get(name)) for name in names]
    if any(hasattr(value, "param_groups") for value in values):
        return None
    over = _over(node.iter, frame)
    place = next((value for value in values[:1] if type(value) is int), None)
    if isinstance(over, range):
        place = None if place is None or place not in over else over.index(place)
    begun = loaders.get((frame.f_code.co_filename, node.iter.lineno))  # where the loop began to go over it
    if begun is not None and known_length(over) is None:
        over = begun
    loader = over if over is not None and any(one is over for one in loaders.values()) else None
    turns = known_length(over)
    if turns is None and loader is not None and sizes.get(id(loader)):  # its sampler does not know
        examples = known_length(loader.dataset)
        turns = examples and -(-examples // sizes[id(loader)])
    return Loop(node.lineno, turns, loader, place, limits, any("epoch" in name.lower() for name in names))


def _parts(body: Sequence[ast.stmt]) -> list[ast.stmt]:
    """The statements of a loop's body that are in no function or loop inside of it."""
    inner = [part for statement in body if isinstance(statement, ast.If | ast.With | ast.Try)
             for part in _parts([*statement.body, *getattr(statement, "orelse", ())])]  # fmt: skip
    return [*body, *inner]


def _leaves(statement: ast.If) -> bool:
    return any(isinstance(part, ast.Break | ast.Return) for part in statement.body)


def _limits(test: ast.expr, equal: tuple[type[ast.cmpop], ...], frame: FrameType) -> dict[str, Sides]:
    """Return the comparisons in a test by their texts: both sides, and whether it is one of these."""
    limits = dict[str, Sides]()
    for part in ast.walk(test):
        if isinstance(part, ast.Compare) and len(part.ops) == 1 and isinstance(part.ops[0], BOUNDS):
            sides = [_value(side, frame) for side in (part.left, part.comparators[0])]
            if all(isinstance(side, int | float) for side in sides):
                limits[ast.unparse(part)] = float(sides[0]), float(sides[1]), isinstance(part.ops[0], equal)
    return limits


def _value(node: ast.expr, frame: FrameType) -> Any:
    """Return the value of simple arithmetic, with methods that take nothing; None where it is more."""
    for part in ast.walk(node):
        if isinstance(part, ast.Call):
            plain = getattr(part.func, "id", None) in PURE
            asks = isinstance(part.func, ast.Attribute) and (not part.args or part.func.attr in DIVIDING)
            if not plain and not asks:
                return None
        elif not isinstance(part, (*ARITHMETIC, ast.Slice, ast.keyword)):
            return None
    with contextlib.suppress(Exception):  # of what the script's objects do where they are asked
        return eval(  # nosec B307  # the script's own text, from its loop
            compile(ast.Expression(node), "", "eval"), frame.f_globals, dict(frame.f_locals)
        )
    return None


def _over(node: ast.expr, frame: FrameType) -> Any:
    """Return what a loop goes over, as far as it can be made again: a range, a loader, a list; None: a generator."""
    if isinstance(node, ast.Call):
        name = getattr(node.func, "id", getattr(node.func, "attr", ""))
        if name in RANGES and node.args:
            given = [_value(part, frame) for part in node.args]
            with contextlib.suppress(TypeError, ValueError):
                return range(*given)
            return None
        if name in AROUND and node.args:
            return _over(node.args[0], frame)
        if name == "zip" and node.args:
            known = [(over, known_length(over)) for over in (_over(part, frame) for part in node.args)]
            sized = [(over, length) for over, length in known if length is not None]
            return min(sized, key=lambda pair: pair[1], default=(None, None))[0]
        if name == "islice" and len(node.args) > 1:
            stop = _value(node.args[1 if len(node.args) == 2 else 2], frame)
            inner = known_length(_over(node.args[0], frame))
            return range(min(stop, inner or stop)) if isinstance(stop, int) else None
    return _value(node, frame)


def known_length(value: Any) -> int | None:
    """Return the length of a loader or of data; None where it does not show."""
    with contextlib.suppress(Exception):  # of the script's own sampler or data
        return len(value)
    return None


def length_of(first: Sequence[Loop], last: Sequence[Loop], periods: int, drawn: Mapping[int, float]) -> Length:
    """Return how long loops go on that were seen after a period and again after some periods more.

    `drawn` are the batches of a period by the place of their loader in memory.
    """
    if not last:
        return Length(unknown="no loop around its step shows")
    inner, outer, by_loader = 1.0, 1.0, False
    before = {loop.line: loop for loop in first}
    for place, loop in enumerate(last):
        earlier = before.get(loop.line, loop)
        turns = _turns(loop, earlier, periods, drawn, place == len(last) - 1)
        if (counted := _counted(earlier, loop, periods)) is not None:
            inside = (_turns(one, one, 1, drawn, False) for one in last[place + 1 :])
            most = math.inf if turns is None else turns * math.prod(one or math.inf for one in inside)
            return Length(min(counted, most), outer, by_loader=loop.loader is not None)
        if turns is None:
            return _by_outer(first, last[:place], periods) or Length(
                unknown=f"how often its loop in line {loop.line} turns does not show"
            )
        by_loader = by_loader or loop.loader is not None
        if by_loader or (place == len(last) - 1 and (place or not loop.is_epoch)):
            inner *= turns
        else:
            outer *= turns
    return Length(inner, outer, by_loader=by_loader)


def _by_outer(first: Sequence[Loop], outer: Sequence[Loop], periods: int) -> Length | None:
    """Return the length of a training by an outer loop that went on while periods were observed; None: none did."""
    before = {loop.line: loop for loop in first}
    for place in range(len(outer) - 1, -1, -1):
        loop, earlier = outer[place], before.get(outer[place].line)
        began = None if earlier is None else earlier.place
        turned = 0 if loop.place is None or began is None else loop.place - began
        if loop.turns and turned > 0:
            return Length(periods / turned, math.prod(one.turns or math.nan for one in outer[: place + 1]))
    return None


def _turns(
    loop: Loop, earlier: Loop, periods: int, drawn: Mapping[int, float], is_innermost: bool
) -> float | None:
    """Return the periods of a loop's turns, of which each may be several, or a part of one."""
    if loop.turns is None:
        return None
    if loop.loader is not None and (batches := drawn.get(id(loop.loader))):
        return max(1.0, loop.turns / batches)
    if is_innermost and loop.place is not None and earlier.place is not None:
        turned = (loop.place - earlier.place) / periods
        if turned > 1:
            return 1 + (loop.turns - 1 - earlier.place) / turned  # none before the first
    return float(loop.turns)


def _counted(earlier: Loop, loop: Loop, periods: int) -> float | None:
    """Return the periods until a counter is at its limit; None where none changes towards it."""
    least = math.inf
    for text, (left, right, equal) in loop.limits.items():
        before = earlier.limits.get(text)
        if before is None:
            continue
        for now, then, limit in ((left, before[0], right), (right, before[1], left)):
            rate = (now - then) / periods
            if rate > 0 and limit > now:
                begin = then % rate
                least = min(least, math.ceil((limit - begin) / rate - 1e-9 + equal * 1e-6))
    return least if least < MOST else None

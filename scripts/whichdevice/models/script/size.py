"""How long a script's training is: the loops around its step, its usual names for epochs, its longest arrays.

stack = Stack(path)                                       # in the step
stack.amount                                                 # TrainingLength(epochs=3, steps=250)
amounts(stack.scopes, stack.amount, [(64, 28, 28)], None)    # {"examples": ..., "epochs": ...}
"""

import ast
import inspect
import math
import re
import traceback
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from whichdevice.models.script.run import calls_of, is_own
from whichdevice.models.script.text import (
    DEFINING,
    ENDLESS,
    Statement,
    around,
    attribute,
    calls_around,
    count_of,
    function_of,
    holds,
    is_expression,
    raised_in,
    statements_of,
    stored_in,
    targets_of,
    turns_over,
    value_in,
)

EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs")
HOLDERS = ("args", "self", "trainer", "config", "cfg", "hparams", "opt", "params", "training_args")
REACHED: tuple[type[ast.cmpop], ...]  # how a loop's end compares a count
BELOW: tuple[type[ast.cmpop], ...]  # how its test does
REACHED, BELOW = (ast.Gt, ast.GtE, ast.Eq), (ast.Lt, ast.LtE, ast.NotEq)
EXITS = ("exit", "quit", "sys.exit", "os._exit")
STEPS = re.compile("step|iter|update")  # a name of how many steps were made
ASKED_STEPS = re.compile(r"(get|num|global)_\w*(step|iter|update)s?$")  # a method's name that says it
MAX_COUNTED = 10_000  # turns of a loop that are tried one by one


class TrainingLength(NamedTuple):
    """How often a step runs by the loops around it; None: their variables do not show it."""

    epochs: int | None = None
    steps: int | None = None  # of an epoch, where a loop counts them
    batches: int | None = None  # of an epoch, where a loop is over data
    unknown: str | None = None  # which loop has no end that shows


class Loop(NamedTuple):
    """A loop of the script's files, with the variables there."""

    node: ast.For | ast.While
    variables: Mapping[str, Any]
    line: int  # of the step, or of the call that leads to it
    anew: frozenset[str] = frozenset()  # counts that its function sets to a number before its loops


@dataclass(frozen=True, eq=False)
class Function:
    """A function that is running, with the line in it."""

    code: CodeType
    line: int
    variables: Mapping[str, Any]
    module: Mapping[str, Any]  # its module's variables

    @cached_property
    def scope(self) -> dict[str, Any]:
        """The variables that it sees."""
        return {**self.module, **self.variables}

    @cached_property
    def tree(self) -> Any:
        """The text of the function."""
        return function_of(self.code)

    @cached_property
    def path(self) -> list[Statement]:
        """The statements around its line, the outermost first."""
        return [] if is_expression(self.code) else around(self.tree, self.line)

    @cached_property
    def loops(self) -> list[Loop]:
        """The loops around its line, the outermost first, but those that are over parts of a step."""
        nodes = (place.node for place in self.path)
        loops = [node for node in nodes if isinstance(node, ast.For | ast.While) and self._is_in_body(node)]
        anew = self._anew(loops[0].lineno) if loops else frozenset()
        return [Loop(node, self.scope, self.line, anew) for node in loops if not self._is_over_parts(node)]

    def _anew(self, line: int) -> frozenset[str]:
        """The local variables that it sets to a number before a line."""
        outer = {
            name for node in ast.walk(self.tree) if isinstance(node, ast.Global | ast.Nonlocal) for name in node.names
        }
        before = (node for node in statements_of(self.tree.body) if node.lineno < line and isinstance(node, ast.Assign))
        values = ((node, getattr(node.value, "elts", [node.value])) for node in before)
        return (
            frozenset(
                name
                for node, parts in values
                for name, value in zip(targets_of(node), parts, strict=False)
                if isinstance(value, ast.Constant)
            )
            - outer
        )

    def _is_in_body(self, loop: ast.For | ast.While) -> bool:
        return loop.body[0].lineno <= self.line <= (loop.body[-1].end_lineno or 0)

    def _is_over_parts(self, loop: ast.For | ast.While) -> bool:
        """Whether a loop is over the optimisers of a step, or starts a process for each GPU."""
        names = stored_in(loop.target) if isinstance(loop, ast.For) else ()
        starts = (call.func for call in calls_of(loop) if call.lineno == self.line)
        return any(attribute(self.variables.get(name), "param_groups") is not None for name in names) or any(
            isinstance(function, ast.Attribute) and function.attr == "start" for function in starts
        )


def amounts(
    scopes: Sequence[Mapping[str, Any]],
    loops: TrainingLength,
    shapes: Sequence[Sequence[int]],
    loaded: int | None,
    batches: int | None = None,
    whole: bool = False,
) -> dict[str, Any]:
    """Examples of one epoch and epochs, as far as the script shows them.

    `shapes` are those of a batch's inputs, `loaded` are a loader's examples in `batches`; `whole`: a batch is all.
    """
    size, epochs, steps = shapes[0][0], loops.epochs, loops.steps
    if whole and (steps or epochs):
        return {"examples": size, "epochs": (epochs or 1) * (steps or 1), "unknown": None}
    if loaded and batches and (batches - 1) * size >= loaded:  # rows of a batch are not its examples: nodes of graphs
        loaded = batches * size
    known = loaded or next(filter(None, (_longest(scopes, shape) for shape in shapes)), None)
    if steps is None:
        examples = known or (loops.batches * size if loops.batches else None)
    elif known and (steps - 1) * size < known <= steps * size:  # the last batch is smaller
        examples = known
    else:
        examples = steps * size
    if epochs is None and loops.unknown is None:
        epochs = named_count(scopes)
    return {"examples": examples, "epochs": epochs, "unknown": loops.unknown}


class Stack:
    """The functions that are running where a script's training is, from the innermost to the script."""

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        walk = traceback.walk_stack(inspect.currentframe())
        self.functions = [
            Function(frame.f_code, line, dict(inspect.getargvalues(frame).locals), frame.f_globals)
            for frame, line in walk
        ][1:]

    @property
    def line(self) -> int | None:
        """The line of the script from which the innermost call comes."""
        lines = (part.line for part in self.functions if Path(part.code.co_filename).absolute() == self.path)
        return next(lines, None)

    @property
    def where(self) -> str:
        """The script's name with that line; in a thread of a library's it has none."""
        return f"{self.path.name}, line {self.line}" if self.line else self.path.name

    @property
    def in_import(self) -> bool:
        """Whether another file trains while it is imported."""
        files = (Path(part.code.co_filename).absolute() for part in self.functions if part.code.co_name == "<module>")
        return any(file != self.path and file.suffix == ".py" and file.is_file() for file in files)

    @property
    def lines(self) -> tuple[tuple[CodeType, int], ...]:
        """The lines of all functions: the same where a loop comes back."""
        return tuple((part.code, part.line) for part in self.functions)

    @property
    def own_lines(self) -> tuple[tuple[CodeType, int], ...]:
        """The lines of the script's functions: a library may take gradients of the same loss in two places."""
        return tuple((part.code, part.line) for part in self.own) or self.lines

    @cached_property
    def scopes(self) -> list[Mapping[str, Any]]:
        """Variables of each function, and of its object, from the innermost to the script, then the script's own."""
        scopes: list[Mapping[str, Any]] = []
        for part in self.functions:
            scopes += [part.variables, attribute(part.variables.get("self"), "__dict__") or {}]
        mains = (part.module for part in self.functions if part.module.get("__name__") == "__main__")
        return scopes + [module for module in mains if "__file__" in module][-1:]

    @cached_property
    def own(self) -> list[Function]:
        """The functions of the script's files, the outermost first."""
        return [part for part in reversed(self.functions) if is_own(part.code.co_filename, self.path)]

    @cached_property
    def inside(self) -> list[Function]:
        """Those that a library's trainer calls; it counts by itself: loops outside of it are none of its epochs."""
        trainers = [place for place, part in enumerate(self.functions) if _is_trainer(part, self.path)]
        outside = set(self.functions[trainers[0] + 1 :] if trainers else [])
        return [part for part in self.own if part not in outside]

    @cached_property
    def around(self) -> list[Loop]:
        """The loops of the script's files around the line of each function, the outermost first."""
        return [loop for part in self.inside for loop in part.loops]

    @cached_property
    def _turns(self) -> list[int | None]:
        """The turns of each of the loops."""
        return [turns_of(loop) for loop in self.around]

    @cached_property
    def _least(self) -> list[int | None]:
        """The turns of the first 0, 1, 2, ... loops together."""
        loops = self.around
        return _least(self._turns, [limit for place in range(len(loops)) for limit in _limits(loops, place)])

    @cached_property
    def amount(self) -> TrainingLength:
        """Epochs and steps by the loops around the step.

        The innermost loop is over batches, those around it over epochs. A count that a loop raises and compares, as in
        `while step < steps:` or `if step >= steps: break`, is a limit for all loops in which it is not set again.
        """
        loops = self.around
        if not loops:
            return TrainingLength()
        last, steps, epochs, total = loops[-1], self._turns[-1], self._least[-2], self._least[-1]
        if total is not None and (epochs is None or steps is None or total < epochs * steps):
            return TrainingLength(1, total) if not epochs or total % epochs else TrainingLength(epochs, total // epochs)
        if epochs is None:
            endless = next(loop for loop, count in zip(loops, self._turns, strict=True) if count is None)
            named = named_count(self.scopes) if "epoch" in _header(endless.node) else None
            return TrainingLength(named, batches=steps, unknown=None if named else _no_end(endless))
        if epochs and isinstance(last.node.body[-1], ast.Break):  # it takes one batch
            return TrainingLength(1, epochs)
        if isinstance(last.node, ast.For) and not _counts(last.node, last.variables):
            return TrainingLength(epochs, batches=steps)
        if steps is None and epochs and len(loops) > 1 and _header(last.node).endswith("is not None"):
            return TrainingLength(epochs)  # until a loader gives no batch
        if steps is None:
            return TrainingLength(unknown=_no_end(last))
        if len(loops) == 1 and _header(last.node).startswith("epoch"):
            return TrainingLength(steps)
        return TrainingLength(epochs, steps)

    @property
    def has_one_loop(self) -> bool:
        """Return whether there is one loop around the step."""
        return len(self.around) == 1

    @cached_property
    def outside(self) -> list[Any]:
        """Return what the only loop around a step leaves as it is: a batch among it is all examples.

        It is what variables hold, and attributes of theirs that the functions inside of the loop read.
        """
        if not self.has_one_loop:
            return []
        loop, inner = self.around[0], self.own[-1]
        trees: list[tuple[ast.AST, Mapping[str, Any]]] = [(loop.node, loop.variables)]
        if loop.node not in (place.node for place in inner.path):
            trees.append((inner.tree, inner.module))
        return [value for tree, variables in trees for value in _unchanged(tree, variables)]


def _is_trainer(part: Function, path: Path) -> bool:
    """Whether a function is of a library's object that holds a number of epochs or steps, and is no module."""
    holder = part.variables.get("self")
    if holder is None or is_own(part.code.co_filename, path) or callable(attribute(holder, "parameters")):
        return False
    scopes = [{"self": holder}]
    return bool(named_count(scopes) or steps_in(scopes, None))


def _no_end(loop: Loop) -> str:
    return f"the loop in line {loop.node.lineno} has no end that shows"


def _header(node: ast.For | ast.While) -> str:
    if isinstance(node, ast.While):
        return ast.unparse(node.test)
    return f"{ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def _unchanged(tree: ast.AST, variables: Mapping[str, Any]) -> Iterator[Any]:
    """Return variables that a part of a script does not change, and the attributes of theirs that it reads."""
    changed = set[str]()
    for node in ast.walk(tree):
        if isinstance(getattr(node, "ctx", None), ast.Store):  # x, x[...] or x.data
            changed |= {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        elif isinstance(node, ast.Attribute) and node.attr.endswith("_"):  # x.copy_(...)
            changed |= {getattr(node.value, "id", "")}
    kept = {name: value for name, value in variables.items() if name not in changed}
    for value in kept.values():
        yield value
        with suppress(Exception):  # of the script's own object
            is_graph = callable(attribute(value, "to_dict")) and callable(attribute(value, "keys"))
            yield from (value.to_dict() if is_graph else value if isinstance(value, dict) else {}).values()
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in kept:
            with suppress(Exception):  # of the script's own object
                yield getattr(kept[node.value.id], node.attr)


def _is_view(value: Any, array: Any) -> bool:
    """Whether two tensors are the same numbers of one place; a sparse one has no place."""
    with suppress(AttributeError, RuntimeError):
        return bool((value.data_ptr(), value.shape) == (array.data_ptr(), array.shape))
    return False


def is_whole(batch: Iterable[Any], outside: Sequence[Any]) -> bool:
    """Whether each array of a batch is one of these values; a tensor also where it is another view of one."""

    def known(array: Any) -> bool:
        return any(value is array or (type(value) is type(array) and _is_view(value, array)) for value in outside)

    return bool(outside) and all(map(known, batch))


def _counts(loop: ast.For, variables: Mapping[str, Any]) -> bool:
    """Whether a loop counts or goes on without end, in place of being over data; a variable may be a bar of a range."""
    if any(name.endswith("range") or name in {*ENDLESS, "islice"} for name, _ in calls_around(loop.iter)):
        return True
    over = variables.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else None
    return isinstance(over, range) or isinstance(attribute(over, "iterable"), range)


def turns_of(loop: Loop) -> int | None:
    """Turns of a loop over a range or over what has a length, by the values of the variables."""
    if isinstance(loop.node, ast.While):
        return None
    turns = turns_over(loop.node.iter, loop.variables)
    before = (node for node in loop.node.body if isinstance(node, ast.If) and node.lineno < loop.line)
    skips = [node.test for node in before if isinstance(node.body[-1], ast.Continue)]
    if not turns or turns > MAX_COUNTED or not skips:
        return turns
    scopes = ({**loop.variables, **values} for values in _values_in(loop.node, turns, loop.variables))
    return sum(not any(holds(test, scope) for test in skips) for scope in scopes)


def _values_in(loop: ast.For, turns: int, variables: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return what a loop sets in each turn: its counter, or a variable to each part of a list."""
    if (counted := count_of(loop, variables)) is not None:
        name, first, step = counted
        return [{name: first + step * turn} for turn in range(turns)]
    values = value_in(loop.iter, variables)
    is_list = isinstance(values, list | tuple)
    return [{ast.unparse(loop.target): value} for value in values] if is_list else [{}] * turns


class Limit(NamedTuple):
    """The most turns that the loops between two places have together."""

    begin: int
    end: int
    turns: int


def _least(turns: Sequence[int | None], limits: Iterable[Limit]) -> list[int | None]:
    """The turns of the first 0, 1, 2, ... loops together, as far as they are known."""
    known = [*limits, *(Limit(place, place + 1, count) for place, count in enumerate(turns) if count)]
    least: list[int | None] = [1]
    for end in range(1, len(turns) + 1):
        ways = (limit.turns * before for limit in known if limit.end == end and (before := least[limit.begin]))
        least.append(min(ways, default=None))
    return least


def _limits(loops: Sequence[Loop], place: int) -> Iterator[Limit]:
    """Limits by what the test of a loop, or of what ends it, compares with a count."""
    loop = loops[place]
    ends = [node for node in statements_of(loop.node.body) if isinstance(node, ast.If)]
    tests = [(node.test, REACHED, _raised_after(loop, node)) for node in ends if _leaves(node.body[-1])]
    tests += [(loop.node.test, BELOW, set())] if isinstance(loop.node, ast.While) else []
    for test, wanted, later in tests:
        for part in test.values if isinstance(test, ast.BoolOp) else [test]:
            if (limit := _limit(part, wanted, loops, place)) is not None:
                names = {ast.unparse(name) for name in ast.walk(part) if isinstance(name, ast.Name | ast.Attribute)}
                yield limit._replace(turns=limit.turns + 1) if names & later else limit


def _limit(part: ast.expr, wanted: Sequence[type[ast.cmpop]], loops: Sequence[Loop], place: int) -> Limit | None:
    if not isinstance(part, ast.Compare) or len(part.ops) != 1:
        return None
    count, end = part.left, part.comparators[0]
    if type(part.ops[0]) not in wanted:
        count, end = end, count
    asked = _asked(count, loops[place].node)
    if asked is not None and ASKED_STEPS.search(
        ast.unparse(asked.func).lower()
    ):  # the script's trainer counts its steps
        with suppress(Exception):  # of the script's own object, too
            return Limit(0, len(loops), math.ceil(value_in(end, loops[place].variables)))
    if not isinstance(count, ast.Name | ast.Attribute | ast.Subscript):
        return None
    name = ast.unparse(count)
    with suppress(Exception):  # of the script's own object, too
        left = value_in(end, loops[place].variables) - value_in(count, loops[place].variables)
        level, raised = _raised(loops, place, name, by_name=not isinstance(end, ast.Constant))
        inner = math.prod(turns_of(loop) or 0 for loop in loops[level + 1 :])
        if raised == inner > 1:  # by the turns of the loops in it, as blocks of steps do
            level, raised = len(loops) - 1, 1
        is_last = type(part.ops[0]) is (ast.Gt if wanted is REACHED else ast.LtE)  # with the end's own turn
        turns = left // raised + 1 if is_last else math.ceil(left / raised)
        first = level if name == counter_of(loops[level]) else _set_again(loops[: level + 1], name)
        first = max([first, *(number + 1 for number in range(level) if _is_named(loops[number].node, end))])
        return Limit(first, level + 1, int(turns)) if turns > 0 else None
    return None


def _raised_after(loop: Loop, test: ast.If) -> set[str]:
    """Return the counts that a loop raises after a test that is after its step: it sees those of its turn."""
    if test.lineno <= loop.line:
        return set()
    later = (raised_in(node) for node in statements_of(loop.node.body) if node.lineno > test.lineno)
    return {raised[0] for raised in later if raised is not None}


def _leaves(statement: ast.stmt) -> bool:
    """Whether a statement leaves the loop that it is in: also one that ends the script."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Call):
        return ast.unparse(statement.value.func) in EXITS
    return isinstance(statement, ast.Break | ast.Return)


def _asked(count: ast.expr, loop: ast.For | ast.While) -> ast.Call | None:
    """The call without arguments that gives a count, also where a loop's variable holds it."""
    values: list[ast.expr] = [count]
    if isinstance(count, ast.Name):
        stored = (node for node in statements_of(loop.body) if isinstance(node, ast.Assign))
        values += [node.value for node in stored if [*map(ast.unparse, node.targets)] == [count.id]]
    return next((call for call in values if isinstance(call, ast.Call) and not (call.args or call.keywords)), None)


def _is_named(loop: ast.For | ast.While, end: ast.expr) -> bool:
    """Whether an expression has a variable that a loop sets: it is another number in each of its turns."""
    names = {node.id for node in ast.walk(end) if isinstance(node, ast.Name)}
    return isinstance(loop, ast.For) and not names.isdisjoint(map(ast.unparse, ast.walk(loop.target)))


def _raised(loops: Sequence[Loop], place: int, count: str, by_name: bool) -> tuple[int, float]:
    """The place of the innermost loop in each turn of which a count is raised, and by how much; else LookupError.

    The name shows it where a function that the loop calls raises the count.
    """
    for level, loop in reversed([*enumerate(loops)][place:]):
        if count == counter_of(loop):
            return level, 1
        for node in statements_of(loop.node.body, loop.line):
            batches, block = _after_batches(node, loop)
            for raised in map(raised_in, block):
                if raised is not None and raised[0] == count:
                    return level, value_in(raised[1], loop.variables) / batches
    inner, variables = loops[-1].node.body, loops[-1].variables
    closures = chain.from_iterable(statements_of(node.body) for node in inner if isinstance(node, DEFINING))
    for node in closures:  # the optimiser calls it, as often as it takes the loss
        if (raised := raised_in(node)) is not None and raised[0] == count:
            known = (attribute(value, "defaults") for value in variables.values())
            times = max((part.get("max_iter", 1) for part in known if isinstance(part, dict)), default=1)
            return len(loops) - 1, value_in(raised[1], variables) * times
    stored = (node for node in ast.walk(loops[place].node) if isinstance(getattr(node, "ctx", None), ast.Store))
    if by_name and count not in map(ast.unparse, stored):
        if STEPS.search(count.lower()):
            return len(loops) - 1, 1
        if "epoch" in count.lower():
            return place, 1
    raise LookupError


def _after_batches(node: ast.stmt, loop: Loop) -> tuple[int, Sequence[ast.stmt]]:
    """The batches after which statements run once: those of Accelerate's `if accelerator.sync_gradients:`."""
    test = node.test if isinstance(node, ast.If) else None
    if not isinstance(test, ast.Attribute) or test.attr != "sync_gradients":
        return 1, [node]
    if node.lineno <= loop.line <= (node.end_lineno or 0):  # the step itself is among them
        return 1, []
    summed = attribute(value_in(test.value, loop.variables), "gradient_accumulation_steps")
    return summed if type(summed) is int else 1, node.body  # type: ignore[attr-defined]


def counter_of(loop: Loop) -> str | None:
    """The variable in which a loop over a range or with `enumerate` counts its turns."""
    counted = count_of(loop.node, loop.variables)
    return None if counted is None else counted[0]


def _set_again(loops: Sequence[Loop], count: str) -> int:
    """The place after the innermost of the loops around the last one that sets a count, or where its function does."""
    *outer, last = loops
    bodies = [map(targets_of, statements_of(loop.node.body)) for loop in outer]
    places = [place + 1 for place, targets in enumerate(bodies) if count in chain.from_iterable(targets)]
    begins = next(place for place, loop in enumerate(loops) if loop.variables is last.variables)
    return max([*places, begins * (count in last.anew)], default=0)


def named_count(scopes: Sequence[Mapping[str, Any]], names: Sequence[str] = EPOCHS) -> int | None:
    """A number, as that of epochs, by its usual names of variables and in what holds settings."""
    for scope in scopes:
        for name, value in scope.items():
            if name.lower() in names and _is_count(value):
                return int(value)
        for held in _held([scope]):
            for name in names:
                value = held.get(name) if isinstance(held, Mapping) else attribute(held, name)
                if value is not None and _is_count(value):
                    return int(value)
    return None


def _held(scopes: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """Return what holds settings, by the usual names."""
    owners = (scope[name] for scope in scopes for name in HOLDERS if name in scope)
    return (held for owner in owners for held in (owner, attribute(owner, "args")))


def steps_in(scopes: Sequence[Mapping[str, Any]], each: int | None) -> int | None:
    """The optimiser's steps after which a trainer of Hugging Face or Lightning ends, if its epochs do not end it.

    Hugging Face's `max_steps` counts alone, Lightning's only before its epochs, of `each` steps, are over.
    """
    for held in _held(scopes):
        most = attribute(held, "max_steps")
        if most is not None and _is_count(most):
            epochs = attribute(held, "max_epochs") or 0
            return None if each and 0 < epochs * each <= most else int(most)
    return None


def _longest(scopes: Sequence[Mapping[str, Any]], shape: Sequence[int]) -> int | None:
    """The number of examples of the longest array like a batch of this shape, where a script cuts it itself."""
    values = [value for scope in scopes for value in scope.values()]
    values += [inner for value in values if isinstance(value, dict) for inner in value.values()]
    shapes = (attribute(value, "shape") for value in values)
    alike = [known for known in shapes if isinstance(known, tuple) and known and known[1:] == tuple(shape[1:])]
    counts = (known[0] for known in alike if isinstance(known[0], int))  # None: symbolic
    return max((count for count in counts if count > shape[0]), default=None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1

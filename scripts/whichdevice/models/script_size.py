"""How long a script's training is: the loops around its step, its usual names for epochs, its longest arrays.

stack = Stack(path)                                       # in the step
stack.loops                                               # Loops(epochs=3, steps=250)
sizes(stack.scopes, stack.loops, [(64, 28, 28)], None)    # {"examples": ..., "epochs": ...}
"""

import ast
import inspect
import math
import operator
import re
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from types import CodeType
from typing import Any, NamedTuple

from whichdevice.code_hash import parsed
from whichdevice.models.script_run import is_own

EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs")
HOLDERS = ("args", "self", "trainer", "config", "cfg", "hparams", "opt", "params", "training_args")
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv, ast.Mod: operator.mod, ast.Pow: operator.pow,
}  # fmt: skip
CHANGED: dict[type[ast.unaryop], Callable[[Any], Any]] = {ast.Not: operator.not_, ast.USub: operator.neg}
WORKED_OUT: Mapping[str, Callable[..., Any]] = {
    "len": len, "int": int, "float": float, "max": max, "min": min, "abs": abs, "round": round, "math.ceil": math.ceil,
    "ceil": math.ceil, "math.floor": math.floor, "floor": math.floor, "np.ceil": math.ceil, "np.floor": math.floor,
}  # fmt: skip

COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.Eq: operator.eq, ast.NotEq: operator.ne,
    ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt, ast.GtE: operator.ge,
    ast.In: lambda part, whole: part in whole, ast.NotIn: lambda part, whole: part not in whole,
}  # fmt: skip


REACHED: tuple[type[ast.cmpop], ...]  # how a loop's end compares a count
BELOW: tuple[type[ast.cmpop], ...]  # how its test does
REACHED, BELOW = (ast.Gt, ast.GtE, ast.Eq), (ast.Lt, ast.LtE, ast.NotEq)
ENDLESS = ("cycle", "count", "repeat")
SAME_LENGTH = {"enumerate", "shuffle", "prefetch", "cache", "map", "with_options", "as_numpy_iterator"}  # of tf.data
STEPS = re.compile("step|iter|update")  # a name of how many steps were made
MAX_COUNTED = 10_000  # turns of a loop that are tried one by one
MAX_TURNS = 10**12  # of a slice without an end


class Loops(NamedTuple):
    """How often a step runs by the loops around it; None: their variables do not show it."""

    epochs: int | None = None
    steps: int | None = None  # of an epoch, where a loop counts them
    batches: int | None = None  # of an epoch, where a loop is over data
    unknown: str | None = None  # which loop has no end that shows


class Function(NamedTuple):
    """A function that is running, with the line in it."""

    code: CodeType
    line: int
    variables: Mapping[str, Any]
    module: Mapping[str, Any]  # its module's variables


class Loop(NamedTuple):
    """A loop of the script's files that is running, with the variables of its function."""

    node: ast.For | ast.While
    variables: Mapping[str, Any]
    line: int  # of the step, or of the call that leads to it


def sizes(
    scopes: Sequence[Mapping[str, Any]],
    loops: Loops,
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
    def around(self) -> list[Loop]:
        """The loops of the script's files around the line of each function, the outermost first.

        A library's trainer counts by itself: loops outside of it are none of its epochs (`repeats`).
        """
        return [loop for part in self.own[self._outside :] for loop in _loops_in(part)]

    def begins_with(self, other: "Stack") -> bool:
        """Whether an earlier place is in an epoch of this step, before the loop over its batches and in no loader."""
        inside = self._shared_with(other)
        loads = any("/torch/utils/data/" in part.code.co_filename for part in other.functions)
        return inside[-2:] == [True, False] and not loads

    def _shared_with(self, other: "Stack") -> list[bool]:
        """Whether each of the loops around this place is around an earlier one, too."""
        around = [(part.code, loop.node) for part in self.own[self._outside :] for loop in _loops_in(part)]
        lines = [(part.code, part.line) for part in other.own]
        return [
            any(known is code and node.lineno <= line <= (node.end_lineno or 0) for known, line in lines)
            for code, node in around
        ]

    def turns_with(self, other: "Stack") -> int | None:
        """Return the turns of the loops that are around an earlier place, too; None: there are none, or not known."""
        shared = sum(takewhile(bool, self._shared_with(other)))
        return self._least[shared] if shared else None

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
    def repeats(self) -> int | None:
        """How often a library's trainer is started by the loops outside of it; None: their variables do not show it."""
        turns = [turns_of(loop) for part in self.own[: self._outside] for loop in _loops_in(part)]
        return None if None in turns else math.prod(filter(None, turns))

    @cached_property
    def _outside(self) -> int:
        """How many of the script's functions are outside of the innermost trainer of a library."""
        trainers = [place for place, part in enumerate(self.functions) if _is_trainer(part, self.path)]
        outside = self.functions[trainers[0] + 1 :] if trainers else []
        return sum(is_own(part.code.co_filename, self.path) for part in outside)

    @cached_property
    def loops(self) -> Loops:
        """Epochs and steps by the loops around the step.

        The innermost loop is over batches, those around it over epochs. A count that a loop raises and compares, as in
        `while step < steps:` or `if step >= steps: break`, is a limit for all loops in which it is not set again.
        """
        loops = self.around
        if not loops:
            return Loops()
        last, steps, epochs, total = loops[-1], self._turns[-1], self._least[-2], self._least[-1]
        if total is not None and (epochs is None or steps is None or total < epochs * steps):
            return Loops(1, total) if not epochs or total % epochs else Loops(epochs, total // epochs)
        if epochs is None:
            endless = next(loop for loop, count in zip(loops, self._turns, strict=True) if count is None)
            named = named_count(self.scopes) if "epoch" in _header(endless.node) else None
            return Loops(named, batches=steps, unknown=None if named else _no_end(endless))
        if epochs and isinstance(last.node.body[-1], ast.Break):  # it takes one batch
            return Loops(1, epochs)
        if isinstance(last.node, ast.For) and not _counts(last.node, last.variables):
            return Loops(epochs, batches=steps)
        if steps is None and epochs and len(loops) > 1 and _header(last.node).endswith("is not None"):
            return Loops(epochs)  # until a loader gives no batch
        if steps is None:
            return Loops(unknown=_no_end(last))
        if len(loops) == 1 and _header(last.node).startswith("epoch"):
            return Loops(steps)
        return Loops(epochs, steps)

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
        loop = self.around[0]
        trees: list[tuple[ast.AST, Mapping[str, Any]]] = [(loop.node, loop.variables)]
        inner = self.own[-1]
        if not loop.node.lineno <= inner.line <= (loop.node.end_lineno or 0):
            trees.append((function_at(parsed(Path(inner.code.co_filename).read_bytes()), inner.line), inner.module))
        return [value for tree, variables in trees for value in _unchanged(tree, variables)]


def _is_trainer(part: Function, path: Path) -> bool:
    """Whether a function is of a library's object that holds a number of epochs or steps, and is no module."""
    holder = part.variables.get("self")
    if holder is None or is_own(part.code.co_filename, path) or callable(attribute(holder, "parameters")):
        return False
    scopes = [{"self": holder}]
    return bool(named_count(scopes) or steps_in(scopes, None))


def _loops_in(part: Function) -> list[Loop]:
    """The loops around the line of a function, the outermost first, but those that are over parts of a step."""
    return [
        Loop(node, {**part.module, **part.variables}, part.line)
        for node in _around(parsed(Path(part.code.co_filename).read_bytes()), part.line)
        if not (_steps_each(node, part.variables) or _starts_processes(node, part.line))
    ]


def _steps_each(node: ast.For | ast.While, variables: Mapping[str, Any]) -> bool:
    """Whether a loop is over the optimisers of a step."""
    if isinstance(node, ast.While):
        return False
    names = (part.id for part in ast.walk(node.target) if isinstance(part, ast.Name))
    return any(attribute(variables.get(name), "param_groups") is not None for name in names)


def _starts_processes(node: ast.For | ast.While, line: int) -> bool:
    """Whether a loop starts a process for each GPU, by `process.start()` in this line of it."""
    calls = (part.func for part in ast.walk(node) if isinstance(part, ast.Call) and part.lineno == line)
    return any(isinstance(function, ast.Attribute) and function.attr == "start" for function in calls)


def _no_end(loop: Loop) -> str:
    return f"the loop in line {loop.node.lineno} has no end that shows"


def _header(node: ast.For | ast.While) -> str:
    if isinstance(node, ast.While):
        return ast.unparse(node.test)
    return f"{ast.unparse(node.target)} in {ast.unparse(node.iter)}"


def own_code(path: Path) -> CodeType | None:
    """The innermost of a script's functions that is running."""
    codes = (frame.f_code for frame, _ in traceback.walk_stack(inspect.currentframe()))
    return next((code for code in codes if is_own(code.co_filename, path)), None)


def function_at(tree: ast.AST, line: int) -> ast.AST:
    """The innermost function around a line."""
    around = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    around = [node for node in around if node.lineno <= line <= (node.end_lineno or 0)]
    return max(around, key=lambda node: node.lineno, default=tree)


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


def _around(tree: ast.AST, line: int) -> list[ast.For | ast.While]:
    """The loops around a line, in its function, the outermost first."""
    loops: list[ast.For | ast.While] = []
    node: ast.AST | None = tree
    while node is not None:
        node = next((part for part in _statements(node) if part.lineno <= line <= (part.end_lineno or 0)), None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            loops = []
        elif isinstance(node, ast.For | ast.While) and line >= node.body[0].lineno:
            loops.append(node)
    return loops


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for part in ast.iter_child_nodes(node):
        if isinstance(part, ast.stmt):
            yield part
        elif isinstance(part, ast.ExceptHandler | ast.match_case):
            yield from part.body


def _calls_around(node: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """The calls around what a loop is over, from the outside, by the last names of their functions: tqdm, range."""
    while isinstance(node, ast.Call):
        name = ast.unparse(node.func).rpartition(".")[2]
        yield name, node
        if not node.args or name.endswith("range"):
            return
        node = node.args[0]


def _counts(loop: ast.For, variables: Mapping[str, Any]) -> bool:
    """Whether a loop counts or goes on without end, in place of being over data; a variable may be a bar of a range."""
    if any(name.endswith("range") or name in (*ENDLESS, "islice") for name, _ in _calls_around(loop.iter)):
        return True
    over = variables.get(loop.iter.id) if isinstance(loop.iter, ast.Name) else None
    return isinstance(over, range) or isinstance(attribute(over, "iterable"), range)


def turns_of(loop: Loop) -> int | None:
    """Turns of a loop over a range or over what has a length, by the values of the variables."""
    if isinstance(loop.node, ast.While):
        return None
    turns = _turns_over(loop.node.iter, loop.variables)
    before = (node for node in loop.node.body if isinstance(node, ast.If) and node.lineno < loop.line)
    skips = [node.test for node in before if isinstance(node.body[-1], ast.Continue)]
    if not turns or turns > MAX_COUNTED or not skips:
        return turns
    scopes = ({**loop.variables, **value} for value in _values_in(loop, turns))
    return sum(not any(_holds(test, scope) for test in skips) for scope in scopes)


def _values_in(loop: Loop, turns: int) -> Iterator[Mapping[str, Any]]:
    """What a loop sets in each turn: its counter, or a variable to each part of a list."""
    assert isinstance(loop.node, ast.For)
    counter, values = counter_of(loop.node), list(range(turns))
    with suppress(Exception):  # of the script's own object, too
        calls = [call for name, call in _calls_around(loop.node.iter) if name.endswith("range")]
        if calls:
            values = [*range(*(int(_value(part, loop.variables)) for part in calls[-1].args))]
        elif isinstance(known := _value(loop.node.iter, loop.variables), list | tuple):
            counter, values = ast.unparse(loop.node.target), list(known)
    return ({} if counter is None else {counter: value} for value in values)


def _holds(test: ast.expr, variables: Mapping[str, Any]) -> bool:
    """Whether a test is true, as far as the variables show it."""
    with suppress(Exception):  # of the script's own object, too
        return bool(_value(test, variables))
    return False


def _turns_over(inner: ast.expr, variables: Mapping[str, Any]) -> int | None:
    try:
        for name, call in _calls_around(inner):
            if name.endswith("range"):
                return len(range(*(int(_value(part, variables)) for part in call.args)))
            if name == "islice":
                return len(range(*slice(*(_value(part, variables) for part in call.args[1:])).indices(MAX_TURNS)))
            if name == "zip":
                turns = [_turns_over(part, variables) for part in getattr(call.args[0], "elts", call.args)]
                return min(count for count in turns if count is not None)
            if not call.args or (isinstance(call.func, ast.Attribute) and name in SAME_LENGTH | {"take"}):
                return _length(call, variables)
            if name in ENDLESS or inspect.isgeneratorfunction(variables.get(name)):  # the script's own says no length
                return None
            if name == "DataLoader":
                size = next((part.value for part in call.keywords if part.arg == "batch_size"), None)
                size = call.args[1] if size is None and len(call.args) > 1 else size
                count = len(_value(call.args[0], variables))
                return count if size is None else math.ceil(count / _value(size, variables))
            inner = call.args[0]
        return _length(inner, variables)
    except Exception:  # of the script's own object, too
        return None


def _length(node: ast.expr, variables: Mapping[str, Any]) -> int:
    """The length of a variable's value, also of a tf.data.Dataset behind its methods; else an error."""
    match node:
        case ast.Call(func=ast.Attribute(attr="take"), args=[count]):
            return int(_value(count, variables))
        case ast.Call(func=ast.Attribute(attr=name, value=inner)) if name in SAME_LENGTH:
            return _length(inner, variables)
    return len(_value(node, variables))


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
    """Limits by what the test of a loop, or of a `break` or `return` in it, compares with a count."""
    loop = loops[place]
    ends = [node for node in _statements_of(loop.node.body) if isinstance(node, ast.If)]
    tests = [(node.test, REACHED) for node in ends if isinstance(node.body[-1], ast.Break | ast.Return)]
    tests += [(loop.node.test, BELOW)] if isinstance(loop.node, ast.While) else []
    for test, wanted in tests:
        for part in test.values if isinstance(test, ast.BoolOp) else [test]:
            if (limit := _limit(part, wanted, loops, place)) is not None:
                yield limit


def _limit(part: ast.expr, wanted: Sequence[type[ast.cmpop]], loops: Sequence[Loop], place: int) -> Limit | None:
    if not isinstance(part, ast.Compare) or len(part.ops) != 1:
        return None
    count, end = part.left, part.comparators[0]
    if type(part.ops[0]) not in wanted:
        count, end = end, count
    asked = _asked(count, loops[place].node)
    if asked is not None and STEPS.search(ast.unparse(asked.func).lower()):  # the script's trainer counts its steps
        with suppress(Exception):  # of the script's own object, too
            return Limit(0, len(loops), math.ceil(_value(end, loops[place].variables)))
    if not isinstance(count, ast.Name | ast.Attribute | ast.Subscript):
        return None
    name = ast.unparse(count)
    with suppress(Exception):  # of the script's own object, too
        left = _value(end, loops[place].variables) - _value(count, loops[place].variables)
        level, raised = _raised(loops, place, name, by_name=not isinstance(end, ast.Constant))
        inner = math.prod(turns_of(loop) or 0 for loop in loops[level + 1 :])
        if raised == inner > 1:  # by the turns of the loops in it, as blocks of steps do
            level, raised = len(loops) - 1, 1
        turns = math.ceil(left / raised)
        first = level if name == counter_of(loops[level].node) else _set_again(loops[:level], name)
        first = max([first, *(number + 1 for number in range(level) if _is_named(loops[number].node, end))])
        return Limit(first, level + 1, turns) if turns > 0 else None
    return None


def _asked(count: ast.expr, loop: ast.For | ast.While) -> ast.Call | None:
    """The call without arguments that gives a count, also where a loop's variable holds it."""
    values = [count] if isinstance(count, ast.Call) else []
    if isinstance(count, ast.Name):
        stored = (node for node in _statements_of(loop.body) if isinstance(node, ast.Assign))
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
        if count == counter_of(loop.node):
            return level, 1
        for node in _statements_of(loop.node.body, loop.line):
            if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add) and ast.unparse(node.target) == count:
                return level, _value(node.value, loop.variables)
            if not isinstance(node, ast.Assign) or not isinstance(node.value, ast.BinOp):
                continue
            if ast.unparse(node).startswith(f"{count} = {count} +"):
                return level, _value(node.value.right, loop.variables)
    stored = (node for node in ast.walk(loops[place].node) if isinstance(getattr(node, "ctx", None), ast.Store))
    if by_name and count not in map(ast.unparse, stored):
        if STEPS.search(count.lower()):
            return len(loops) - 1, 1
        if "epoch" in count.lower():
            return place, 1
    raise LookupError


def counter_of(loop: ast.For | ast.While) -> str | None:
    """The variable in which a loop over a range or with `enumerate` counts its turns."""
    if isinstance(loop, ast.While):
        return None
    names = {name for name, _ in _calls_around(loop.iter)}
    if "enumerate" in names and isinstance(loop.target, ast.Tuple):
        return ast.unparse(loop.target.elts[0])
    return ast.unparse(loop.target) if any(name.endswith("range") for name in names) else None


def _set_again(loops: Sequence[Loop], count: str) -> int:
    """The place after the innermost of these loops that sets a count, or 0."""
    places = [
        place
        for place, loop in enumerate(loops)
        for node in _statements_of(loop.node.body)
        if isinstance(node, ast.Assign)
        and count in (ast.unparse(part) for target in node.targets for part in getattr(target, "elts", [target]))
    ]
    return max(places, default=-1) + 1


def _statements_of(body: Sequence[ast.stmt], line: int | None = None) -> Iterator[ast.stmt]:
    """The statements of a loop, not those of loops and functions in it; with a line, only under an `if` around it."""
    for node in body:
        yield node
        if isinstance(node, ast.For | ast.While | ast.FunctionDef | ast.ClassDef):
            continue
        if line is None or not isinstance(node, ast.If) or node.lineno <= line <= (node.end_lineno or 0):
            yield from _statements_of([*_statements(node)], line)


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of a number, a variable, an attribute, a length, or of what is worked out of such; else LookupError."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return variables[node.id]
    if isinstance(node, ast.List | ast.Tuple):
        return [_value(part, variables) for part in node.elts]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, variables), node.attr)
    if isinstance(node, ast.Subscript):
        held = _value(node.value, variables)
        if isinstance(held, Mapping | list | tuple):
            return held[_value(node.slice, variables)]
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in WORKED_OUT:
        return WORKED_OUT[ast.unparse(node.func)](*(_value(part, variables) for part in node.args))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
        held = _value(node.func.value, variables)
        if isinstance(held, Mapping):
            return held.get(*(_value(part, variables) for part in node.args))
    if isinstance(node, ast.UnaryOp) and type(node.op) in CHANGED:
        return CHANGED[type(node.op)](_value(node.operand, variables))
    if isinstance(node, ast.IfExp):
        return _value(node.body if _value(node.test, variables) else node.orelse, variables)
    if isinstance(node, ast.BoolOp):
        for part in node.values:
            value = _value(part, variables)
            if bool(value) is isinstance(node.op, ast.Or):
                break
        return value
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return COMPARED[type(node.ops[0])](_value(node.left, variables), _value(node.comparators[0], variables))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.left, variables), _value(node.right, variables))
    raise LookupError


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


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a script's own object; None where there is none, whatever error says so."""
    with suppress(Exception):
        return getattr(owner, name)
    return None


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

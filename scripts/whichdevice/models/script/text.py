"""A script's text, read once: its functions, the statements around a line, and what it says where it was stopped.

    around(function_of(code), 32)     # the statements around line 32 of a running function, the outermost first
    value_in(node, variables)         # what an expression is; UNKNOWN where the script's own code would have to run
    turns_over(node, variables)       # turns of a loop over it

A file's nodes are the same objects for all who read it: two places are one where their nodes are.
"""

import ast
import builtins
import inspect
import math
from collections.abc import ItemsView, Iterator, KeysView, Mapping, Sequence, ValuesView
from contextlib import suppress
from functools import cache, reduce
from itertools import chain, takewhile
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from whichdevice.base.code_hash import parsed

UNKNOWN = object()
DEFINING = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
SAFE = {  # builtin functions that are called to know a number
    "len", "int", "float", "bool", "min", "max", "abs", "round", "range", "reversed", "getattr", "hasattr",
    "isinstance",
}  # fmt: skip
OF_ONE = ("min", "max", "list", "tuple")  # builtin functions that go through one argument
HELD = list | tuple | set | dict | range | KeysView | ValuesView | ItemsView  # type: ignore[type-arg]
OF_MODULES = {"ceil", "floor", "linspace", "arange", "flip"}  # functions of NumPy and the like
OF_VALUES = {
    "numpy", "item", "long", "int", "float", "bool", "flip", "tolist", "round", "ceil", "floor", "min", "max", "abs",
    "isdigit", "size", "dim", "numel",
}  # fmt: skip
NUMERIC = {"math", "numpy", "torch", "jax", "jaxlib", "tensorflow"}
RANKS: Mapping[str, Any] = {  # of the first process
    "is_main_process": True, "is_master": True, "is_rank_zero": True, "get_rank": 0, "get_local_rank": 0,
}  # fmt: skip
EXPRESSIONS = (
    ast.Expression, ast.Constant, ast.Name, ast.Attribute, ast.Subscript, ast.Slice, ast.Tuple, ast.List, ast.BinOp,
    ast.UnaryOp, ast.BoolOp, ast.Compare, ast.IfExp, ast.Call, ast.keyword, ast.operator, ast.unaryop, ast.boolop,
    ast.cmpop, ast.expr_context,
)  # fmt: skip
ENDLESS = {"cycle", "count", "repeat"}
SAME_LENGTH = {"enumerate", "shuffle", "prefetch", "cache", "map", "with_options", "as_numpy_iterator"}  # of tf.data
WRAPPING = {  # functions that give what their first argument has
    "tqdm", "enumerate", "reversed", "sorted", "list", "tuple", "iter", "track", "log_every", "notebook", "shuffle",
}  # fmt: skip
MAX_TURNS = 10**12  # of a slice without an end
IN_PLACE = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


@cache
def _text(_: str, content: bytes) -> tuple[ast.Module, dict[tuple[int, str], Any]]:
    """A file's syntax tree, and its functions by their first line and name."""
    tree = parsed(content)
    nodes = [node for node in ast.walk(tree) if isinstance(node, DEFINING)]
    first = ((min([node.lineno, *(part.lineno for part in node.decorator_list)]), node.name) for node in nodes)
    return tree, dict(zip(first, nodes, strict=True))


def function_of(code: CodeType) -> Any:
    """Return the text of one of the script's functions, or of its file; of a lambda the function around it."""
    tree, functions = _text(code.co_filename, Path(code.co_filename).read_bytes())
    if not is_expression(code):
        return functions.get((code.co_firstlineno, code.co_name), tree)
    line = code.co_firstlineno
    outer = [node for node in functions.values() if node.lineno <= line <= node.end_lineno]
    return max(outer, key=lambda node: node.lineno, default=tree)


def is_expression(code: CodeType) -> bool:
    """Return whether it is the code of a lambda or a comprehension, which no statement is in."""
    return code.co_name[0] == "<" and code.co_name != "<module>"


def code_of(function: Any) -> CodeType | None:
    """The code of a function, also of a bound or traced one; None: it is no function."""
    with suppress(Exception):  # of an object of the script's
        function = inspect.unwrap(function) if callable(function) else None
        function = getattr(function, "__func__", function)
        return function.__code__ if inspect.isfunction(function) else None  # compiled ones have code without a file
    return None


def names_in(code: CodeType) -> Iterator[str]:
    """The names of others in a function, and in those that it defines."""
    yield from (*code.co_names, *code.co_freevars)
    for part in code.co_consts:
        if inspect.iscode(part):
            yield from names_in(part)


class Statement(NamedTuple):
    """A statement in its block."""

    block: Sequence[ast.stmt]
    number: int

    @property
    def node(self) -> ast.stmt:
        """The statement itself."""
        return self.block[self.number]


def around(node: ast.AST, line: int) -> list[Statement]:
    """Return the statements of a function, or in a statement, that are around a line, the outermost first."""
    for block in blocks(node):
        for number, inner in enumerate(block):
            if inner.lineno <= line <= (inner.end_lineno or 0):
                return [Statement(block, number), *around(inner, line)]
    return []


def blocks(node: ast.AST) -> Iterator[Sequence[ast.stmt]]:
    """Return the lists of statements in a statement, a function or a file."""
    for part in [node, *getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
        yield from (getattr(part, name, []) for name in ("body", "orelse", "finalbody"))


def statements_of(body: Sequence[ast.stmt], line: int | None = None) -> Iterator[ast.stmt]:
    """Return the statements of a loop, not those of loops and functions in it; with a line only of an `if` around it.

    The branches of another `if` may not run in each turn.
    """
    for node in body:
        yield node
        if isinstance(node, ast.For | ast.While | DEFINING):
            continue
        if line is None or not isinstance(node, ast.If) or node.lineno <= line <= (node.end_lineno or 0):
            yield from statements_of([*chain(*blocks(node))], line)


def last_name(node: ast.AST) -> str:
    """Return the last name of a dotted one."""
    return str(getattr(node, "attr", getattr(node, "id", "")))


def stored_in(node: ast.AST) -> set[str]:
    """Return the names that a part of the text sets."""
    parts = ast.walk(node)
    return {part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)}


def targets_of(node: ast.AST) -> list[str]:
    """Return what an assignment sets."""
    targets = node.targets if isinstance(node, ast.Assign) else []
    return [ast.unparse(part) for target in targets for part in getattr(target, "elts", [target])]


def raised_in(node: ast.AST) -> tuple[str, ast.expr] | None:
    """Return the count that a statement raises, and by what: `n += 2` or `n = n + 2`."""
    match node:
        case ast.AugAssign(target=count, op=ast.Add(), value=step):
            return ast.unparse(count), step
        case ast.Assign(targets=[count], value=ast.BinOp(left=left, op=ast.Add(), right=step)):
            return (ast.unparse(count), step) if ast.unparse(count) == ast.unparse(left) else None
    return None


def calls_around(node: ast.expr) -> Iterator[tuple[str, ast.Call]]:
    """Return the calls around what a loop is over, from the outside, by their last names: tqdm, enumerate, range."""
    while isinstance(node, ast.Call):
        name = last_name(node.func)
        yield name, node
        if not node.args or name.endswith("range"):
            return
        node = node.args[0]


def count_of(node: ast.For | ast.While, variables: Mapping[str, Any]) -> tuple[str, int, int] | None:
    """Return what counts the turns of a loop over a range or with `enumerate`, its first value and step."""
    if isinstance(node, ast.While):
        return None
    for name, call in calls_around(node.iter):
        given = [value_in(part, variables) for part in call.args]
        if name == "enumerate" and isinstance(node.target, ast.Tuple):
            return ast.unparse(node.target.elts[0]), next((at for at in given[1:] if type(at) is int), 0), 1
        if name.endswith("range"):
            first, step = (given if len(given) > 1 else [0])[0], given[2] if len(given) > 2 else 1
            known = all(type(value) is int for value in given)
            return (ast.unparse(node.target), first, step) if known else (ast.unparse(node.target), 0, 1)
    return None


def turns_over(node: ast.expr, variables: Mapping[str, Any]) -> int | None:
    """Return the turns of a loop over a range or over what has a length; None: the variables do not show it."""
    with suppress(Exception):  # of the script's own object, or of a stream
        value = value_in(node, variables)
        if value is not UNKNOWN and not isinstance(value, Iterator):
            return len(value)
        if isinstance(node, ast.Call):
            return _turns_of_call(node, [value_in(part, variables) for part in node.args], variables)
    return None


def _turns_of_call(call: ast.Call, given: Sequence[Any], variables: Mapping[str, Any]) -> int | None:
    name, function = last_name(call.func), value_in(call.func, variables)
    inner = turns_over(call.args[0], variables) if call.args else None
    if name.endswith("range"):
        return len(range(*map(int, given)))
    if name == "zip":
        parts = (turns_over(part, variables) for part in call.args)
        return min((count for count in parts if count is not None), default=None)
    if name == "islice":
        turns = len(range(*slice(*given[1:]).indices(MAX_TURNS if inner is None else inner)))
        return None if inner is None and given[-1] is None else turns
    if inspect.isgeneratorfunction(function):
        return _yields(function, call, variables)
    if isinstance(call.func, ast.Attribute) and name in SAME_LENGTH | {"take"}:
        whole = turns_over(call.func.value, variables)
        known = [int(count) for count in (whole, *given) if isinstance(count, int | np.integer) and count >= 0]
        return min(known, default=None) if name == "take" else whole
    if name == "DataLoader" and inner is not None:
        size = next((part.value for part in call.keywords if part.arg == "batch_size"), None)
        size = call.args[1] if size is None and len(call.args) > 1 else size
        return inner if size is None else math.ceil(inner / value_in(size, variables))
    if name in ENDLESS:
        return None
    is_loader = bool(given) and attribute(given[0], "shape") is None and not isinstance(given[0], HELD | str)
    return inner if name in WRAPPING or is_loader else None  # of parts of an array there may be any number


def _yields(function: Any, call: ast.Call, variables: Mapping[str, Any]) -> int | None:
    """How often a generator of the script's own gives something, where one loop of its does that in each turn."""
    code = code_of(function)
    tree = ast.Module([], []) if code is None else function_of(code)
    given = [part for part in ast.walk(tree) if isinstance(part, ast.Yield | ast.YieldFrom)]
    loops = [part for part in tree.body if isinstance(part, ast.For)]
    in_turn = [part.value for loop in loops for part in loop.body if isinstance(part, ast.Expr)]
    if len(loops) != 1 or len(given) != 1 or not isinstance(given[0], ast.Yield) or given[0] not in in_turn:
        return None
    return turns_over(loops[0].iter, bound(function, call, variables))


def bound(function: Any, call: ast.Call, variables: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of a function where it begins, as far as a call shows them."""
    owner = [function.__self__] if inspect.ismethod(function) else []
    function = inspect.unwrap(getattr(function, "__func__", function))
    given: dict[str, Any] = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            given[name] = cell.cell_contents
        except ValueError:  # not set yet
            given[name] = UNKNOWN
    parameters = inspect.signature(function).parameters
    for name, parameter in parameters.items():
        given[name] = UNKNOWN if parameter.default is parameter.empty else parameter.default
    positional = takewhile(lambda part: not isinstance(part, ast.Starred), call.args)
    values = [*owner, *(value_in(part, variables) for part in positional)]
    first = [name for name, parameter in parameters.items() if parameter.kind in IN_PLACE]
    given |= dict(zip(first, values, strict=False))
    rest = next((name for name, parameter in parameters.items() if parameter.kind is parameter.VAR_POSITIONAL), None)
    if rest is not None:
        given[rest] = tuple(values[len(first) :]) if len(values) >= len(call.args) else UNKNOWN
    return given | {part.arg: value_in(part.value, variables) for part in call.keywords if part.arg}


class Turns(np.ndarray[Any, Any]):
    """The numbers of a loop's turns, of which expressions are worked out together."""


def holds(test: ast.expr, variables: Mapping[str, Any]) -> Any:
    """Return whether a test is true, of `Turns` for each of them; None: the variables do not show it."""
    if isinstance(test, ast.BoolOp):
        decides = isinstance(test.op, ast.Or)
        parts = [holds(part, variables) for part in test.values]
        known = [part for part in parts if part is not None]
        held = reduce(np.logical_or if decides else np.logical_and, known, not decides)
        return held if len(known) == len(parts) or np.all(held == decides) else None
    if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
        inner = holds(test.operand, variables)
        return None if inner is None else np.logical_not(inner)
    value = value_in(test, variables)
    try:
        return None if value is UNKNOWN else value.astype(bool) if isinstance(value, Turns) else bool(value)
    except Exception:  # of the script's own object
        return None


def value_in(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """Return the value of an expression that calls nothing of the script's own, else UNKNOWN."""
    if isinstance(node, ast.IfExp) and np.ndim(test := holds(node.test, variables)) == 0:
        return UNKNOWN if test is None else value_in(node.body if test else node.orelse, variables)
    for part in ast.walk(node):
        if not isinstance(part, EXPRESSIONS):
            return UNKNOWN
        if isinstance(part, ast.Name) and variables.get(part.id) is UNKNOWN:
            return UNKNOWN
        if isinstance(part, ast.Call) and not _is_safe(part, variables):
            return RANKS.get(last_name(part.func), UNKNOWN) if part is node else _by_ranks(node, variables)
    try:
        code = compile(ast.Expression(node), "script", "eval")
        return eval(code, {}, dict(variables))  # nosec B307  # of the user's own script, without calls of its own
    except Exception:  # of the script's own objects
        return UNKNOWN


def _is_safe(call: ast.Call, variables: Mapping[str, Any]) -> bool:
    """Whether a call runs no code of the script's and waits for nothing.

    It is one of a builtin function, of a mapping's `get`, or of an array, a number or a module of theirs.
    """
    name = last_name(call.func)
    if isinstance(call.func, ast.Name):
        function = variables.get(name, getattr(builtins, name, None))
        if name in OF_ONE and len(call.args) == 1:  # of what has an end
            return function is getattr(builtins, name) and isinstance(value_in(call.args[0], variables), HELD)
        is_builtin = name in SAFE and function is getattr(builtins, name)
        return is_builtin or (name in OF_MODULES and _package(getattr(function, "__module__", None)) in NUMERIC)
    if not isinstance(call.func, ast.Attribute):
        return False
    owner = value_in(call.func.value, variables)
    if isinstance(owner, ModuleType):
        return name in OF_MODULES and _package(owner.__name__) in NUMERIC
    if name == "get":
        return isinstance(owner, Mapping)
    if name in ("keys", "values", "items"):
        return type(owner) is dict
    is_array = attribute(owner, "shape") is not None and attribute(owner, "dtype") is not None
    is_array = is_array and any(_package(base.__module__) in NUMERIC for base in type(owner).__mro__)
    return name in OF_VALUES and (is_array or isinstance(owner, int | float | str))


def _package(module: str | None) -> str:
    return (module or "").partition(".")[0]


def _by_ranks(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of a comparison whose one side asks for the process."""
    if isinstance(node, ast.Compare) and len(node.ops) == 1 and isinstance(node.left, ast.Call):
        left, right = value_in(node.left, variables), value_in(node.comparators[0], variables)
        if UNKNOWN not in (left, right) and isinstance(node.ops[0], ast.Eq | ast.NotEq):
            return (left == right) == isinstance(node.ops[0], ast.Eq)
    return UNKNOWN


def attribute(owner: Any, name: str) -> Any:
    """Return an attribute of a script's own object; None where there is none, whatever error says so."""
    with suppress(Exception):
        return getattr(owner, name)
    return None

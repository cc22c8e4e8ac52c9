"""How long a script's training is: its loops around the step, its usual names for epochs, its longest arrays.

epochs, steps = loops_in(frame, path)
sizes(list(frames(frame)), (epochs, steps), [(64, 28, 28)], loaded=None)  # {"examples": ..., "epochs": ...}
"""

import ast
import operator
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Any

from whichdevice.code_hash import parsed
from whichdevice.models.script_run import calls_of

EPOCHS = ("epochs", "num_epochs", "n_epochs", "max_epochs", "num_train_epochs", "nb_epochs")
HOLDERS = ("args", "self", "trainer", "config", "cfg", "hparams", "opt", "params", "training_args")
OPERATIONS: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Div: operator.truediv,
}  # fmt: skip

COMPARED: dict[type[ast.cmpop], Callable[[Any, Any], bool]] = {
    ast.Is: operator.is_, ast.IsNot: operator.is_not, ast.Eq: operator.eq, ast.NotEq: operator.ne,
}  # fmt: skip


def sizes(
    scopes: Sequence[Mapping[str, Any]],
    loops: tuple[int | None, int | None],
    shapes: Sequence[Sequence[int]],
    loaded: int | None,
    whole: bool = False,
) -> dict[str, Any]:
    """Examples of one epoch and epochs, as far as the script shows them.

    `shapes` are those of a batch's inputs, `loaded` are a loader's examples; `whole`: a batch is all of them.
    """
    epochs, steps = loops
    if whole and (steps or epochs):
        (epochs, steps), loaded = (steps or epochs, None), shapes[0][0]
    if steps:
        return {"examples": steps * shapes[0][0], "epochs": 1}
    found = (_longest(scopes, shape) for shape in shapes)
    return {"examples": loaded or next(filter(None, found), None), "epochs": epochs or _epochs_in(scopes)}


def frames(frame: FrameType | None) -> Iterator[Mapping[str, Any]]:
    """Variables of each function, and of its object, from the innermost to the script, then the script's own."""
    outermost: FrameType | None = None
    while frame is not None:
        yield frame.f_locals
        yield getattr(frame.f_locals.get("self"), "__dict__", {})
        outermost = (
            frame if "__file__" in frame.f_globals and frame.f_globals.get("__name__") == "__main__" else outermost
        )
        frame = frame.f_back
    if outermost is not None:
        yield outermost.f_globals


def own_files(path: Path) -> Callable[[str], bool]:
    """Whether a file of that name is the script or one beside or below it."""
    root, known = path.absolute().parent, dict[str, bool]()

    def own(name: str) -> bool:
        if name not in known:
            inside = Path(name).absolute().is_relative_to(root)
            known[name] = inside and name[:1] != "<" and "site-packages" not in name
        return known[name]

    return own


def loops_in(frame: FrameType | None, path: Path) -> tuple[int | None, int | None]:
    """Epochs and, of a single loop, its steps, by the loops of the script's files around the line of each function.

    The innermost loop is over batches, the one around it over epochs. None: a loop's length is not a number of steps
    that the script's variables give, as `range(epochs)` is.
    """
    loops = _loops(frame, path)
    if len(loops) > 1:
        return _length(*loops[-2]), None
    if not loops:
        return None, None
    loop = loops[0][0]
    count = _length(*loops[0])
    if isinstance(loop, ast.While):
        return (None, None) if count is None else (1, count)
    if count is None and "range(" in ast.unparse(loop.iter):
        return None, None
    if count is None or ast.unparse(loop.target).startswith("epoch"):
        return count or 1, None
    return 1, count


def outside(frame: FrameType | None, path: Path) -> list[Any]:
    """What variables hold that the only loop around a step leaves as they are: a batch among them is all examples."""
    loops = _loops(frame, path)
    if len(loops) != 1:
        return []
    loop, variables = loops[0]
    changed = set[str]()
    for each in ast.walk(loop):
        if isinstance(getattr(each, "ctx", None), ast.Store):  # x, x[...] or x.data
            changed |= {inner.id for inner in ast.walk(each) if isinstance(inner, ast.Name)}
        elif isinstance(each, ast.Attribute) and each.attr.endswith("_"):  # x.copy_(...)
            changed |= {getattr(each.value, "id", "")}
    values = [value for name, value in variables.items() if name not in changed]
    return values + [inner for value in values if isinstance(value, dict) for inner in value.values()]


def is_whole(batch: Iterable[Any], outside: Sequence[Any]) -> bool:
    """Whether each array of a batch is one of these values; a tensor also where it is another view of one."""

    def known(array: Any) -> bool:
        place = getattr(array, "data_ptr", None)
        return any(
            each is array
            or (place and type(each) is type(array) and (each.data_ptr(), each.shape) == (place(), array.shape))
            for each in outside
        )

    return bool(outside) and all(map(known, batch))


def _loops(frame: FrameType | None, path: Path) -> list[tuple[ast.For | ast.While, Mapping[str, Any]]]:
    """The loops of the script's files around the line of each function with its variables, the outermost first."""
    own, functions = own_files(path), list[FrameType]()
    while frame is not None:
        functions.insert(0, frame)
        frame = frame.f_back
    return [
        (loop, each.f_globals | each.f_locals)
        for each in functions
        if own(each.f_code.co_filename)
        for loop in _around(parsed(Path(each.f_code.co_filename).read_bytes()), each.f_lineno)
    ]


def _around(tree: ast.AST, line: int) -> list[ast.For | ast.While]:
    """The loops around a line, in its function, the outermost first."""
    found: list[ast.For | ast.While] = []
    node: ast.AST | None = tree
    while node is not None:
        node = next((each for each in _statements(node) if each.lineno <= line <= (each.end_lineno or 0)), None)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            found = []
        elif isinstance(node, ast.For | ast.While) and line >= node.body[0].lineno:
            found.append(node)
    return found


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    for each in ast.iter_child_nodes(node):
        if isinstance(each, ast.stmt):
            yield each
        elif isinstance(each, ast.ExceptHandler | ast.match_case):
            yield from each.body


def _length(loop: ast.For | ast.While, variables: Mapping[str, Any]) -> int | None:
    """Turns of a loop over a range, or until a count is reached, by the values of the variables."""
    if isinstance(loop, ast.While):
        ends = [each.test for each in loop.body if isinstance(each, ast.If) and isinstance(each.body[-1], ast.Break)]
        return next(filter(None, (_left(test, variables) for test in (loop.test, *ends))), None)
    call: Any = loop.iter
    while isinstance(call, ast.Call) and call.args and not ast.unparse(call.func).endswith("range"):
        call = call.args[0]  # of tqdm or enumerate
    if not isinstance(call, ast.Call):
        return None
    try:
        return len(range(*(int(_value(each, variables)) for each in call.args)))
    except (LookupError, AttributeError, TypeError, ValueError):
        return None


def _left(test: ast.expr, variables: Mapping[str, Any]) -> int | None:
    """What a count lacks of the one that it is compared with: the turns left where the script has just begun."""
    if isinstance(test, ast.Compare) and len(test.ops) == 1:
        with suppress(LookupError, AttributeError, TypeError, ValueError):
            left = int(_value(test.comparators[0], variables)) - int(_value(test.left, variables))
            return left if left > 0 else None
    return None


def _value(node: ast.expr, variables: Mapping[str, Any]) -> Any:
    """The value of a number, a variable, an attribute, a length, or a product or sum of such; else LookupError."""
    if isinstance(node, ast.Constant):
        return node.value
    if isinstance(node, ast.Name):
        return variables[node.id]
    if isinstance(node, ast.Attribute):
        return getattr(_value(node.value, variables), node.attr)
    if isinstance(node, ast.Call) and ast.unparse(node.func) in ("len", "int"):
        inner = _value(node.args[0], variables)
        return len(inner) if ast.unparse(node.func) == "len" else int(inner)
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        return not _value(node.operand, variables)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in COMPARED:
        return COMPARED[type(node.ops[0])](_value(node.left, variables), _value(node.comparators[0], variables))
    if isinstance(node, ast.BinOp) and type(node.op) in OPERATIONS:
        return OPERATIONS[type(node.op)](_value(node.left, variables), _value(node.right, variables))
    raise LookupError


def switched_off(path: Path, name: str, scopes: Sequence[Mapping[str, Any]]) -> bool:
    """Whether variables say that no call of `name` in a file has an effect: `enabled=args.amp`, or under `if args.amp`.

    What depends on a GPU is on where there is one.
    """
    variables, tree = ChainMap(*(dict(scope) for scope in scopes)), parsed(path.read_bytes())
    asks = re.compile(r"is_available|(==|!=|\bin) |'cuda[^']*' in")
    assigned = [each for each in ast.walk(tree) if isinstance(each, ast.Assign) and "cuda" in ast.unparse(each.value)]
    assigned = [each for each in assigned if asks.search(ast.unparse(each.value))]
    by_gpu = {"cuda", "cpu", *(ast.unparse(target) for each in assigned for target in each.targets)}

    def is_value(node: ast.expr | None, wanted: bool) -> bool:
        if node is None or any(re.search(rf"\b{re.escape(each)}\b", ast.unparse(node)) for each in by_gpu):
            return False
        with suppress(LookupError, AttributeError, TypeError, ValueError):
            return bool(_value(node, variables)) == wanted
        return False

    branches = [each for each in ast.walk(tree) if isinstance(each, ast.If)]
    dead = [part for each in branches if is_value(each.test, False) for part in each.body]
    dead += [part for each in branches if is_value(each.test, True) for part in each.orelse]
    unused = {id(node) for part in dead for node in ast.walk(part)}
    calls = [each for each in calls_of(tree) if getattr(each.func, "attr", getattr(each.func, "id", "")) == name]
    given = [{each.arg: each.value for each in call.keywords} for call in calls]
    return bool(calls) and all(
        id(call) in unused or is_value(named.get("enabled"), False) for call, named in zip(calls, given, strict=True)
    )


def _epochs_in(scopes: Sequence[Mapping[str, Any]]) -> int | None:
    """The number of epochs by the usual names of variables and of what holds settings."""
    for scope in scopes:
        for name, value in scope.items():
            if name.lower() in EPOCHS and _is_count(value):
                return int(value)
        for held in _held([scope]):
            for name in EPOCHS:
                value = held.get(name) if isinstance(held, Mapping) else getattr(held, name, None)
                if value is not None and _is_count(value):
                    return int(value)
    return None


def _held(scopes: Sequence[Mapping[str, Any]]) -> Iterator[Any]:
    """What holds settings, by the usual names."""
    owners = (scope[name] for scope in scopes for name in HOLDERS if name in scope)
    return (held for owner in owners for held in (owner, getattr(owner, "args", None)))


def steps_in(scopes: Sequence[Mapping[str, Any]], each: int | None) -> int | None:
    """The optimiser's steps after which a trainer of Hugging Face or Lightning ends, if its epochs do not end it.

    Hugging Face's `max_steps` counts alone, Lightning's only before its epochs, of `each` steps, are over.
    """
    for held in _held(scopes):
        most = getattr(held, "max_steps", None)
        if most is not None and _is_count(most):
            epochs = getattr(held, "max_epochs", None) or 0
            return None if each and 0 < epochs * each <= most else int(most)
    return None


def _longest(scopes: Sequence[Mapping[str, Any]], shape: Sequence[int]) -> int | None:
    """The number of examples of the longest array like a batch of this shape, where a script cuts it itself."""
    values = [value for scope in scopes for value in scope.values()]
    values += [inner for value in values if isinstance(value, dict) for inner in value.values()]
    shapes = [each for value in values if isinstance(each := getattr(value, "shape", None), tuple) and each]
    counts = [each[0] for each in shapes if each[1:] == tuple(shape[1:]) and isinstance(each[0], int)]  # None: symbolic
    return max((count for count in counts if count > shape[0]), default=None)


def _is_count(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value >= 1

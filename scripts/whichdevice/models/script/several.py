"""Amounts of a script's training that do not change with its number of GPUs, as its text shows: see `Found.keeps`."""

import ast
import re
from collections.abc import Iterable, Iterator

from whichdevice.base.code_hash import parsed

SHARED = "Its GPUs share {batch} examples: for {gpus} of them add --gpus {gpus}."
GPU_COUNT = re.compile(
    "gpu|world|n_?proc|num_processes|device_count|n_?devices|num_devices|data_parallel_size|dp_size|replica"
)
OF_ONE = re.compile("per_(gpu|device|proc(ess)?)")
STEPS = re.compile("step|iter|update")
ALL_BATCHES = re.compile("batch|bsz")


def divides_steps(texts: Iterable[str], by: re.Pattern[str]) -> bool:
    """Whether a script's number of steps is what it divides by a number of such a name: more GPUs make fewer steps."""
    trees = (parsed(text.encode()) for text in texts)
    assigned = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.Assign))
    divisors = (
        ast.unparse(part.right).lower()
        for node in assigned
        if STEPS.search(_last_name(node.targets[0]))
        for part in ast.walk(node.value)
        if isinstance(part, ast.BinOp) and isinstance(part.op, ast.Div | ast.FloorDiv)
    )
    return any(by.search(OF_ONE.sub("", divisor)) for divisor in divisors)


def _divisions(tree: ast.AST) -> Iterator[tuple[str, ast.expr, str]]:
    """Yield the name of what is divided, what it is divided by, and the name of the quotient."""
    nodes = list(ast.walk(tree))
    targets = {
        id(_unwrapped(node.value)): _last_name(node.targets[0]) for node in nodes if isinstance(node, ast.Assign)
    }
    for node in nodes:
        if isinstance(node, ast.BinOp | ast.AugAssign) and isinstance(node.op, ast.Div | ast.FloorDiv):
            if isinstance(node, ast.BinOp):
                yield _last_name(node.left), node.right, targets.get(id(node), "")
            else:
                yield _last_name(node.target), node.value, ""


def _unwrapped(node: ast.expr) -> ast.expr:
    """The argument of `int`, `len` or `math.ceil`."""
    if isinstance(node, ast.Call) and node.args and ast.unparse(node.func) in ("int", "len", "math.ceil"):
        return _unwrapped(node.args[0])
    return node


def _last_name(node: ast.expr) -> str:
    """The name of a variable, an attribute or a key, in small letters; of anything else none."""
    match _unwrapped(node):
        case ast.Name(id=name) | ast.Attribute(attr=name) | ast.Subscript(slice=ast.Constant(value=str(name))):
            return name.lower()
    return ""

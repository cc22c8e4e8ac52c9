"""The text of a script: whether it trains when it is run, what it calls, what else trains, and how it is launched."""

import ast
import builtins
import re
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from whichdevice.base.code_hash import parsed
from whichdevice.models.framework import KERAS, framework_of
from whichdevice.models.model_file import LOOK_UPS

NOT_COUNTED = "Training starts in line {line}; what trains in line {which} is not counted."
ASKS_RANK = re.compile(r"environ\.get\(\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*,")  # it runs without torchrun, too
NEEDS_RANK = re.compile(r"environ\[\s*['\"](RANK|LOCAL_RANK|WORLD_SIZE)['\"]\s*\](?!\s*=[^=])")  # it does not
JOINING = ("init_process_group(", "init_distributed(", "init_device_mesh(", "DistributedSampler(")
MIXED = re.compile(r"--mixed[_-]precision[=\s]+[\"']?(fp16|bf16)")
COUNTS = re.compile(  # GPUs of its command
    r"(?:--(?:nproc[_-]per[_-]node|num[_-]gpus|num[_-]processes)[=\s]+|\bN_?GPUS?=)[\"']?(\d+)"
)
VISIBLE = re.compile(r"\bCUDA_VISIBLE_DEVICES=[\"']?(\d+(?:,\d+)+)")


def is_script(path: Path) -> bool:
    """Whether a file trains when it is run: it has no function `model`, and calls something.

    A model file of Keras that looks words up is run as one: that part of its model belongs to the host.
    """
    try:
        tree = parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    if any(isinstance(node, ast.FunctionDef) and node.name == "model" for node in tree.body):
        used = [call.func for part in tree.body if getattr(part, "name", "") != "data" for call in calls_of(part)]
        looks_up = any(getattr(callee, "attr", getattr(callee, "id", "")) in LOOK_UPS for callee in used)
        return looks_up and framework_of(tree) == KERAS
    runs = (node for node in tree.body if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef))
    return any(next(calls_of(node), None) for node in runs)


def called_in(path: Path, name: str) -> bool:
    """Whether a file calls or decorates with `torch.<name>`, a method `<name>`, or `<name>` imported from PyTorch.

    `re.compile` is another module's function.
    """
    nodes = list(ast.walk(parsed(path.read_bytes())))
    modules = {alias.asname or alias.name for node in nodes if isinstance(node, ast.Import)
               for alias in node.names if not alias.name.startswith("torch")}  # fmt: skip
    of_torch = (node for node in nodes if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"))
    is_imported = any(alias.name == name for node in of_torch for alias in node.names)
    used = [node.func for node in nodes if isinstance(node, ast.Call)]
    used += [decorator for node in nodes for decorator in getattr(node, "decorator_list", ())]
    parts = (ast.unparse(callee).rpartition(".") for callee in used)
    return any(owner not in modules if dot else is_imported for owner, dot, called in parts if called == name)


def others_like(path: Path, line: int | None, name: str = "") -> tuple[str, ...]:
    """A sentence for the answer where lines beyond the loops around this one call what trains here, too.

    What trains is `model.fit`, `optimizer.step` or the function of this name; else the function around it, where its
    first call is in no loop, as such a loop may evaluate by it.
    """
    tree, at, others = parsed(path.read_bytes()), line or 0, set[int]()
    loops = [_lines(loop) for loop in ast.walk(tree) if isinstance(loop, ast.For | ast.While)]
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    calls = sorted((call.lineno, ast.unparse(call.func)) for call in calls_of(tree))
    here = {called for number, called in calls if number == line}
    trains = {called for called in here if called.endswith((".fit", ".step")) or called.rpartition(".")[2] == name}
    if not any(at in lines for lines in loops):  # the loop is in another file
        trains |= {called for called in _statements(tree, at) if called.partition(".")[0] not in vars(builtins)}
    for _ in range(1 + len(functions)):
        inside = [lines for lines in loops if at in lines] or [range(at, at + 1)]
        others = {number for number, called in calls if called in trains} - {*chain(*inside)}
        around = [node for node in functions if at in _lines(node)][-1:]
        trains = {node.name for node in around}
        again = [number for number, called in calls if called in trains and number not in _lines(around[0])]
        if others or not again or any(again[0] in lines for lines in loops):
            break
        at = again[0]
    return (NOT_COUNTED.format(line=line, which=", ".join(map(str, sorted(others)))),) if others else ()


def _statements(tree: ast.AST, line: int) -> set[str]:
    """Return the functions that statements in a line are a call of."""
    values = (node.value for node in ast.walk(tree)
              if isinstance(node, ast.Expr | ast.Assign | ast.Return) and node.lineno == line)  # fmt: skip
    return {ast.unparse(value.func) for value in values if isinstance(value, ast.Call)}


def _lines(node: Any) -> range:
    return range(node.lineno, node.end_lineno + 1)


def calls_of(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls in a file or a part of one."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))


class Launch(NamedTuple):
    """The launch of a PyTorch script, as its text has it."""

    joins: bool = False  # whether its processes join a group
    has_batches: bool = False  # whether each process takes whole batches
    gpus: int = 1
    by_torchrun: bool = False  # whether it runs under torchrun alone
    mixed: bool = False  # whether its command asks for mixed precision


def launch_of(source: str) -> Launch:
    """Return how a script of this text is launched."""
    joins = any(name in source for name in JOINING)
    has_batches = joins or "Accelerator(" in source or "horovod" in source
    counts = [int(count) for count in COUNTS.findall(source)]
    counts += [devices.count(",") + 1 for devices in VISIBLE.findall(source)] if has_batches else []
    by_torchrun = joins and (NEEDS_RANK.search(source) is not None or not ASKS_RANK.search(source))
    return Launch(joins, has_batches, max(counts, default=1), by_torchrun, MIXED.search(source) is not None)

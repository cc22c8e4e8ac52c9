"""How long steps take as people run them: Python between kernels, losses that are read, loaders, evaluation.

    habits = read_habits()
    habits.times(0.1, 800, reads=True)      # of a clean step of 0.1 s and 800 kernels

A clean step runs with its data on the device and nothing between its kernels. How much longer a lived one takes depends
on what the code shows: how long its kernels are on the mean, and whether each step reads its loss. Constants and
interval are fitted to what people report of whole trainings (fit/lived.py); sources were left out for the interval.
"""

import ast
import builtins
import json
import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, Self

from whichdevice.errors import StudyError

KERNEL = 2e-4  # seconds of a kernel on the mean
HABITS = Path(__file__).with_name("lived.json")


@dataclass(frozen=True)
class Habits:
    """How lived steps differ from clean ones."""

    factor: float  # of the time, of a step whose kernels take KERNEL on the mean and whose loss nothing reads
    kernel: float  # power of the mean time of a kernel over KERNEL
    reads: float  # times that, where each step reads its loss
    log_sd: float  # of the logarithm of a lived step's time, as 80 % of reports that were left out have it
    reports: int
    sources: int

    def times(self, step_time: float, kernels: float, reads: bool = True) -> float:
        """Return how many times the clean step a lived one takes, 1 at least; `reads` whether it reads its loss."""
        constants = (math.log(self.factor), self.kernel, math.log(self.reads))
        values = zip(constants, shows(step_time, kernels, reads), strict=True)
        return max(1.0, math.exp(sum(constant * value for constant, value in values)))

    def to_dict(self) -> dict[str, Any]:
        """A form for JSON; `from_dict` reads it back."""
        return asdict(self)

    @classmethod
    def from_dict(cls, digest: Mapping[str, Any]) -> Self:
        """Read what `to_dict` wrote."""
        return cls(**digest)


@cache
def read_habits(path: Path = HABITS) -> Habits:
    """The fitted habits; raises StudyError where the file cannot be read."""
    try:
        return Habits.from_dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError) as error:
        raise StudyError(f"{path.name}: cannot be read: {error}; `python -m fit.lived` writes it") from None


def shows(step_time: float, kernels: float, reads: bool) -> tuple[float, float, float]:
    """Return what the constants are multiplied with: 1, the log of a kernel's mean time, whether the loss is read."""
    return 1.0, math.log(step_time / kernels / KERNEL) if kernels else 0.0, float(reads)


def reads_each_step(code: str) -> bool | None:
    """Whether each step of a script reads a value from the device; None: no loop that takes gradients is seen.

    What an `if` with a remainder (`step % 50 == 0`) decides is read seldom.
    """
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return None
    functions: dict[str, ast.AST] = {
        node.targets[0].id: node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name) and _wraps(node.value)
    }
    functions |= {node.name: node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    loops = [node for node in ast.walk(tree) if isinstance(node, ast.For | ast.While)]
    steps = {loop: _called(loop, functions) for loop in loops}
    steps = {loop: names for loop, names in steps.items() if GRADIENTS & names}
    inner = [
        loop for loop, names in steps.items() if not any(_inside(other, loop, names, functions) for other in steps)
    ]
    return any(_reads(loop, functions) for loop in inner) if inner else None


GRADIENTS = {
    "backward", "gradient", "grad", "value_and_grad", "filter_grad", "filter_value_and_grad", "train_on_batch",
}  # fmt: skip
WRAPPERS = GRADIENTS | {"jit", "filter_jit", "pmap", "vmap", "partial", "function", "compile"}  # take a function
READS = {  # functions and methods that wait for the device
    "item", "tolist", "numpy", "synchronize", "set_postfix", "block_until_ready", "device_get", "train_on_batch",
}  # fmt: skip
FLOAT = "float of {}"


def _wraps(node: ast.AST) -> bool:
    """Whether it makes a function of another one: `jax.jit(step)`."""
    return isinstance(node, ast.Call) and _name(node) in WRAPPERS


def _reads(loop: ast.AST, functions: Mapping[str, ast.AST]) -> bool:
    """Whether each turn of a loop waits for the device: `float` does where a call in the loop gave its argument."""
    called = _called(loop, functions, often=True)
    given = _given([loop, *(functions[name] for name in called if name in functions)], functions)
    return bool(called & (READS | {FLOAT.format(name) for name in given}))


def _given(parts: Sequence[ast.AST], functions: Mapping[str, ast.AST]) -> set[str]:
    """Names of what calls gave and of what is made of that, and of the functions that take gradients."""
    names = {name for name, function in functions.items() if GRADIENTS & _called(function, functions)}
    nodes, known = [node for part in parts for node in ast.walk(part)], -1
    while len(names) > known:
        known = len(names)
        for node in nodes:
            match node:
                case ast.Assign(targets=targets, value=value):
                    if names & _words(value) or any(map(_calls, ast.walk(value))):
                        names |= {name for target in targets for name in _words(target)}
                case ast.AugAssign(target=target, value=source) | ast.For(target=target, iter=source):
                    names |= _words(target) if names & _words(source) else set()
                case ast.comprehension(target=target, iter=source):
                    names |= _words(target) if names & _words(source) else set()
                case ast.Call(args=arguments) if isinstance(made := functions.get(_name(node)), ast.FunctionDef):
                    passed = zip(made.args.args, arguments, strict=False)
                    names |= {parameter.arg for parameter, value in passed if names & _words(value)}
    return names


def _calls(node: ast.AST) -> bool:
    """Whether it calls anything but one of Python's own functions."""
    return isinstance(node, ast.Call) and not hasattr(builtins, getattr(node.func, "id", ""))


def _words(node: ast.AST) -> set[str]:
    """The names in an expression."""
    nodes = list(ast.walk(node))
    names = {part.id for part in nodes if isinstance(part, ast.Name)} - {"self"}
    return names | {part.attr for part in nodes if isinstance(part, ast.Attribute)}


def _name(call: ast.Call) -> str:
    """The last name of what is called."""
    return str(getattr(call.func, "attr", getattr(call.func, "id", "")))


def _inside(inner: ast.AST, outer: ast.AST, names: Collection[str], functions: Mapping[str, ast.AST]) -> bool:
    """Whether a loop is in another one, or in one of these functions, which that one calls."""
    parts = [outer, *(functions[name] for name in names if name in functions)]
    return inner is not outer and any(inner in ast.walk(part) for part in parts)


def _called(node: ast.AST, functions: Mapping[str, ast.AST], often: bool = False) -> set[str]:
    """Names of what is called below a node and in the script's functions there; those called `often`, at each step."""
    names = _named(node, often)
    waiting = [*names]
    while waiting:
        if (name := waiting.pop()) in functions:
            new = _named(functions[name], often) - names
            names |= new
            waiting += new
    return names


def _named(node: ast.AST, often: bool) -> set[str]:
    """Names of functions and methods that are called below a node, all or those of each step."""
    names = set[str]()
    for child in ast.iter_child_nodes(node):
        seldom = isinstance(child, ast.If) and any(isinstance(part, ast.Mod) for part in ast.walk(child.test))
        if not (often and seldom):
            names |= _named(child, often)
    if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "float":  # another thing than `x.float()`
        names |= {FLOAT.format(name) for argument in node.args for name in _words(argument)}
    elif isinstance(node, ast.Call):
        names |= {_name(node)} | ({arg.id for arg in node.args if isinstance(arg, ast.Name)} if _wraps(node) else set())
    return names

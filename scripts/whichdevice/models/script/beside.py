"""The other functions of a script that train in the loops around a step: a GAN's generator beside its discriminator.

    trainers_beside(stack, train_discriminator)     # [("/home/me/gan.py", 58)], the lines that name train_generator

They are known by their text: they, or the script's functions that they name, take gradients and change weights.
"""

import ast
import inspect
from collections.abc import Iterator
from contextlib import suppress
from itertools import dropwhile
from pathlib import Path
from typing import Any

from whichdevice.models.script.run import is_own
from whichdevice.models.script.size import Stack
from whichdevice.models.script.text import attribute, code_of, names_in, value_in

APPLIED = {"apply_gradients", "apply", "minimize", "assign_sub"}  # methods that change weights
TAKEN = {"gradient", "minimize"}  # methods that take gradients
MAX_DEPTH = 3  # functions that name one another

Line = tuple[str, int]  # a file and a line in it


def trainers_beside(stack: Stack, step: Any) -> list[Line]:
    """Return the lines in the loops around a step, and in the functions there that call it, that name other trainers.

    In the lines that lead to the step only functions that are not on the way to it are others.
    """
    parts = list(dropwhile(lambda part: not part.loops, stack.inside))
    calls = [*(part.code for part in parts[1:]), code_of(step)]
    places = dict[Line, None]()
    for part, called in zip(parts, calls[: len(parts)], strict=True):
        file = part.code.co_filename
        for node in ast.walk(part.loops[0].node if part is parts[0] else part.tree):
            if isinstance(node, ast.Name | ast.Attribute) and (file, node.lineno) not in places:
                value = value_in(node, part.scope)
                if not (node.lineno == part.line and code_of(value) is called) and _trains(value, stack.path):
                    places[file, node.lineno] = None
    return list(places)


def _trains(function: Any, path: Path) -> bool:
    names = set[str]().union(*_reached(function, path))
    return bool(names & APPLIED and names & TAKEN)


def _reached(value: Any, path: Path, depth: int = MAX_DEPTH) -> Iterator[set[str]]:
    """The names in one of the script's functions, and in those that it names."""
    code = code_of(value)
    if code is None or not is_own(code.co_filename, path):
        return
    function = inspect.unwrap(value)
    names, variables = set(names_in(code)), dict[str, Any]()
    yield names
    if depth:
        with suppress(TypeError, ValueError):  # a variable that is not set yet
            closure = inspect.getclosurevars(function)
            variables = {**closure.globals, **closure.nonlocals}
        owner: Any = attribute(function, "__self__")
        for name in names:
            yield from _reached(variables.get(name, attribute(owner, name)), path, depth - 1)

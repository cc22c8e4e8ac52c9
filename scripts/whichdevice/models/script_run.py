"""Run a training script as Python would, and read what its training is from its variables."""

import ast
import runpy
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from whichdevice.code_hash import parsed
from whichdevice.errors import StudyError
from whichdevice.models.address import Address
from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import KERAS
from whichdevice.models.model_file import error_line
from whichdevice.models.pipeline import Rate

NAME_IT = "give its arguments after --, or name the file that trains"
SAMPLE = 1024  # examples that are read of data that come one after the other


class Started(BaseException):
    """The training starts: no error, so that no script catches it."""


@dataclass(frozen=True)
class Found:
    """What a script's training is, as plain data; None: the script does not show it."""

    framework: str
    batch_size: int
    examples: int | None = None  # of one epoch
    epochs: int | None = None
    steps_per_epoch: int | None = None
    precision: str = "single"  # as a config's forecast.precision has it
    compiled: bool = False  # whether a PyTorch script calls torch.compile
    unit: str = "example"
    line: int | None = None  # of the script, where its training starts
    notes: tuple[str, ...] = ()  # sentences for the answer: what runs on the host, how lengths vary
    pipeline: tuple[Rate, ...] = ()  # of what gives its batches; none of arrays in memory

    def declaration(self) -> Declaration:
        """As constants of a model file; `examples` limits what is read of data that come one after the other."""
        most = max(SAMPLE, 2 * self.batch_size)
        return Declaration(
            batch_size=self.batch_size,
            epochs=self.epochs or 1,
            steps_per_epoch=self.steps_per_epoch,
            examples=None if self.examples and self.examples <= most else most,  # few end by themselves
            unit=self.unit,
            functions=frozenset({"model", "data", *(() if self.framework == KERAS else ("optimizer",))}),
            by_compile=True,
            frameworks=(self.framework,),
            framework=self.framework,
        )


@dataclass
class Script:
    """A script that was stopped: what was found, and a model file's functions made of its own objects."""

    found: Found
    functions: SimpleNamespace
    batches: Any = None  # what gives them one after the other, if anything does


@dataclass(frozen=True)
class JaxStep:
    """A script's own training step, from one state to the next; the state's arrays are lists."""

    trained: list[Any]
    held: list[Any]  # an optimiser's state, statistics, keys of random numbers as plain numbers
    run: Callable[[Any, Any, Mapping[str, Any]], tuple[Any, Any, Any]]  # (trained, held, inputs) to the same and a loss


def run(path: Path) -> dict[str, Any]:
    """Run the script as Python would; its variables when it ends. Raises StudyError in one line for its own errors."""
    try:
        return runpy.run_path(str(path), run_name="__main__")
    except (Started, StudyError, KeyboardInterrupt):
        raise
    except SystemExit as error:
        frames = (frame for frame, _ in traceback.walk_tb(error.__traceback__) if frame.f_code.co_name == "error")
        wrong = next((frame.f_locals["message"] for frame in frames if "message" in frame.f_locals), "exit code 2")
        if error.code == 2:  # of argparse, click and others, where arguments are wrong
            raise StudyError(f"{path.name}: ended before its training: {wrong}: {NAME_IT}") from error
        if error.code not in (None, 0):
            code = f": {error.code}" if isinstance(error.code, str) else f" with exit code {error.code}"
            raise StudyError(f"{path.name}: ended before its training{code}") from error
        return {}
    except BaseException as error:
        address = Address(str(path), "file", path, root=path.absolute().parent)
        raise StudyError(f"{path.name}: {error_line(error, address)}") from error


def watch(path: Path, look: Callable[[FrameType, str, Any], None]) -> dict[str, Any]:
    """Run the script under a profile function, which raises Started to stop it; its variables if it ends, else {}."""
    sys.setprofile(look)
    try:
        return run(path)
    except Started:
        return {}
    finally:
        sys.setprofile(None)


def line_of(frame: FrameType | None, path: Path) -> int | None:
    """The line of the script from which a call came."""
    while frame is not None:
        if Path(frame.f_code.co_filename).absolute() == path.absolute():
            return frame.f_lineno
        frame = frame.f_back
    return None


def called_in(path: Path, name: str) -> bool:
    """Whether a file calls or decorates with `torch.<name>`, a method `<name>`, or `<name>` imported from PyTorch.

    `re.compile` is another module's function.
    """
    nodes = list(ast.walk(parsed(path.read_bytes())))
    others, own = set[str](), False  # modules that are not PyTorch's; whether the bare name is PyTorch's
    for node in nodes:
        if isinstance(node, ast.Import):
            others |= {each.asname or each.name for each in node.names if not each.name.startswith("torch")}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("torch"):
            own = own or any(each.name == name for each in node.names)
    used = [node.func for node in nodes if isinstance(node, ast.Call)]
    used += [each for node in nodes for each in getattr(node, "decorator_list", ())]
    return any(
        each.attr == name and getattr(each.value, "id", "") not in others
        if isinstance(each, ast.Attribute)
        else own and getattr(each, "id", "") == name
        for each in used
    )


def others_like(path: Path, line: int | None) -> tuple[str, ...]:
    """A sentence for the answer where other lines, beyond the loops around this one, train too: `model.fit` again."""
    tree = parsed(path.read_bytes())
    loops = [each for each in ast.walk(tree) if isinstance(each, ast.For | ast.While)]
    around = [range(each.lineno, (each.end_lineno or 0) + 1) for each in loops]
    inside = [lines for lines in around if line in lines] or [range(line or 0, (line or 0) + 1)]
    calls = {(each.lineno, ast.unparse(each.func)) for each in calls_of(tree) if isinstance(each.func, ast.Attribute)}
    names = {name for number, name in calls if number == line and name.rpartition(".")[2] in ("fit", "step")}
    found = sorted(number for number, name in calls if name in names and not any(number in lines for lines in inside))
    which = ", ".join(map(str, found))
    return (f"Training starts in line {line}; what trains in line {which} is not counted.",) if found else ()


def calls_of(tree: ast.AST) -> Iterator[ast.Call]:
    """The calls in a file or a part of one."""
    return (node for node in ast.walk(tree) if isinstance(node, ast.Call))

"""The frames of a script that runs: which belong to its files, and the line that it is at."""

import sys
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

PACKAGE = Path(__file__).parents[2]


def is_own(file: str, path: Path) -> bool:
    """Whether a file is the script or one beside or below it. Of a library's compiled code a relative name is known."""
    is_inside = Path(file).absolute().is_relative_to(path.absolute().parent)
    is_other = file[:1] == "<" or "site-packages" in file or file.endswith(".pyx") or Path(file).is_relative_to(PACKAGE)
    return is_inside and not is_other


def frames(frame: FrameType | None) -> Iterator[FrameType]:
    """Yield a frame and the frames around it."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def own_frames(frame: FrameType | None, path: Path) -> Iterator[FrameType]:
    """Yield a frame and the frames around it that belong to the script's files."""
    return (one for one in frames(frame) if is_own(one.f_code.co_filename, path))


def line_of(frame: FrameType | None, path: Path) -> int | None:
    """Return the line of the script that a frame's callers are at; None: they are in other files."""
    return next((one.f_lineno for one in frames(frame) if one.f_code.co_filename == str(path)), None)


def caller() -> FrameType | None:
    """Return the innermost frame outside of this package."""
    names = ((one, one.f_globals.get("__name__") or "") for one in frames(sys._getframe(1)))
    return next((one for one, name in names if not name.startswith("whichdevice.")), None)

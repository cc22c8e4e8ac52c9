"""This call's right to change a study's files: none in a dry run, and none while another call has the study."""

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.locks import Lock, study_lock


class Claim:
    """Takes the study's lock when the first change is due; a `dry` one changes nothing and locks nothing."""

    def __init__(self, dry: bool = True) -> None:
        self.dry = dry
        self._locks: dict[Path, Lock] = {}

    def require(self, root: Path) -> None:
        """Have the study's folder for this call; raises StudyError while another call has it."""
        if root not in self._locks:
            self._locks[root] = study_lock(root)

    def holds(self, root: Path) -> bool:
        """Whether files below `root` may change now."""
        if self.dry:
            return False
        with suppress(StudyError):
            self.require(root)
        return root in self._locks

    def release(self) -> None:
        """Let other calls have the folders; the end of the process does the same."""
        while self._locks:
            self._locks.popitem()[1].release()

    @contextmanager
    def folder(self, root: Path, name: str) -> Iterator[Path]:
        """The folder `name` below `root` to bring files to; a copy that goes again where nothing may change."""
        if self.holds(root):
            yield root / name
            return
        with tempfile.TemporaryDirectory() as scratch:
            copy = Path(scratch) / name
            with suppress(OSError):  # what is not there, or goes meanwhile, is brought as if it had never been there
                shutil.copytree(root / name, copy)
            yield copy

"""Whether a disk is full: what a run could not write because of it is no fault of the run."""

import errno
import os
import shutil
from pathlib import Path

FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
LEAST_BYTES = 2**16  # nothing of a run fits in less


def is_full(reason: str | None, *folders: Path) -> bool:
    """Whether a reason says so, in the system's words, or one of the folders lies on a disk without room.

    A process that could not even write why it failed gives no such reason.
    """
    return any(words in (reason or "") for words in FULL) or any(
        shutil.disk_usage(folder).free < LEAST_BYTES for folder in folders if folder.is_dir()
    )

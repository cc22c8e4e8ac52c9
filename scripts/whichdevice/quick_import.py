"""A quicker import of the frameworks: start-up is most of a short run."""

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# Keras imports these when it finds them and a run needs none: 2 of 7 s of start-up on two cores.
UNNEEDED = ("pandas", "matplotlib", "IPython", "tensorboard")


@contextmanager
def without_native_messages() -> Iterator[None]:
    """Send what compiled code writes to standard error nowhere; for imports whose remarks nobody asked for."""
    sys.stderr.flush()
    kept, nowhere = os.dup(2), os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 2)
    try:
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


@contextmanager
def quick_imports(*others: str) -> Iterator[None]:
    """Make optional packages look absent and keep the collector quiet while a framework is imported.

    `others` are further ones, e.g. a framework that Keras would import beside the one of the run.
    """
    hidden = [name for name in (*UNNEEDED, *others) if name not in sys.modules]
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]  # None makes an import fail
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
        for name in hidden:
            del sys.modules[name]

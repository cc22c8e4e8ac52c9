"""Measure deep-learning workloads on CPUs, GPUs and TPUs, and answer which device to use."""

import os
import sys
from importlib import import_module
from typing import Any

__version__ = "0.3.0"
SPARE = "WHICHDEVICE_SPARE"  # a folder of packages for what the user's own environment lacks: `ask --python`

if (_spare := os.environ.get(SPARE)) and _spare not in sys.path:
    sys.path.append(_spare)


def __getattr__(name: str) -> Any:
    """Import what Python users call when it is called: importing the package itself takes no time."""
    if name not in ("ask", "serve", "watch"):
        raise AttributeError(name)
    return getattr(import_module("whichdevice.apps.api"), name)

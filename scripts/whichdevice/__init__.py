"""Measure deep-learning workloads on CPUs, GPUs and TPUs, and answer which device to use."""

from importlib import import_module
from typing import Any

__version__ = "0.3.0"


def __getattr__(name: str) -> Any:
    """Import what Python users call when it is called: importing the package itself takes no time."""
    if name not in ("ask", "serve", "watch"):
        raise AttributeError(name)
    return getattr(import_module("whichdevice.apps.api"), name)

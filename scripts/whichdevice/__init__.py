"""Measure deep-learning workloads on CPUs, GPUs and TPUs and tell which device to use."""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    """Import what Python users call when it is called: importing the package itself takes no time."""
    if name != "ask":
        raise AttributeError(name)
    return import_module("whichdevice.api").ask

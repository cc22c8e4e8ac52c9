"""The kinds of device that a host may have. Each kind is one module of this folder, found by its name.

Nothing here imports a framework: the answer shapes targets before any work starts.
"""

import importlib
import os
from dataclasses import dataclass
from typing import Protocol, cast

from whichdevice.base.errors import StudyError

KINDS = ("cpu", "gpu", "tpu")


def visible_list(*names: str) -> tuple[str, list[str]] | None:
    """The first of these variables that is set, as (name, entries); None when all are unset."""
    for name in names:
        if name in os.environ:
            return name, [entry.strip() for entry in os.environ[name].split(",") if entry.strip()]
    return None


@dataclass(frozen=True)
class DeviceFacts:
    """The devices of one kind on this host; memory is bytes of one of them."""

    name: str | None = None
    count: int = 0
    memory: int | None = None
    driver: str | None = None
    free_memory: int | None = None  # bytes that no process holds now


class DeviceKind(Protocol):
    """The module of one kind, named after it. Its functions neither import a framework nor raise."""

    def present(self) -> int:
        """How many replicas this host can carry: chips of a GPU, cores of a TPU."""

    def absent_reason(self, replicas: int = 1) -> str | None:
        """None if this host carries `replicas` of the kind, otherwise why not, in one line."""

    def describe(self) -> DeviceFacts:
        """Facts for the record; fields that cannot be read are None."""


def kind(name: str) -> DeviceKind:
    """Return the module of one kind; raises StudyError on an unknown one."""
    if name not in KINDS:
        raise StudyError(f"no device kind {name!r}; there are {', '.join(KINDS)}")
    return cast(DeviceKind, importlib.import_module(f"whichdevice.measure.machine.{name}"))

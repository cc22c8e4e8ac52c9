"""What every kind of device can tell of itself."""

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class DeviceFacts:
    """The devices of one kind on this host; memory is bytes of one of them, power watts, clock Hz."""

    name: str | None = None
    count: int = 0
    memory: int | None = None
    driver: str | None = None
    free_memory: int | None = None  # bytes that no process holds now
    power_limit: float | None = None
    clock_max: float | None = None


class DeviceKind(Protocol):
    """A module of this folder, named after its kind. None of its functions imports a framework or raises."""

    def present(self) -> int:
        """How many replicas this host can carry: chips of a GPU, cores of a TPU."""

    def absent_reason(self, replicas: int = 1) -> str | None:
        """None if this host carries `replicas` of the kind, otherwise why not, in one line."""

    def describe(self) -> DeviceFacts:
        """Facts for the record; fields that cannot be read are None."""

"""The CPU as a device: always here."""

from whichdevice.base.cpu import cpu_model
from whichdevice.base.memory import total_memory
from whichdevice.measure.machine.devices import DeviceFacts


def present() -> int:
    """One."""
    return 1


def absent_reason(replicas: int = 1) -> str | None:
    """Never absent, whatever the replica count, as CPU replicas are virtual."""
    return None


def describe() -> DeviceFacts:
    """Model name and the memory that this process may use."""
    return DeviceFacts(name=cpu_model(), count=1, memory=total_memory())

"""Which machine a record is of, without a name: enough to tell two apart."""

from whichdevice.records.facts import Machine


def same_machine(one: Machine, other: Machine) -> bool:
    """Whether two records may be of one machine: by identity where both have it, else by processor, memory and system.

    So two of a kind without an identity, such as containers of one image, look like one.
    """
    if one.cpu != other.cpu or _gibibytes(one) != _gibibytes(other):
        return False
    if one.identity and other.identity:
        return one.identity == other.identity
    return one.operating_system == other.operating_system


def told(machine: Machine) -> str:
    """The machine in a message, e.g. `AMD EPYC 9B14, 24 GiB, machine 3f9a1c`."""
    memory = f", {_gibibytes(machine)} GiB" if machine.memory else ""
    identity = f", machine {machine.identity[:6]}" if machine.identity else ""
    return f"{machine.cpu or machine.device_name or 'unknown'}{memory}{identity}"


def _gibibytes(machine: Machine) -> int | None:
    return None if machine.memory is None else round(machine.memory / 2**30)

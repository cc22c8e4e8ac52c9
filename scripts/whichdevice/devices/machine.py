"""What a run stands on, for its record. No host name, no user name, no path."""

import platform

from whichdevice import devices
from whichdevice.host.affinity import usable_cores
from whichdevice.host.cpu import cpu_model, instruction_sets, last_level_cache, physical_cores
from whichdevice.host.identity import machine_identity
from whichdevice.host.memory import total_memory
from whichdevice.records.facts import Machine


def describe_machine(kind: str, threads: int | None = None) -> Machine:
    """The host and its devices of one kind; `threads` is what the framework was given."""
    facts = devices.kind(kind).describe()
    return Machine(
        device_name=facts.name,
        device_count=facts.count,
        cpu=cpu_model(),
        cores=usable_cores(),
        physical_cores=physical_cores(),
        threads=threads,
        memory=total_memory(),
        last_level_cache=last_level_cache(),
        instruction_sets=instruction_sets(),
        architecture=platform.machine(),
        operating_system=operating_system(),
        driver=facts.driver,
        device_memory=facts.memory if kind != "cpu" else None,  # a CPU's is the host's
        device_memory_free=facts.free_memory,
        power_limit=facts.power_limit,
        clock_max=facts.clock_max,
        identity=machine_identity(),
    )


def this_machine() -> Machine:
    """What tells this machine from others, and nothing of its devices."""
    return Machine(
        cpu=cpu_model(),
        memory=total_memory(),
        operating_system=operating_system(),
        identity=machine_identity(),
    )


def operating_system() -> str:
    """Distribution and kernel, e.g. `Debian GNU/Linux 12 (bookworm), Linux 6.1.0`, or `macOS 15.1`."""
    if platform.system() == "Darwin":
        return f"macOS {platform.mac_ver()[0]}"
    kernel = f"{platform.system()} {platform.release()}"
    try:
        return f"{platform.freedesktop_os_release()['PRETTY_NAME']}, {kernel}"
    except (OSError, KeyError):
        return kernel

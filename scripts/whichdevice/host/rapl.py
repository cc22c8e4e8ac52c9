"""RAPL: energy counters in processors, by Linux's powercap files (Intel since Sandy Bridge, AMD from Linux 5.8).

Zones are folders `intel-rapl:<n>`, on AMD too; `intel-rapl:<n>:<m>` lie below them. What they hold (Linux,
Documentation/power/powercap; Intel SDM volume 3, 16.10): `package-<n>` a socket with its cores, caches and memory
controller, but not the memory; `dram` the memory of one socket, on servers; `core` and `uncore` parts of a package;
`psys` a whole platform, packages and memory included. `intel-rapl-mmio:<n>` counts a package a second time.
"""

from pathlib import Path

from whichdevice.host.energy_counters import Counters, MeterError, many

POWERCAP = Path("/sys/class/powercap")
UPDATE = 0.001  # s


def package_counters(powercap: Path = POWERCAP) -> Counters:
    """All processor packages of the host; their memory is apart. Raises MeterError."""
    return _counters(powercap, "package", "")


def memory_counters(powercap: Path = POWERCAP) -> Counters:
    """The memory of all packages, where the processor counts it: servers by Intel. Raises MeterError."""
    return _counters(powercap, "dram", "the memory of ")


def _counters(powercap: Path, label: str, part: str) -> Counters:
    zones = [zone for zone in sorted(powercap.glob("intel-rapl:*")) if _name(zone).startswith(label)]
    if not zones:
        raise MeterError(_why_none(powercap, part))

    def read() -> list[float]:
        return [_joules(zone / "energy_uj") for zone in zones]

    read()
    ranges = [_joules(zone / "max_energy_range_uj") for zone in zones]
    return Counters(f"RAPL of {part}{many(len(zones), 'processor package')}", read, ranges, UPDATE)


def _why_none(powercap: Path, part: str) -> str:
    """A container that hides powercap leaves links to folders that are not there."""
    links = list(powercap.glob("intel-rapl:*"))
    if links and not any((zone / "name").exists() for zone in links):
        return "RAPL is hidden from this container; mount /sys/devices/virtual/powercap into it to read it"
    usual = "" if links else " (usual in virtual machines)"
    return f"no RAPL counter of {part}a processor package{usual}"


def _name(zone: Path) -> str:
    try:
        return (zone / "name").read_text(encoding="utf-8").strip()
    except OSError:
        return ""


def _joules(path: Path) -> float:
    """A file of microjoules, in joules."""
    try:
        return int(path.read_text(encoding="utf-8")) / 1e6
    except PermissionError as error:  # since CVE-2020-8694 (Linux 5.10 and earlier ones mended)
        raise MeterError(f"RAPL's {path.name} is readable by root only; see docs/how-to/energy.md") from error
    except OSError as error:
        raise MeterError(f"RAPL's {path.name}: {error.strerror or error}") from error
    except ValueError as error:
        raise MeterError(f"RAPL's {path.name} holds no number") from error

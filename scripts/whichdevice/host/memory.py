"""Memory of the host as a process may use it, in bytes."""

import resource
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from whichdevice.host.cgroup import ROOT, limits, number

MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the system's `ru_maxrss`


def total_memory(root: Path = ROOT) -> int:
    """Memory of the host, or the tightest limit of this process's control groups where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _limits(root))])


def available_memory(root: Path = ROOT) -> int:
    """What can still be taken without swapping: free for the host and below every control group's limit.

    File cache that a group could give back counts as free, as it does for the host.
    """
    return min([psutil.virtual_memory().available, *(max(0, limit - _used(path)) for path, limit in _limits(root))])


def peak_memory() -> int:
    """The most that this process has held at once so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def memory_kills(root: Path = ROOT) -> int:
    """How often the kernel has killed for lack of memory on this host or in the own control groups; it only grows.

    0 where the system does not count (macOS).
    """
    files = [root / "proc/vmstat", *(path for path, _ in limits("memory", "memory.events", "memory.oom_control", root))]
    return sum(_counted("oom_kill", path) for path in files)


def _counted(name: str, path: Path) -> int:
    """The number beside a name in a file of lines `name number`; 0 without it."""
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _limits(root: Path) -> list[tuple[Path, int]]:
    found = limits("memory", "memory.max", "memory.limit_in_bytes", root)
    return [(path, int(text)) for path, text in found if text.isdigit()]  # "max" or a huge number: no limit


def _used(limit: Path) -> int:
    """Bytes in use in the group of this limit file, without its inactive file cache."""
    version_2 = limit.name == "memory.max"
    usage = number(limit.with_name("memory.current" if version_2 else "memory.usage_in_bytes")) or 0
    key = "inactive_file" if version_2 else "total_inactive_file"
    try:
        statistics = dict(line.split() for line in limit.with_name("memory.stat").read_text("utf-8").splitlines())
    except (OSError, ValueError):
        return usage
    return max(0, usage - int(statistics.get(key, 0)))

"""Memory of the host as a process may use it, in bytes."""

from pathlib import Path

import psutil

from whichdevice.host.cgroup import ROOT, limits, number


def total_memory(root: Path = ROOT) -> int:
    """Memory of the host, or the tightest limit of this process's control groups where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _limits(root))])


def available_memory(root: Path = ROOT) -> int:
    """What can still be taken without swapping: free for the host and below every control group's limit.

    File cache that a group could give back counts as free, as it does for the host.
    """
    return min([psutil.virtual_memory().available, *(max(0, limit - _used(path)) for path, limit in _limits(root))])


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

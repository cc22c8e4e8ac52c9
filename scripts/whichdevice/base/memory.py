"""Memory that this process may take: the host's, its control groups' and what it allows itself, in bytes.

Limits of containers and schedulers are control groups of version 1 and 2, read from the innermost outwards.
"""

import resource
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil

from whichdevice.base.files import text_of

ROOT = Path("/")
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the system's `ru_maxrss`


def group_limits(controller: str, v2_file: str, v1_file: str, root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Each file that states a limit of this process, or what came of it, as (path, text).

    A limit of any enclosing group holds too, so all parents are read. In a container the path in
    /proc/self/cgroup may not exist below the mount; its root then is the container's own group.
    """
    for folder, version in _groups(controller, root):
        path = folder / (v2_file if version == 2 else v1_file)
        if text := text_of(path):
            yield path, text


def read_number(path: Path) -> int | None:
    """The whole number that a control file holds; None where the file is missing or says `max`."""
    text = text_of(path)
    return int(text) if text.lstrip("-").isdigit() else None


def total_memory(root: Path = ROOT) -> int:
    """Memory of the host, or the tightest limit of this process's control groups where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _memory_limits(root))])


def available_memory(root: Path = ROOT) -> int:
    """Return the bytes that can be taken without swapping: free for the host and below every control group's limit.

    File cache that a group could give back counts as free, as it does for the host.
    """
    left = (max(0, limit - _used_memory(path)) for path, limit in _memory_limits(root))
    return min([psutil.virtual_memory().available, *left])


def peak_memory() -> int:
    """Return the most that this process has held at once: by Linux without its parent's memory, which rusage adds."""
    return peak_so_far() or resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def peak_so_far(process: int | str = "self") -> int:
    """Return the most that a running process has held at once, by Linux; 0 where it has ended, and elsewhere."""
    return 1024 * _read_count("VmHWM:", Path(f"/proc/{process}/status"))


def most_to_compute(wanted: float, least: float = 0.0, root: Path = ROOT) -> float:
    """Return how many bytes a step that runs for real may take: as many as wanted, but half of those available."""
    return max(least, min(wanted, available_memory(root) / 2))


def memory_kills(root: Path = ROOT) -> int:
    """How often the kernel has killed for lack of memory on this host or in the own control groups; it only grows.

    0 where the system does not count (macOS).
    """
    groups = (path for path, _ in group_limits("memory", "memory.events", "memory.oom_control", root))
    return sum(_read_count("oom_kill", path) for path in (root / "proc/vmstat", *groups))


@contextmanager
def memory_within(limit: float | None) -> Iterator[None]:
    """Let this process take at most `limit` bytes more while it lasts; None: no limit.

    What asks for more fails as on a host without memory, and the run is `out_of_memory`. Without effect on macOS, whose
    kernel does not count.
    """
    if limit is None:
        yield
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = 1024 * _read_count("VmData:", Path("/proc/self/status")) + int(limit)  # private memory that is mapped now
    if soft != resource.RLIM_INFINITY:
        wanted = min(wanted, soft)
    resource.setrlimit(resource.RLIMIT_DATA, (wanted, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


def _read_count(name: str, path: Path) -> int:
    """The number beside a name in a file of lines `name number`; 0 without it."""
    lines = (line.split() for line in text_of(path).splitlines())
    return next((int(words[1]) for words in lines if words[:1] == [name]), 0)


def _memory_limits(root: Path) -> list[tuple[Path, int]]:
    limits = group_limits("memory", "memory.max", "memory.limit_in_bytes", root)
    return [(path, int(text)) for path, text in limits if text.isdigit()]  # "max" or a huge number: no limit


def _used_memory(limit: Path) -> int:
    """Bytes in use in the group of this limit file, without its inactive file cache."""
    version_2 = limit.name == "memory.max"
    usage = read_number(limit.with_name("memory.current" if version_2 else "memory.usage_in_bytes")) or 0
    key = "inactive_file" if version_2 else "total_inactive_file"
    return max(0, usage - _read_count(key, limit.with_name("memory.stat")))


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    seen: set[Path] = set()
    for line in text_of(root / "proc/self/cgroup").splitlines():
        _, controllers, group = line.split(":", 2)
        if not controllers:
            mounts, version = ("", "unified"), 2
        elif controller in controllers.split(","):
            mounts, version = (controllers, controller), 1
        else:
            continue
        for mount in (root / "sys/fs/cgroup" / name for name in dict.fromkeys(mounts)):
            inner = mount / group.lstrip("/")
            for folder in (inner, *inner.parents):
                if (place := folder.resolve()) not in seen:  # a mount of several controllers has links to it
                    seen.add(place)
                    yield folder, version
                if folder == mount:
                    break

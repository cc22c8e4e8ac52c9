"""Processors, memory and disk that a process may use, within the limits of containers and schedulers.

Limits are control groups of version 1 and 2, read from the innermost outwards. Memory is in bytes.
"""

import errno
import os
import resource
import shutil
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psutil

ROOT = Path("/")


def group_limits(controller: str, v2_file: str, v1_file: str, root: Path = ROOT) -> Iterator[tuple[Path, str]]:
    """Each file that states a limit of this process, or what came of it, as (path, text).

    A limit of any enclosing group holds too, so all parents are read. In a container the path in
    /proc/self/cgroup may not exist below the mount; its root then is the container's own group.
    """
    for folder, version in _groups(controller, root):
        path = folder / (v2_file if version == 2 else v1_file)
        text = _read(path)
        if text is not None:
            yield path, text


def read_number(path: Path) -> int | None:
    """The whole number that a control file holds; None where the file is missing or says `max`."""
    text = _read(path)
    return int(text) if text is not None and text.lstrip("-").isdigit() else None


def _groups(controller: str, root: Path) -> Iterator[tuple[Path, int]]:
    seen: set[Path] = set()
    for line in (_read(root / "proc/self/cgroup") or "").splitlines():
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


def _read(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        return None


THROTTLED_UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # control groups of version 2 and 1, in seconds


def usable_cores(root: Path = ROOT) -> int:
    """Logical processors of this process: its CPU affinity, cut to the CPU quota of its control groups.

    A quota of 2.5 processors counts as 2: a third thread would only be throttled, which is noise.
    """
    quota = cpu_quota(root)
    cores = len(usable_processors())
    return cores if quota is None else max(1, min(cores, int(quota)))


def cpu_quota(root: Path = ROOT) -> float | None:
    """The tightest CPU quota in processors, or None without one."""
    quotas = []
    for path, text in group_limits("cpu", "cpu.max", "cpu.cfs_quota_us", root):
        quota, _, period = text.partition(" ")
        length = int(period) if period else read_number(path.with_name("cpu.cfs_period_us"))
        if quota.isdigit() and length:  # "max" and -1 mean no quota
            quotas.append(int(quota) / length)
    return min(quotas, default=None)


def throttled_seconds(root: Path = ROOT) -> float | None:
    """Seconds, of all processors together, that quotas have held up this process's control groups so far.

    None where nothing counts them, or where the quota is below one processor: it holds every run up, and always alike.
    """
    counts = [
        int(count) * THROTTLED_UNITS[name]
        for _, text in group_limits("cpu", "cpu.stat", "cpu.stat", root)
        for name, _, count in (line.partition(" ") for line in text.splitlines())
        if name in THROTTLED_UNITS and count.isdigit()
    ]
    quota = cpu_quota(root)
    return sum(counts) if counts and (quota is None or quota >= 1) else None


def usable_processors() -> set[int]:
    """Numbers of the logical processors that this process may run on; all where there is no affinity (macOS)."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return set(range(os.cpu_count() or 1))


def thread_environment(threads: int) -> dict[str, str]:
    """Variables that give every library of a run `threads` threads; to be set before the process starts.

    TensorFlow would take the inter-op pool from all processors of the host, and XLA on the CPU (JAX) heeds
    PJRT_NPROC alone. Snakemake exports some of these from a job's `threads`, so a run sets them anew.
    """
    names = (
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "NUMEXPR_NUM_THREADS",
        "NUMEXPR_MAX_THREADS",
        "VECLIB_MAXIMUM_THREADS",
        "TF_NUM_INTRAOP_THREADS",
        "TF_NUM_INTEROP_THREADS",
        "PJRT_NPROC",
    )
    return dict.fromkeys(names, str(threads))


MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the system's `ru_maxrss`


def total_memory(root: Path = ROOT) -> int:
    """Memory of the host, or the tightest limit of this process's control groups where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _memory_limits(root))])


def available_memory(root: Path = ROOT) -> int:
    """What can still be taken without swapping: free for the host and below every control group's limit.

    File cache that a group could give back counts as free, as it does for the host.
    """
    return min(
        [
            psutil.virtual_memory().available,
            *(max(0, limit - _used_memory(path)) for path, limit in _memory_limits(root)),
        ]
    )


def peak_memory() -> int:
    """The most that this process has held at once so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * MAXRSS_UNIT


def memory_kills(root: Path = ROOT) -> int:
    """How often the kernel has killed for lack of memory on this host or in the own control groups; it only grows.

    0 where the system does not count (macOS).
    """
    files = [
        root / "proc/vmstat",
        *(path for path, _ in group_limits("memory", "memory.events", "memory.oom_control", root)),
    ]
    return sum(_read_count("oom_kill", path) for path in files)


def _read_count(name: str, path: Path) -> int:
    """The number beside a name in a file of lines `name number`; 0 without it."""
    with suppress(OSError, UnicodeDecodeError):
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith(f"{name} "):
                return int(line.split()[1])
    return 0


def _memory_limits(root: Path) -> list[tuple[Path, int]]:
    found = group_limits("memory", "memory.max", "memory.limit_in_bytes", root)
    return [(path, int(text)) for path, text in found if text.isdigit()]  # "max" or a huge number: no limit


def _used_memory(limit: Path) -> int:
    """Bytes in use in the group of this limit file, without its inactive file cache."""
    version_2 = limit.name == "memory.max"
    usage = read_number(limit.with_name("memory.current" if version_2 else "memory.usage_in_bytes")) or 0
    key = "inactive_file" if version_2 else "total_inactive_file"
    try:
        statistics = dict(line.split() for line in limit.with_name("memory.stat").read_text("utf-8").splitlines())
    except (OSError, ValueError):
        return usage
    return max(0, usage - int(statistics.get(key, 0)))


FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
LEAST_BYTES = 2**16  # nothing of a run fits in less


def is_full(reason: str | None, *folders: Path) -> bool:
    """Whether a reason says so, in the system's words, or one of the folders lies on a disk without room.

    A process that could not even write why it failed gives no such reason.
    """
    return any(words in (reason or "") for words in FULL) or any(
        shutil.disk_usage(folder).free < LEAST_BYTES for folder in folders if folder.is_dir()
    )

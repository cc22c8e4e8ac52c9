"""How many logical processors a process may use, and the variables that tell every library so."""

import os
from pathlib import Path

from whichdevice.host.cgroup import ROOT, limits, number

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
    for path, text in limits("cpu", "cpu.max", "cpu.cfs_quota_us", root):
        quota, _, period = text.partition(" ")
        length = int(period) if period else number(path.with_name("cpu.cfs_period_us"))
        if quota.isdigit() and length:  # "max" and -1 mean no quota
            quotas.append(int(quota) / length)
    return min(quotas, default=None)


def throttled_seconds(root: Path = ROOT) -> float | None:
    """Seconds, of all processors together, that quotas have held up this process's control groups so far.

    None where nothing counts them, or where the quota is below one processor: it holds every run up, and always alike.
    """
    counts = [
        int(count) * THROTTLED_UNITS[name]
        for _, text in limits("cpu", "cpu.stat", "cpu.stat", root)
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

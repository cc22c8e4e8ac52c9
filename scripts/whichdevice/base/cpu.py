"""Describe this host's processors and what a process may use of them and of disk."""

import errno
import os
import platform
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil

from whichdevice.base.files import text_of
from whichdevice.base.memory import ROOT, group_limits, read_number

THROTTLED_UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # control groups of version 2 and 1, in seconds
DISK_FULL = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))
MIN_BYTES = 2**16  # nothing of a run fits in less
CPUINFO = Path("/proc/cpuinfo")
PROCESSORS = Path("/sys/devices/system/cpu")
# As Linux names them; x86 first, then Arm.
INSTRUCTION_SETS = (
    "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimddp", "sve", "sve2", "i8mm", "bf16", "sme",
)  # fmt: skip


def usable_cores(root: Path = ROOT, usable: int | None = None) -> int:
    """Logical processors of this process: its CPU affinity (or `usable`), cut to the CPU quota of its control groups.

    A quota of 2.5 processors counts as 2: a third thread would only be throttled, which is noise.
    """
    quota = cpu_quota(root)
    cores = usable or len(usable_processors())
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

    None where nothing counts them, or where the quota is below one processor: it slows every run by the same share.
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
        "OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS", "NUMEXPR_MAX_THREADS",
        "VECLIB_MAXIMUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS", "PJRT_NPROC",
    )  # fmt: skip
    return dict.fromkeys(names, str(threads))


def is_full(reason: str | None, *folders: Path) -> bool:
    """Whether a reason says so, in the system's words, or one of the folders lies on a disk without room.

    A process that could not even write why it failed gives no such reason.
    """
    return any(words in (reason or "") for words in DISK_FULL) or any(
        shutil.disk_usage(folder).free < MIN_BYTES for folder in folders if folder.is_dir()
    )


def cpu_model(cpuinfo: Path = CPUINFO) -> str:
    """The processor's model name; at worst its architecture.

    Linux on Arm names no model in /proc/cpuinfo: lscpu decodes it there. macOS has sysctl.
    """
    name = _cpuinfo_fields(cpuinfo).get("model name")
    if not name and platform.system() == "Darwin":
        name = _output("sysctl", "-n", "machdep.cpu.brand_string")
    if not name and (match := re.search(r"^Model name:\s*(.+)$", _output("lscpu"), re.MULTILINE)):
        name = match[1]
    return " ".join((name or platform.processor() or platform.machine() or "unknown").split())


def instruction_sets(cpuinfo: Path = CPUINFO) -> list[str]:
    """Return the processor's INSTRUCTION_SETS; empty where the system does not list them (macOS)."""
    fields = _cpuinfo_fields(cpuinfo)
    flags = set((fields.get("flags") or fields.get("Features") or "").split())
    return [name for name in INSTRUCTION_SETS if name in flags]


def last_level_cache(processors: Path = PROCESSORS, usable: Iterable[int] | None = None) -> int | None:
    """Bytes of all last-level caches that this process (or `usable`) may fill; None where the system does not say.

    A processor may have several, each for some of its cores, and a host several processors.
    """
    if platform.system() == "Darwin":
        text = _output("sysctl", "-n", "hw.l3cachesize") or _output("sysctl", "-n", "hw.l2cachesize")
        return int(text) if text.strip().isdigit() else None
    sizes: dict[tuple[int, str], int] = {}
    for number in sorted(usable or usable_processors()):
        for index in (processors / f"cpu{number}/cache").glob("index*"):
            if match := re.fullmatch(r"(\d+)K", text_of(index / "size")):
                sizes[int(text_of(index / "level") or 0), text_of(index / "shared_cpu_list")] = int(match[1]) * 1024
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last) or None


def physical_cores(processors: Path = PROCESSORS, usable: Iterable[int] | None = None) -> int | None:
    """Cores behind the logical processors that this process may use, or `usable`; None where the system does not say.

    A virtual machine shows its hypervisor's count, which may be one core for each of two threads of a core.
    """
    if platform.system() == "Darwin":
        return psutil.cpu_count(logical=False)
    cores = {_core(number, processors) for number in usable or usable_processors()}
    return len(cores) if all(core for _, core in cores) else None


def threads_by_turn(numbers: Iterable[int], processors: Path = PROCESSORS) -> list[list[int]]:
    """Logical processors: one of each physical core, then each core's second, and so on.

    Where the system lists no cores, each logical processor is taken for one.
    """
    turns: list[list[int]] = []
    used: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        package, core = _core(number, processors)
        place = (package, core or f"cpu{number}")
        if used[place] == len(turns):
            turns.append([])
        turns[used[place]].append(number)
        used[place] += 1
    return turns


def _core(number: int, processors: Path) -> tuple[str, str]:
    """Package and core of a logical processor."""
    place = processors / f"cpu{number}/topology"
    return text_of(place / "physical_package_id"), text_of(place / "core_id")


def _cpuinfo_fields(cpuinfo: Path) -> dict[str, str]:
    """The first processor's fields."""
    first, _, _ = text_of(cpuinfo).partition("\n\n")
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=2, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""

"""Describe this host's processors and what a process may use of them, of memory and of disk.

Limits of containers and schedulers are control groups of version 1 and 2, read from the innermost outwards. Memory is
in bytes.
"""

import errno
import os
import platform
import re
import resource
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import psutil

from whichdevice.machine.devices import DeviceFacts

ROOT = Path("/")
THROTTLED_UNITS = {"throttled_usec": 1e-6, "throttled_time": 1e-9}  # control groups of version 2 and 1, in seconds
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024  # bytes, of the system's `ru_maxrss`
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


def total_memory(root: Path = ROOT) -> int:
    """Memory of the host, or the tightest limit of this process's control groups where that is less."""
    return min([psutil.virtual_memory().total, *(limit for _, limit in _memory_limits(root))])


def available_memory(root: Path = ROOT) -> int:
    """Return the bytes that can be taken without swapping: free for the host and below every control group's limit.

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
    limits = group_limits("memory", "memory.max", "memory.limit_in_bytes", root)
    return [(path, int(text)) for path, text in limits if text.isdigit()]  # "max" or a huge number: no limit


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


def last_level_cache(processors: Path = PROCESSORS) -> int | None:
    """Bytes of all last-level caches that this process may fill; None where the system does not say.

    A processor may have several, each for some of its cores, and a host several processors.
    """
    if platform.system() == "Darwin":
        text = _output("sysctl", "-n", "hw.l3cachesize") or _output("sysctl", "-n", "hw.l2cachesize")
        return int(text) if text.strip().isdigit() else None
    sizes: dict[tuple[int, str], int] = {}
    for number in sorted(usable_processors()):
        for index in (processors / f"cpu{number}/cache").glob("index*"):
            if match := re.fullmatch(r"(\d+)K", _text(index / "size")):
                sizes[int(_text(index / "level") or 0), _text(index / "shared_cpu_list")] = int(match[1]) * 1024
    last = max((level for level, _ in sizes), default=0)
    return sum(size for (level, _), size in sizes.items() if level == last) or None


def physical_cores(processors: Path = PROCESSORS) -> int | None:
    """Cores behind the logical processors that this process may use; None where the system does not say.

    A virtual machine shows its hypervisor's count, which may be one core for each of two threads of a core.
    """
    if platform.system() == "Darwin":
        return psutil.cpu_count(logical=False)
    cores = {_core(number, processors) for number in usable_processors()}
    return len(cores) if all(core for _, core in cores) else None


def threads_by_turn(numbers: Iterable[int], processors: Path = PROCESSORS) -> list[list[int]]:
    """Logical processors: one of each physical core, then each core's second, and so on.

    Where the system lists no cores, each logical processor is taken for one.
    """
    turns: list[list[int]] = []
    taken: Counter[tuple[str, str]] = Counter()
    for number in numbers:
        package, core = _core(number, processors)
        place = (package, core or f"cpu{number}")
        if taken[place] == len(turns):
            turns.append([])
        turns[taken[place]].append(number)
        taken[place] += 1
    return turns


def _core(number: int, processors: Path) -> tuple[str, str]:
    """Package and core of a logical processor."""
    place = processors / f"cpu{number}/topology"
    return _text(place / "physical_package_id"), _text(place / "core_id")


def _text(file: Path) -> str:
    try:
        return file.read_text(encoding="ascii").strip()
    except OSError:
        return ""


def _cpuinfo_fields(cpuinfo: Path) -> dict[str, str]:
    """The first processor's fields."""
    try:
        first = cpuinfo.read_text(encoding="utf-8", errors="replace").split("\n\n", 1)[0]
    except OSError:
        return {}
    pairs = (line.partition(":") for line in first.splitlines())
    return {key.strip(): value.strip() for key, _, value in pairs}


def _output(*command: str) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=2, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return ""


def present() -> int:
    """One."""
    return 1


def absent_reason(replicas: int = 1) -> str | None:
    """Never absent, whatever the replica count, as CPU replicas are virtual."""
    return None


def describe() -> DeviceFacts:
    """Model name and the memory that this process may use."""
    return DeviceFacts(name=cpu_model(), count=1, memory=total_memory())

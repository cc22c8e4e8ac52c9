"""Name this processor and the instruction sets that decide how fast it multiplies."""

import platform
import re
import subprocess
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import psutil

from whichdevice.machine.devices import DeviceFacts
from whichdevice.machine.limits import total_memory, usable_processors

CPUINFO = Path("/proc/cpuinfo")
PROCESSORS = Path("/sys/devices/system/cpu")
# As Linux names them; x86 first, then Arm.
INSTRUCTION_SETS = (
    "avx", "avx2", "fma", "avx_vnni", "avx512f", "avx512_vnni", "avx512_bf16", "avx512_fp16",
    "amx_tile", "amx_int8", "amx_bf16", "amx_fp16",
    "asimd", "asimddp", "sve", "sve2", "i8mm", "bf16", "sme",
)  # fmt: skip


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
    """Those of INSTRUCTION_SETS that the processor has; empty where the system does not say (macOS)."""
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

    A virtual machine shows what its hypervisor tells, which may be one core for each of two threads of the same.
    """
    if platform.system() == "Darwin":
        return psutil.cpu_count(logical=False)
    cores = {_core(number, processors) for number in usable_processors()}
    return len(cores) if all(core for _, core in cores) else None


def threads_by_turn(numbers: Iterable[int], processors: Path = PROCESSORS) -> list[list[int]]:
    """Logical processors: one of each physical core, then each core's second, and so on.

    Where the system tells of no cores, each is taken for one.
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

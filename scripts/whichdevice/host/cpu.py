"""Which processor this is: its model name and the instruction sets that decide how fast it multiplies."""

import platform
import re
import subprocess
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
CACHES = Path("/sys/devices/system/cpu/cpu0/cache")
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


def last_level_cache(caches: Path = CACHES) -> int | None:
    """Bytes of the largest cache that the first processor uses; None where the system does not say."""
    if platform.system() == "Darwin":
        text = _output("sysctl", "-n", "hw.l3cachesize") or _output("sysctl", "-n", "hw.l2cachesize")
        return int(text) if text.strip().isdigit() else None
    sizes = []
    for file in caches.glob("index*/size"):
        if match := re.fullmatch(r"(\d+)K", file.read_text(encoding="ascii").strip()):
            sizes.append(int(match[1]) * 1024)
    return max(sizes, default=None)


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

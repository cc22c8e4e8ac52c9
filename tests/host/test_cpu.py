"""The processor's name and instruction sets, from real excerpts of /proc/cpuinfo."""

import platform
from pathlib import Path

import pytest

from whichdevice.host import cpu

X86 = """processor	: 0
model name	: Intel(R) Xeon(R)   Platinum 8481C CPU @ 2.70GHz
flags		: fpu sse2 avx avx2 fma avx512f avx512_bf16 amx_bf16 amx_tile rdpid

processor	: 1
model name	: another
flags		: fpu
"""
ARM = """processor	: 0
BogoMIPS	: 50.00
Features	: fp asimd sve bf16 i8mm
CPU implementer	: 0x41
CPU part	: 0xd40
"""


def cpuinfo(folder: Path, text: str) -> Path:
    path = folder / "cpuinfo"
    path.write_text(text, encoding="utf-8")
    return path


def test_the_first_processor_of_x86(tmp_path: Path) -> None:
    path = cpuinfo(tmp_path, X86)
    assert cpu.cpu_model(path) == "Intel(R) Xeon(R) Platinum 8481C CPU @ 2.70GHz"
    assert cpu.instruction_sets(path) == ["avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]


def test_arm_takes_its_name_from_lscpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.platform, "system", lambda: "Linux")
    monkeypatch.setattr(cpu, "_output", lambda *command: "Vendor ID:   ARM\nModel name:   Neoverse-V1\n")
    path = cpuinfo(tmp_path, ARM)
    assert cpu.cpu_model(path) == "Neoverse-V1"
    assert cpu.instruction_sets(path) == ["asimd", "sve", "i8mm", "bf16"]


def test_macos_asks_sysctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu.platform, "system", lambda: "Darwin")
    monkeypatch.setattr(cpu, "_output", lambda *command: "Apple M3\n" if command[0] == "sysctl" else "")
    assert cpu.cpu_model(tmp_path / "none") == "Apple M3"
    assert cpu.instruction_sets(tmp_path / "none") == []


def test_at_worst_the_architecture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_output", lambda *command: "")
    monkeypatch.setattr(cpu.platform, "processor", lambda: "")
    monkeypatch.setattr(cpu.platform, "machine", lambda: "riscv64")
    assert cpu.cpu_model(tmp_path / "none") == "riscv64"


def test_a_missing_program_is_no_error() -> None:
    assert cpu._output("no-such-program-anywhere") == ""


def test_the_last_level_cache_is_the_largest_one(tmp_path: Path) -> None:
    for index, size in enumerate(["48K", "32K", "2048K", "491520K"]):
        (tmp_path / f"index{index}").mkdir()
        (tmp_path / f"index{index}" / "size").write_text(f"{size}\n", encoding="ascii")
    assert cpu.last_level_cache(tmp_path) == 480 * 2**20


@pytest.mark.skipif(platform.system() == "Darwin", reason="asks sysctl there")
def test_where_the_system_tells_no_cache_none_is_known(tmp_path: Path) -> None:
    assert cpu.last_level_cache(tmp_path) is None

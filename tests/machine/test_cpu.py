"""The processor is named and its instruction sets are read from the system's files."""

import platform
from pathlib import Path

import pytest

from whichdevice.machine import cpu

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


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two packages of two cores of two threads: a thread of each core first, then the others; 32 MiB a package."""
    monkeypatch.setattr(cpu.platform, "system", lambda: "Linux")
    for number in range(8):
        core, package = number % 4 % 2, number % 4 // 2
        package_list = f"{2 * package}-{2 * package + 1},{2 * package + 4}-{2 * package + 5}"
        place(tmp_path, f"cpu{number}/topology", physical_package_id=package, core_id=core)
        place(tmp_path, f"cpu{number}/cache/index2", level=2, size="2048K", shared_cpu_list=f"{number % 4}")
        place(tmp_path, f"cpu{number}/cache/index3", level=3, size="32768K", shared_cpu_list=package_list)
    return tmp_path


def place(root: Path, folder: str, **files: object) -> None:
    """Small files as the kernel shows them."""
    (root / folder).mkdir(parents=True)
    for name, text in files.items():
        (root / folder / name).write_text(f"{text}\n", encoding="ascii")


@pytest.mark.parametrize(
    ("usable", "cores", "mebibytes"), [({0}, 1, 32), ({0, 4}, 1, 32), ({0, 1, 4}, 2, 32), (set(range(8)), 4, 64)]
)
def test_cores_and_caches_are_those_behind_the_usable_threads(host, usable, cores, mebibytes, monkeypatch) -> None:
    monkeypatch.setattr(cpu, "usable_processors", lambda: usable)
    assert (cpu.physical_cores(host), cpu.last_level_cache(host)) == (cores, mebibytes * 2**20)


@pytest.mark.skipif(platform.system() == "Darwin", reason="asks sysctl there")
def test_where_the_system_tells_no_cache_none_is_known(tmp_path: Path) -> None:
    assert cpu.last_level_cache(tmp_path) is None and cpu.physical_cores(tmp_path) is None


def test_a_thread_of_each_core_comes_before_any_cores_second(host: Path) -> None:
    assert cpu.threads_by_turn([0, 1, 4, 5, 7], host) == [[0, 1, 7], [4, 5]]


def test_where_the_system_tells_of_no_cores_each_processor_is_one(tmp_path: Path) -> None:
    assert cpu.threads_by_turn([3, 5], tmp_path) == [[3, 5]]


def test_the_cpu_is_there_with_any_number_of_virtual_replicas() -> None:
    assert cpu.present() == 1
    assert cpu.absent_reason(8) is None


def test_it_is_described_by_model_and_memory() -> None:
    facts = cpu.describe()
    assert facts.name and facts.count == 1
    assert facts.memory and facts.memory > 2**28

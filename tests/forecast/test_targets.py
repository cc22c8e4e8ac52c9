"""Devices by name, and what the sheet gives their compiler."""

import os
import subprocess
import sys

import pytest

from whichdevice.config.hardware import hardware_rows
from whichdevice.errors import StudyError
from whichdevice.forecast.targets import CORES_AS_DEVICES, TOPOLOGIES, all_targets, environment, find_target


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("V100 SXM2", "V100 SXM2"),
        ("v100-sxm2-16gb", "V100 SXM2"),
        ("V100 32GB", "V100 SXM2 32GB"),
        ("NVIDIA A100-SXM4-80GB", "A100 SXM 80GB"),
        ("a100 40gb", "A100 SXM 40GB"),
        ("Tesla T4", "T4"),
        ("rtx4090", "RTX 4090"),
        ("H100 SXM5", "H100 SXM"),
        ("V100-SXM", "V100 SXM2"),
        ("V100-32", "V100 SXM2 32GB"),
        ("A100-40-SXM", "A100 SXM 40GB"),
        ("A100-80-PCIE", "A100 PCIe 80GB"),
        ("A10", "A10"),
        ("T4-16", "T4"),
        ("P100-PCIE", "P100 PCIe"),
        ("H200", "H200 SXM"),
        ("GH200-96", "GH200 96GB"),
        ("B200", "B200 SXM"),
        ("TPU v5e", "TPU v5e (v5e-1x1)"),
        ("v5e-2x2", "TPU v5e (v5e-2x2)"),
        ("v2-8", "TPU v2 (v2-2x2)"),
    ],
)
def test_a_device_is_found_by_what_people_call_it(name, label):
    assert find_target(name).label == label


@pytest.mark.parametrize(
    ("name", "devices", "error"),
    [
        ("GTX 1080", None, "unknown device 'GTX 1080'; nearest: "),
        ("A100 PCIe", None, "which one? A100 PCIe 40GB, A100 PCIe 80GB"),
        ("K80", None, "no compiler for it here"),
        ("T4", 3, "T4: 3 devices are no machine that is known; 1, 2, 4, 8 are"),
        ("v5e-2x2", 8, "the slice has 4 devices, not 8"),
    ],
)
def test_what_cannot_be_found_is_one_line_with_what_can(name, devices, error):
    with pytest.raises(StudyError, match=error.replace("?", r"\?")):
        find_target(name, devices)


def test_devices_of_one_machine_share_a_batch():
    assert find_target("A100", 8).label == "8 × A100 SXM 80GB"
    assert find_target("TPU v5e", 4).slice == TOPOLOGIES["v5e-2x2"]


def test_every_device_with_a_compiler_is_a_target():
    compiled = {name for name, row in hardware_rows().items() if row.compiler}
    assert {target.device for target in all_targets()} == compiled


@pytest.mark.parametrize(
    ("device", "precision", "refused"),
    [
        ("V100", "mixed_bfloat16", True),
        ("V100", "tf32", True),
        ("V100", "mixed_float16", False),
        ("A100", "tf32", False),
        ("L4", "mixed_bfloat16", False),
        ("TPU v5e", "mixed_float16", True),
        ("TPU v5e", "mixed_bfloat16", False),
    ],
)
def test_a_number_format_that_a_device_does_not_have_is_refused_with_one_that_it_has(device, precision, refused):
    reason = find_target(device).refusal(precision)
    assert (reason is not None) is refused
    assert reason is None or "; take " in reason


def test_mixed_is_the_half_format_of_the_device():
    assert [find_target(name).mixed for name in ("T4", "A100", "TPU v2")] == [
        "mixed_float16", "mixed_bfloat16", "mixed_bfloat16",
    ]  # fmt: skip


def test_the_compilers_text_is_made_of_the_sheet():
    text = find_target("T4").config_text()
    assert "core_count: 40" in text and "memory_bandwidth: 320000000000" in text
    assert "cuda_compute_capability { major: 7 minor: 5 }" in text


def test_a_device_of_v2_is_a_core_with_half_the_chips_memory():
    assert CORES_AS_DEVICES["TPU v2"] == 2
    assert find_target("TPU v2").memory == 8 * 2**30
    assert find_target("TPU v5e").memory == 16 * 2**30


def test_cudas_tools_come_from_the_installed_packages(monkeypatch):
    monkeypatch.setenv("XLA_FLAGS", "--xla_gpu_cuda_data_dir=/usr/local/cuda --xla_dump_to=x")
    flags = environment(["cuda"]).get("XLA_FLAGS", os.environ["XLA_FLAGS"]).split()
    if not any(flag.endswith("nvidia/cuda_nvcc") for flag in flags):
        pytest.skip("nvidia-cuda-nvcc-cu12 is not installed")
    assert "--xla_dump_to=x" in flags and "--xla_gpu_cuda_data_dir=/usr/local/cuda" not in flags


def test_names_are_known_without_jax():
    code = "import sys, whichdevice.forecast.targets; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})

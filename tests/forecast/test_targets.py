"""Devices by name, and what they can run."""

import re
import subprocess
import sys

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.tpus import TOPOLOGIES, devices_of
from whichdevice.forecast.targets import (
    all_targets,
    devices_in,
    find_target,
    targets_in,
)


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
        ("TPU v5e", "TPU v5e"),
        ("v5e-2x2", "4 × TPU v5e"),
        ("v5e-8", "8 × TPU v5e"),
        ("v6e-256", "256 × TPU v6e"),
        ("v2-8", "4 × TPU v2"),
        ("TPU7x", "TPU7x"),
        ("rtx 3080 10gb", "RTX 3080"),
        ("4060 ti", "RTX 4060 Ti 16GB"),
        ("RTX 6000 Ada", "RTX 6000 Ada"),
        ("RTX PRO 6000", "RTX 6000 Pro"),
        ("RTX 8000", "Quadro RTX 8000"),
        ("a6000", "RTX A6000"),
        ("MI250", "MI250 (one GCD)"),
        ("K80", "K80 (one GK210)"),
        ("7900 XTX", "RX 7900 XTX"),
        ("Intel Arc A770", "Arc A770"),
        ("A770 16GB", "Arc A770"),
        ("M1 Max", "Apple M1 Max"),
        ("m1", "Apple M1"),
        ("4060 Laptop", "RTX 4060 Laptop"),
        ("RTX 3080 Mobile", "RTX 3080 Laptop"),
    ],
)
def test_a_device_is_found_by_what_people_call_it(name, label):
    assert find_target(name).label == label


@pytest.mark.parametrize(
    ("name", "devices", "error"),
    [
        ("GTX 1080", None, "unknown device 'GTX 1080'; nearest: "),
        ("A100 PCIe", None, "which one? A100 PCIe 40GB, A100 PCIe 80GB"),
        ("EPYC 7763", None, "forecasts are of GPUs and TPUs, and this is a CPU"),
        ("RTX 4060", None, "unknown device"),
        ("M1 Max", 8, "Apple M1 Max: 8 devices are no machine that is known; 1 are"),
        ("RTX 6000", None, "which one? Quadro RTX 6000, RTX 6000 Ada, RTX 6000 Pro"),
        ("RTX 5000", None, "which one? Quadro RTX 5000, RTX 5000 Ada"),
        ("4070 MEGA", None, "unknown device"),
        ("RTX 3080 12GB", None, "unknown device"),
        ("RTX 4060 Ti 8GB", None, "unknown device"),
        ("T4", 3, "T4: 3 devices are no machine that is known; 1, 2, 4, 8, 16, 32, 64, 128, 256, 512 are"),
        ("v5e-2x2", 8, "the slice has 4 devices, not 8"),
    ],
)
def test_what_cannot_be_found_is_one_line_with_what_can(name, devices, error):
    with pytest.raises(StudyError, match=error.replace("?", r"\?")):
        find_target(name, devices)


def test_devices_of_one_machine_share_a_batch():
    assert find_target("A100", 8).label == "8 × A100 SXM 80GB"
    assert find_target("TPU v5e", 4).slice == TOPOLOGIES["v5e-2x2"]


def test_every_gpu_and_tpu_is_a_target_and_apples_gpus_are_of_pytorch_models_alone():
    everything = {name for name, row in hardware_rows().items() if row.kind != "cpu"}
    traced, counted = ({target.device for target in all_targets(software=software)} for software in ("eager", "xla"))
    assert traced == everything
    assert {name for name in traced - counted} == {name for name in traced if name.startswith("Apple")}
    assert "PyTorch models have forecasts" in find_target("M1 Max").refusal("float32")
    assert find_target("M1 Max").refusal("float32", "eager") is None
    found = find_target("AMD Instinct MI300X", 64)
    assert found.refusal("bfloat16", "eager") is found.refusal("bfloat16") is None and found.mixed == "mixed_bfloat16"


def test_a_computer_or_laptop_comes_alone_and_its_gpu_takes_a_part_of_the_memory():
    assert [target.label for target in targets_in(["M1 Max", "RTX 4060 Laptop", "K80"], [1, 2])] == [
        "Apple M1 Max", "RTX 4060 Laptop", "K80 (one GK210)", "2 × K80 (one GK210)",
    ]  # fmt: skip
    assert find_target("M1 Max").kind == "gpu" and find_target("M1 Max").available(1e9) == 48 * 2**30
    assert find_target("T4").available(1e9) == find_target("T4").memory - 1e9


@pytest.mark.parametrize(("device", "note"), [("K80", "CUDA 12"), ("A770", "XPU"), ("M1", "Metal"), ("T4", "")])
def test_a_device_says_what_software_it_needs(device, note):
    assert note in "".join(find_target(device).notes)


@pytest.mark.parametrize(
    ("names", "some", "none"),
    [
        ("tpu", {"TPU v2", "TPU v5e", "TPU7x"}, {"T4"}),
        ("GPU", {"T4", "H100 SXM"}, {"TPU v5e"}),
        ("free", {"T4", "TPU v5e", "v5e-2x4"}, {"L4"}),
        ("desktop", {"RTX 4090"}, {"H100 SXM", "TPU v5e"}),
        ("cloud", {"H100 SXM", "TPU v6e"}, set()),
        ("all", {"T4", "TPU v5e", "RTX 4090", "MI300X", "K80 (one GK210)"}, {"Apple M1", "EPYC 7763"}),
    ],
)
def test_a_group_names_its_devices_beside_others(names, some, none):
    found = devices_in(["L40S", names])
    assert found[0] == "L40S" and some <= set(found) and not none & set(found)


def test_a_tpu_comes_in_the_slices_of_the_numbers_asked_for_else_in_its_smallest():
    names = ["T4", "TPU v6e", "TPU v4", "v5e-8"]
    assert [target.label for target in targets_in(names, [1, 8, 16])] == [
        "T4", "8 × T4", "16 × T4", "TPU v6e", "8 × TPU v6e", "16 × TPU v6e", "8 × TPU v4", "16 × TPU v4", "8 × TPU v5e",
    ]  # fmt: skip
    assert [target.label for target in targets_in(["TPU v4"], [1])] == ["4 × TPU v4"]


# Names that drivers give, and the row that each means.
DRIVERS = """
NVIDIA GeForce RTX 5090 = RTX 5090; NVIDIA GeForce RTX 5080 = RTX 5080; NVIDIA GeForce RTX 5070 Ti = RTX 5070 Ti
NVIDIA GeForce RTX 4090 = RTX 4090; NVIDIA GeForce RTX 4080 SUPER = RTX 4080 SUPER; NVIDIA GeForce RTX 4080 = RTX 4080
NVIDIA GeForce RTX 4070 Ti SUPER = RTX 4070 Ti SUPER; NVIDIA GeForce RTX 4070 = RTX 4070
NVIDIA GeForce RTX 4070 SUPER = RTX 4070 SUPER
NVIDIA GeForce RTX 4060 Ti = RTX 4060 Ti 16GB; NVIDIA GeForce RTX 3090 Ti = RTX 3090 Ti
NVIDIA GeForce RTX 3090 = RTX 3090; NVIDIA GeForce RTX 3080 Ti = RTX 3080 Ti; NVIDIA GeForce RTX 3080 = RTX 3080
NVIDIA GeForce RTX 3070 = RTX 3070; NVIDIA GeForce RTX 3060 = RTX 3060; NVIDIA GeForce RTX 2080 Ti = RTX 2080 Ti
NVIDIA TITAN RTX = Titan RTX; Quadro RTX 6000 = Quadro RTX 6000; Quadro RTX 8000 = Quadro RTX 8000
NVIDIA GeForce GTX 1080 Ti = GTX 1080 Ti; Tesla P4 = P4; Tesla P40 = P40; NVIDIA RTX A6000 = RTX A6000
NVIDIA RTX A5000 = RTX A5000; NVIDIA RTX A4000 = RTX A4000; NVIDIA RTX 6000 Ada Generation = RTX 6000 Ada
NVIDIA RTX 5000 Ada Generation = RTX 5000 Ada; NVIDIA RTX 4000 Ada Generation = RTX 4000 Ada; NVIDIA A40 = A40
NVIDIA A30 = A30; NVIDIA A16 = A16 (one of four GA107); NVIDIA A2 = A2; NVIDIA A10 = A10; NVIDIA A10G = A10G
NVIDIA L4 = L4; NVIDIA L40 = L40; NVIDIA L40S = L40S; Tesla T4 = T4; Tesla V100-SXM2-32GB = V100 SXM2 32GB
Tesla V100-SXM2-16GB = V100 SXM2; Tesla V100-PCIE-16GB = V100 PCIe; Tesla P100-PCIE-16GB = P100 PCIe
NVIDIA A100-SXM4-40GB = A100 SXM 40GB; NVIDIA A100-SXM4-80GB = A100 SXM 80GB; NVIDIA A100 80GB PCIe = A100 PCIe 80GB
NVIDIA A100-PCIE-40GB = A100 PCIe 40GB; NVIDIA H100 NVL = H100 NVL; NVIDIA H100 PCIe = H100 PCIe
NVIDIA H100 80GB HBM3 = H100 SXM; NVIDIA H200 = H200 SXM; NVIDIA GH200 480GB = GH200 96GB; NVIDIA B200 = B200 SXM
NVIDIA B300 SXM6 AC = B300 SXM; NVIDIA GB200 = GB200
NVIDIA RTX PRO 6000 Blackwell Server Edition = RTX 6000 Pro
NVIDIA RTX PRO 6000 Blackwell Workstation Edition = RTX 6000 Pro Workstation
NVIDIA RTX PRO 6000 Blackwell Max-Q Workstation Edition = RTX 6000 Pro Max-Q
AMD Instinct MI100 = MI100; AMD Instinct MI210 = MI210; AMD Instinct MI250 = MI250 (one GCD)
AMD Instinct MI250X = MI250X (one GCD); AMD Instinct MI250X/MI250 = MI250X (one GCD); AMD Instinct MI300X = MI300X
AMD Instinct MI325X = MI325X; AMD Instinct MI355X = MI355X; AMD Radeon RX 7900 XTX = RX 7900 XTX
AMD Radeon PRO W7900 = Radeon PRO W7900; TPU v2 = TPU v2; TPU v3 = TPU v3; TPU v4 = TPU v4
TPU v5 lite = TPU v5e; TPU v5 = TPU v5p; TPU v6 lite = TPU v6e; TPU7x = TPU7x
Intel(R) Arc(TM) A770 Graphics = Arc A770; NVIDIA GeForce RTX 4060 Laptop GPU = RTX 4060 Laptop
NVIDIA GeForce RTX 3060 Laptop GPU = RTX 3060 Laptop; NVIDIA GeForce RTX 3070 Laptop GPU = RTX 3070 Laptop
NVIDIA GeForce RTX 3070 Ti Laptop GPU = RTX 3070 Ti Laptop; NVIDIA GeForce RTX 3080 Laptop GPU = RTX 3080 Laptop
NVIDIA GeForce RTX 3080 Ti Laptop GPU = RTX 3080 Ti Laptop; Quadro RTX 5000 = Quadro RTX 5000
Quadro RTX 4000 = Quadro RTX 4000
NVIDIA GeForce RTX 4090 Laptop GPU = ; Quadro RTX 5000 with Max-Q Design = ; NVIDIA A100-SXM4-80GB MIG 1g.10gb =
"""


def test_a_drivers_name_means_one_row():
    for line in DRIVERS.strip().replace(";", "\n").splitlines():
        name, row = (part.strip() for part in line.split("="))
        fitting = [device for device, each in hardware_rows().items() if each.matches and re.search(each.matches, name)]
        assert fitting == ([row] if row else []), name
    others = {name for name, row in hardware_rows().items() if row.kind != "unified"}
    assert {row for row in others if f"= {row}\n" not in DRIVERS.replace(";", "\n")} == set(UNSEEN)


UNSEEN = ("K80 (one GK210)", "P100 SXM2", "EPYC 7763", "Xeon Platinum 8480+", "Colab CPU (2 threads)")


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
        ("K80", "tf32", True),
        ("K80", "mixed_bfloat16", True),
        ("K80", "mixed_float16", False),
        ("RX 7900 XTX", "mixed_bfloat16", False),
        ("A770", "mixed_bfloat16", False),
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


def test_a_device_of_v2_is_a_core_with_half_the_chips_memory():
    assert devices_of("TPU v2") == 2
    assert find_target("TPU v2").memory == 8 * 2**30
    assert find_target("TPU v5e").memory == 16 * 2**30


def test_names_are_known_without_jax():
    code = "import sys, whichdevice.forecast.targets; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_the_group_of_tpus_has_the_slice_that_is_free() -> None:
    assert {"TPU v5e", "v5e-2x4"} <= set(devices_in(["tpu"]))

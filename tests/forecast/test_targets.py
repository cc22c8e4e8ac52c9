"""Devices by name, and what they can run."""

import re
import subprocess
import sys

import pytest
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.tpus import TOPOLOGIES, devices_of
from whichdevice.forecast.targets import (
    all_targets,
    devices_in,
    find_target,
    targets_in,
)

BESIDE = beside(__file__)


@pytest.mark.parametrize(("name", "label"), BESIDE["a device is found by what people call it"])
def test_a_device_is_found_by_what_people_call_it(name, label):
    assert find_target(name).label == label


@pytest.mark.parametrize(("name", "devices", "error"), BESIDE["what cannot be found is one line with what can"])
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


@pytest.mark.parametrize(("names", "some", "none"), BESIDE["a group names its devices beside others"])
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
DRIVERS = BESIDE["drivers"]


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
    BESIDE["a number format that a device does not have is refused with one that it has"],
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

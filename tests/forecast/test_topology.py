"""Slices and devices: sheet, clock and matrix units must agree."""

import subprocess
import sys

import pytest

from whichdevice.forecast.targets import CORES_AS_DEVICES, TOPOLOGIES, device_of, topology_named
from whichdevice.errors import StudyError

# Matrix units in a chip and their width, from the generations' system architecture pages.
UNITS = {
    "TPU v2": (2, 128),
    "TPU v3": (4, 128),
    "TPU v4": (8, 128),
    "TPU v5e": (4, 128),
    "TPU v5p": (8, 128),
    "TPU v6e": (4, 256),
}


@pytest.mark.parametrize("chip", UNITS)
def test_clock_times_matrix_units_is_the_sheets_peak(chip):
    units, width = UNITS[chip]
    one = device_of(chip)
    assert one.peak == pytest.approx(units * width**2 * 2 * one.clock / CORES_AS_DEVICES.get(chip, 1), rel=0.005)


def test_a_device_of_v2_is_a_core_with_half_the_chips_memory():
    assert device_of("TPU v2").memory == 8 * 2**30
    assert device_of("TPU v5e").memory == 16 * 2**30


def test_an_unknown_slice_is_named_with_the_known_ones():
    with pytest.raises(StudyError, match=r"no TPU topology 'v9-2x2'; there are v2-2x2, v3-2x2"):
        topology_named("v9-2x2")


def test_names_are_known_without_jax():
    code = "import sys, whichdevice.forecast.targets; sys.exit('jax' in sys.modules or 'numpy' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True, env={"PYTHONPATH": ":".join(sys.path)})


def test_every_name_is_its_generation_and_its_shape():
    for name, topology in TOPOLOGIES.items():
        assert topology.libtpu == name.replace("-", ":")
        assert topology.chip == f"TPU {name.split('-')[0]}"

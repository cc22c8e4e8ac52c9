"""A step's time on a device, from its work and the sheet."""

import math

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import Peaks, at_peaks, chip_of, forecast_step
from whichdevice.forecast.work import Item, Work

SHEET = hardware_rows()


@pytest.mark.parametrize("milliseconds", [25, 30, 38])
def test_a_tpu_v2_that_is_fed_step_by_step_is_inside_of_its_interval(milliseconds):
    """Seven published workloads of a v2-8, whose device needs about a millisecond."""
    small = Work("tpu", (Item("product", "half", 2e9, 1e7, 60), Item("memory", "", 0.0, 1e6, 100)))
    found = forecast_step(small, SHEET["TPU v2"])
    assert found.low < milliseconds / 1e3 < found.high


def test_a_chip_without_published_times_gets_a_wider_interval():
    work = Work("gpu", (Item("product", "half", 1e13, 1e8, 200),))
    known, unknown = (forecast_step(work, SHEET[name]) for name in ("A100 SXM 80GB", "B200 SXM"))
    assert (known.known_device, unknown.known_device) == (True, False)
    assert known.log_sd_own < unknown.log_sd_own
    assert unknown.note.startswith("no published times of the B200")


# BERT base in float32, 16 sequences of 128 tokens, as it is traced (products, attention, optimiser, the rest), and a
# small convolutional net in a program of XLA.
BERT = Work(
    "gpu",
    (
        Item("product", "float32", 7.04e9, 3.6e7, 150), Item("attention", "float32", 8e8, 2.5e7, 12),
        Item("attention backward", "float32", 1.2e9, 4e7, 12), Item("optimizer", "", 0.0, 6e7, 150),
        Item("memory", "", 0.0, 1.4e7, 300),
    ),
    software="eager",
)  # fmt: skip
CNN = Work("gpu", (Item("convolution", "float32", 2e10, 1e8, 12), Item("memory", "", 0.0, 5e7, 40)))
OTHERS = ("K80 (one GK210)", "RX 7900 XTX", "Arc A770", "Ryzen AI Max+ 395")


@pytest.mark.parametrize(("device", "seconds"), [("Apple M1 Max", 0.43), ("Apple M1 Max", 0.63), ("V100 SXM2", 0.12)])
def test_a_published_training_of_bert_is_inside_of_its_interval(device, seconds):
    """100 steps took 43 to 63 s on an M1 Max by PyTorch of 2022, and 12 s on a V100."""
    found = forecast_step(BERT, SHEET[device], host=(0.02, 0.4))
    assert found.low < seconds < found.high


@pytest.mark.parametrize("work", [BERT, CNN], ids=["BERT", "CNN"])
@pytest.mark.parametrize("device", [*OTHERS, "RTX 4060 Laptop", "P100 PCIe", "Apple M1 Max", "DGX Spark", "MI300X"])
def test_every_device_of_the_sheet_has_a_time_and_says_where_nobody_tested_it(device, work):
    row = SHEET[device]
    if work.software not in row.software:
        assert find_target(device).refusal("float32", work.software)
        return
    found, usual = (forecast_step(work, SHEET[name]) for name in (device, "V100 SXM2"))
    assert 0 < found.low < found.seconds < found.high
    assert found.known_device == (f"no published times of the {chip_of(device)}" not in found.note)
    assert found.known_device == (device == "P100 PCIe" and work is BERT)
    if not found.known_device:
        assert found.log_sd_own > usual.log_sd_own
    if device in OTHERS or device.startswith("Apple"):
        assert found.log_sd_own > 0.5


def test_a_card_without_matrix_units_multiplies_16_bits_as_float32():
    work = Work("gpu", (Item("product", "half", 1e12, 1e8, 10),), software="eager")
    assert set(at_peaks(work, Peaks.of(SHEET["GTX 1080 Ti"]))) == {"product float32", "bytes of product", "launch"}
    assert "product half" in at_peaks(work, Peaks.of(SHEET["P100 PCIe"]))


SMALL = Work("gpu", (Item("memory", "", 0.0, 1e5, 300), Item("product", "float32", 1e8, 1e6, 4)))


def test_a_small_step_takes_the_same_time_on_every_gpu():
    slow, fast = (forecast_step(SMALL, SHEET[name], host=(0.01, 0.2)) for name in ("T4", "H100 SXM"))
    assert slow.seconds == pytest.approx(fast.seconds, rel=0.05)
    assert slow.seconds == pytest.approx(0.01, rel=0.1)
    assert slow.high / slow.low < 2.2
    assert "the host decides" in slow.note


def test_a_chip_with_more_matrix_units_than_its_power_feeds_gets_less_of_its_peak():
    """The B200 has 2.3 times the H100's peak with 1.4 times its power, and no published times."""
    product = Work("gpu", (Item("product", "half", 1e13, 1e8, 200),), software="eager")
    h100, b200 = (forecast_step(product, SHEET[name]).parts["product half"] for name in ("H100 SXM", "B200 SXM"))
    assert 1.4 < h100 / b200 < 2.275


def test_parts_add_up_to_the_time_of_the_device():
    found = forecast_step(Work("gpu", (Item("product", "half", 1e13, 1e8, 200),)), SHEET["T4"])
    offset = math.log(found.device_time / sum(found.parts.values()))
    assert abs(offset) < 0.4


@pytest.mark.parametrize(("device", "name"), [("V100 SXM2", "product float32"), ("A100 SXM 80GB", "product tf32")])
def test_float32_products_take_the_exact_units_where_a_device_has_no_tf32(device, name):
    product = Work("gpu", (Item("product", "tf32", 1e13, 1e8, 20),))
    assert at_peaks(product, Peaks.of(SHEET[device])).keys() == {name, "bytes of product", "launch"}


def test_software_without_published_times_on_a_device_has_no_forecast():
    with pytest.raises(StudyError, match="no published times of xla on TPU: no forecast"):
        forecast_step(Work("tpu", SMALL.items), SHEET["TPU v5e"], constants={"xla": {}})


def test_a_chip_is_the_silicon_of_a_device():
    names = ("A100 PCIe 40GB", "V100 SXM2 32GB", "RTX 4090", "H200 SXM", "RTX 6000 Pro Workstation", "TPU v5e")
    assert [chip_of(name) for name in names] == ["A100", "V100", "RTX 4090", "H100", "RTX 6000 Pro", "TPU v5e"]

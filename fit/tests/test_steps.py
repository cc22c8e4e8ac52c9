"""Published steps of TPUs and GPUs, and decisions between kinds, as the fit reads them."""

import pytest
from fit.kinds import System, comparisons
from fit.steps import GRADIENT, Step, read_programs, read_steps, work_of

from whichdevice.base.sheets.hardware import hardware_rows


def step(device="TPU v3", chips=16, batch=512.0, program="resnet", question="a table", seconds=0.1):
    return Step("a source", question, program, device, chips, batch, 1e3 * seconds)


def test_every_step_has_a_source_a_device_of_the_sheet_and_a_program():
    steps, sheet = read_steps(), hardware_rows()
    assert sum(one.is_evidence for one in steps) >= 65 and len({one.source_group for one in steps}) >= 8
    assert {one.device for one in steps} <= set(sheet)
    assert all(one.work.operations > 0 for one in steps)


def test_an_old_tpus_chip_is_two_devices_that_share_the_batch_and_exchange_gradients():
    v3, v4 = step("TPU v3"), step("TPU v4")
    assert (v3.devices, v4.devices) == (32, 16)
    assert v4.work.operations == pytest.approx(2 * v3.work.operations, rel=0.01)
    (gradients,) = (item for item in v3.work.items if item.kind == "collective")
    assert gradients.devices == 32 and gradients.bytes == GRADIENT * read_programs()["resnet"]["parameters"]
    assert not [item for item in step(chips=1, device="TPU v4").work.items if item.kind == "collective"]


@pytest.mark.parametrize("batch", [16, 32, 80, 128, 512])
def test_the_work_of_a_batch_is_so_many_times_that_of_an_example(batch):
    example = work_of("resnet", "tpu", 128, 1).operations / 128
    assert work_of("resnet", "tpu", batch, 1).operations == pytest.approx(batch * example, rel=0.02)


def test_a_comparison_has_both_kinds_and_systems_of_similar_size():
    steps = [
        step("TPU v3", 16, seconds=1.0), step("V100 SXM2", 8, seconds=3.0), step("V100 SXM2", 16, seconds=2.0),
        step("TPU v3", 512, seconds=0.1), step("V100 SXM2", 8, seconds=1.0, question="no TPU"),
    ]  # fmt: skip
    (chosen,) = comparisons([System(each, {}) for each in steps])
    assert [one.step for one in chosen] == steps[:3]

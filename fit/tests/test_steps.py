"""Published steps of TPUs and GPUs, and decisions between kinds, as the fit reads them."""

from dataclasses import replace

import pytest
from fit.kinds import System, comparisons, figures, led, pairs, picks
from fit.steps import GRADIENT, Step, read_programs, read_steps, work_of

from whichdevice.base.sheets.hardware import hardware_rows


def step(device="TPU v3", chips=16, batch=512.0, program="resnet", question="a table", seconds=0.1):
    return Step("a source", question, program, "", device, chips, batch, seconds)


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


def system(device, chips, seconds, forecast, usd=None, question="a table"):
    known = step(device, chips, question=question, seconds=seconds)
    return System(known, seconds, forecast, 0.05, 0.05, "xla", peak=chips * 1e12, usd_per_hour=usd)


def test_a_comparison_has_both_kinds_and_systems_of_similar_size():
    every = [
        system("TPU v3", 16, 1.0, 1.0), system("V100 SXM2", 8, 3.0, 3.0), system("V100 SXM2", 16, 2.0, 2.0),
        system("TPU v3", 512, 0.1, 0.1), system("V100 SXM2", 8, 1.0, 1.0, question="no TPU"),
    ]  # fmt: skip
    (chosen,) = comparisons(every)
    assert {(one.step.device, one.step.chips) for one in chosen} == {
        ("TPU v3", 16),
        ("V100 SXM2", 8),
        ("V100 SXM2", 16),
    }


def test_a_pick_is_scored_by_published_times_and_costs_and_stands_next_to_the_naive_one():
    fast, cheap = system("TPU v3", 16, 1.0, 1.0, usd=30.0), system("V100 SXM2", 8, 2.0, 1.9, usd=6.0)
    (by_time,), (by_cost,) = (picks([(fast, cheap)], by) for by in ("time", "cost"))
    assert by_time.regret == by_cost.regret == 0 and by_time.best == fast.name and by_cost.best == cheap.name
    wrong = picks([(system("TPU v3", 16, 1.0, 4.0), cheap)], "time")
    assert wrong[0].regret == pytest.approx(1.0) and not wrong[0].kind_right and wrong[0].naive == 0
    assert figures([*wrong, by_time])["right"] == 0.5


def test_a_pair_is_a_gpu_system_beside_a_tpu_system():
    compared = [system("TPU v3", 16, 1.0, 1.0), system("V100 SXM2", 8, 3.0, 3.0), system("V100 SXM2", 16, 2.0, 2.0)]
    found = pairs([compared, compared])
    assert len(found) == 2 and all(one.step.is_tpu and not other.step.is_tpu for one, other in found)


def test_a_submission_on_gpus_has_the_lead_over_xla_of_other_models():
    def system_of(program, device, forecast, source="mlperf 9"):
        known = replace(step(device, 8, program=program, seconds=1.0), source_group=source)
        return System(known, 1.0, forecast, 0.05, 0.05, "xla", peak=1.0, usd_per_hour=1.0)

    every = [
        system_of("resnet", "V100 SXM2", 2.0), system_of("ssd", "V100 SXM2", 8.0), system_of("ssd", "V100 SXM2", 2.0),
        system_of("bert", "TPU v3", 3.0), system_of("resnet", "V100 SXM2", 5.0, "a table"),
    ]  # fmt: skip
    resnet, ssd, _, tpu, other = led(every)
    assert resnet.forecast == pytest.approx(2.0 / 4) and ssd.forecast == pytest.approx(8.0 / 2)
    assert (tpu.forecast, other.forecast) == (3.0, 5.0)

"""The model on small programs whose answer is known: recorded texts, see small_programs.py."""

import re

import pytest
from forecast.small_programs import MEBI, device, modelled, program, text

from whichdevice.forecast.device_time import device_time
from whichdevice.forecast.hlo import parse_program
from whichdevice.forecast.targets import TOPOLOGIES, device_of

PRODUCT = 2 * 4096**3


def cycles(name: str, topology: str) -> list[int]:
    return [int(each) for each in re.findall(r'estimated_cycles":"(\d+)', text(name, topology))]


@pytest.mark.parametrize("topology", ["v2-2x2", "v4-2x2x1", "v5e-1x1"])
def test_a_product_takes_its_operations_over_the_peak_and_a_little_more_by_cycles(topology):
    found = modelled("matmul", topology)
    assert found.low == pytest.approx(PRODUCT / device(topology).peak)
    assert found.low < found.high < 1.3 * found.low
    assert found.at_low.flops == PRODUCT


def test_float32_products_take_six_passes_of_the_bfloat16_units():
    found, one = modelled("matmul_float32", "v3-2x2"), device("v3-2x2")
    assert found.low == pytest.approx(6 * 2 * 2048**3 / one.peak)
    assert found.low < found.high < 1.1 * found.low
    assert found.at_low.flops == 2 * 2048**3  # the passes are no work of the program


def test_an_addition_takes_its_bytes_over_the_bandwidth_and_its_cycles_over_the_clock():
    found, one = modelled("large_add", "v3-2x2"), device("v3-2x2")
    assert found.low == pytest.approx(3 * 4 * 16 * MEBI / one.bandwidth)
    assert found.high == pytest.approx(cycles("large_add", "v3-2x2")[0] / one.clock)
    assert found.timed_share == 1


def test_a_gather_counts_the_rows_that_it_reads_and_not_the_table():
    found, one = modelled("gather", "v2-2x2"), device("v2-2x2")
    rows, index = 4096 * 512 * 4, 4096 * 4
    assert found.low == pytest.approx((2 * rows + 3 * index) / one.bandwidth)  # the index is clamped first
    assert found.timed_share < 0.01
    assert found.high is None  # gathers carry no cycles


def test_a_table_that_the_compiler_fetches_whole_counts_whole():
    found, one = modelled("gather", "v5e-1x1"), device("v5e-1x1")
    table, rows, index = 32768 * 512 * 4, 4096 * 512 * 4, 4096 * 4
    assert found.low == pytest.approx((table + rows + index) / one.bandwidth)


def test_backward_pooling_has_a_low_end_only():
    found, one = modelled("pooling_backward", "v2-2x2"), device("v2-2x2")
    large = 256 * 32 * 32 * 64 * 4
    assert found.low == pytest.approx((2 * large + large / 4) / one.bandwidth)
    assert found.high is None
    assert found.at_low.categories["pooling backward"] == pytest.approx(found.low)


def test_nested_loops_multiply():
    found, one = modelled("nested_loops", "v5e-1x1"), device("v5e-1x1")
    assert found.at_low.flops == 7 * 5 * 2 * 512**3
    inner = max(cycles("nested_loops", "v5e-1x1"))  # the product's
    assert found.at_high.categories["products"] == pytest.approx(35 * inner / one.clock)
    assert found.unknown_loops == 0


def test_a_reversed_scan_moves_slices_and_not_the_stack_in_each_step():
    found, one = modelled("reversed_scan", "v2-2x2"), device("v2-2x2")
    step = 5 * 4 * MEBI  # a slice read and written; the carry read twice and written
    assert found.low == pytest.approx((64 * step + 256 * MEBI + 2 * 4 * MEBI) / one.bandwidth, rel=1e-4)


def test_a_loop_of_unknown_length_counts_once_and_takes_the_high_end_away():
    found = modelled("unknown_loop", "v5e-1x1")
    assert found.unknown_loops == 1
    assert found.at_low.flops == 2 * 1024**3
    assert found.high is None


def test_a_conditional_takes_its_longest_branch():
    found = modelled("conditional", "v5e-1x1")
    assert found.at_low.flops == 3 * 2 * 1024**3
    assert found.high is not None


@pytest.mark.parametrize(("topology", "devices"), [("v2-2x2", 8), ("v5e-2x2", 4)])
def test_an_all_reduce_takes_the_ring_formula_at_the_high_end(topology, devices):
    found, one = modelled("all_reduce", topology), device(topology)
    nbytes = 1024 * 1024 * 4
    assert dict(found.at_high.collectives) == {"all-reduce": 1}
    assert dict(found.at_high.collective_bytes) == {"all-reduce": nbytes}
    ring = 2 * (devices - 1) / devices * nbytes / one.link
    assert found.at_high.categories["collectives"] == pytest.approx(ring)
    assert found.at_low.categories["collectives"] < ring / 4


def test_a_batched_product_counts_no_place_between_its_matrices():
    assert modelled("batched_matmul", "v5e-1x1").at_low.flops == 16 * 2 * 512 * 256 * 128


def test_cycles_on_less_than_95_per_cent_of_the_bytes_take_the_high_end_away():
    half = text("large_add", "v3-2x2")
    second = "\n  %add.3 = f32[16777216]{0:T(1024)} add(%param, %param)\n  ROOT"
    without = half.replace("\n  ROOT", second, 1)
    found = device_time(parse_program(without), device("v3-2x2"))
    assert found.timed_share == pytest.approx(3 / 5)
    assert found.high is None


def test_what_a_prefetch_takes_beyond_the_work_beside_it_is_waited_for():
    """The product of v5e reads through on-chip memory: both ends contain the bytes, hidden or not."""
    found, one = modelled("matmul", "v5e-1x1"), device("v5e-1x1")
    waited = found.at_high.seconds - found.at_high.categories["products"]
    assert 0 < waited < found.at_high.busy
    assert found.at_high.busy == pytest.approx(found.at_high.hbm_bytes / one.bandwidth)


def test_low_is_never_above_high_and_never_below_the_bytes():
    for path, topology in (("nested_loops", "v5e-1x1"), ("conditional", "v5e-1x1"), ("reversed_scan", "v2-2x2")):
        found = modelled(path, topology)
        assert found.low <= found.high
        assert found.low >= found.at_low.busy


def test_every_slice_has_a_device():
    for topology in TOPOLOGIES.values():
        one = device_of(topology.chip)
        assert min(one.peak, one.bandwidth, one.memory, one.clock, one.link) > 0


def test_a_program_has_as_many_partitions_as_its_slice_has_devices():
    assert program("all_reduce", "v2-2x2").partitions == TOPOLOGIES["v2-2x2"].devices

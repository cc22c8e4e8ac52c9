"""Bytes of a collective are those of its larger side, be it written as one instruction or as start and done."""

import pytest
from forecast.small_programs import device

from whichdevice.forecast.device_time import Elapsed, device_time
from whichdevice.forecast.hlo import parse_program

PART, WHOLE = "f32[1024,1024]{1,0:T(8,128)}", "f32[8192,1024]{1,0:T(8,128)}"
PART_BYTES, WHOLE_BYTES = 1024 * 1024 * 4, 8192 * 1024 * 4
FLAGS = "u32[]{:S(2)}, u32[]{:S(2)}"  # bookkeeping
GROUP = "channel_id=1, replica_groups={{0,1,2,3,4,5,6,7}}, use_global_device_ids=true"
RING = "channel_id=1, source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}"
DIMENSION = f"{GROUP}, dimensions={{0}}"

# Kind, operand, result, attributes, and the result that the text gives to the start.
STARTED = [
    ("all-gather", PART, WHOLE, DIMENSION, f"({PART}, {WHOLE})"),
    ("all-gather", PART, WHOLE, DIMENSION, f"(({PART}), ({WHOLE}), {FLAGS})"),
    ("reduce-scatter", WHOLE, PART, DIMENSION, f"(({WHOLE}), {PART}, {FLAGS})"),
    ("all-reduce", WHOLE, WHOLE, GROUP, WHOLE),
    ("collective-permute", PART, PART, RING, f"({PART}, {PART}, {FLAGS})"),
]


def at_high(operand: str, lines: str) -> Elapsed:
    text = (
        "HloModule m, is_scheduled=true, num_partitions=8\n\n"
        f"ENTRY %m (p: f32[8]) -> f32[8] {{\n  %p = {operand} parameter(0)\n{lines}}}\n"
    )
    return device_time(parse_program(text), device("v6e-2x4")).at_high


def at_once(kind: str, operand: str, result: str, attributes: str) -> Elapsed:
    return at_high(operand, f"  ROOT %c = {result} {kind}(%p), {attributes}\n")


def started(kind: str, operand: str, result: str, attributes: str, made: str) -> Elapsed:
    start = f"  %s = {made} {kind}-start(%p), {attributes}\n"
    return at_high(operand, f"{start}  ROOT %d = {result} {kind}-done(%s)\n")


@pytest.mark.parametrize(("kind", "operand", "result", "attributes", "made"), STARTED)
def test_a_collective_in_two_parts_is_the_same_as_in_one(kind, operand, result, attributes, made):
    one, two = at_once(kind, operand, result, attributes), started(kind, operand, result, attributes, made)
    assert two.collectives == one.collectives == {kind: 1}
    assert two.collective_bytes == one.collective_bytes
    assert two.hbm_bytes == one.hbm_bytes
    assert two.seconds == one.seconds


def test_a_started_gather_moves_the_whole_array_and_not_one_device_s_part():
    found = started(*STARTED[0])
    assert found.collective_bytes == {"all-gather": WHOLE_BYTES}
    assert found.hbm_bytes == PART_BYTES + WHOLE_BYTES
    assert found.categories["collectives"] == pytest.approx(7 / 8 * WHOLE_BYTES / device("v6e-2x4").link)


def test_a_started_permutation_reads_its_operand_once():
    assert started(*STARTED[-1]).hbm_bytes == 2 * PART_BYTES

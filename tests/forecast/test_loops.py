"""Trip counts from counters, whichever way they run."""

import pytest

from whichdevice.forecast.xla.hlo_text import constants_of, parse_program, trip_count

LOOP = """HloModule loop, is_scheduled=true, num_partitions=1

%body (p: (s32[], s32[], f32[8])) -> (s32[], s32[], f32[8]) {{
  %p = (s32[]{{}}, s32[]{{}}, f32[8]{{0}}) parameter(0)
  %i = s32[]{{}} get-tuple-element(%p), index=0
  %k = s32[]{{}} get-tuple-element(%p), index=1
  %x = f32[8]{{0}} get-tuple-element(%p), index=2
  %step = s32[]{{}} constant({step})
  %next = s32[]{{}} {operation}(%i, %step)
  ROOT %t = (s32[]{{}}, s32[]{{}}, f32[8]{{0}}) tuple(%next, %k, %x)
}}

%condition (q: (s32[], s32[], f32[8])) -> pred[] {{
  %q = (s32[]{{}}, s32[]{{}}, f32[8]{{0}}) parameter(0)
  %j = s32[]{{}} get-tuple-element(%q), index=0
  %limit = s32[]{{}} get-tuple-element(%q), index=1
  ROOT %c = pred[]{{:T(512)}} compare(%j, %limit), direction={direction}
}}

ENTRY %main (a: f32[8]) -> f32[8] {{
  %a = f32[8]{{0}} parameter(0)
  %start = s32[]{{}} constant({start})
  %end = s32[]{{}} constant({end})
  %copied = s32[]{{}} copy(%start)
  %tuple = (s32[]{{}}, s32[]{{}}, f32[8]{{0}}) tuple(%copied, %end, %a)
  %while = (s32[]{{}}, s32[]{{}}, f32[8]{{0}}) while(%tuple), condition=%condition, body=%body{stated}
  ROOT %r = f32[8]{{0}} get-tuple-element(%while), index=2
}}
"""


def counted(start: int, end: int, step: int, operation: str = "add", direction: str = "LT", stated: str = ""):
    values = {"start": start, "end": end, "step": step, "operation": operation, "direction": direction}
    program = parse_program(LOOP.format(**values, stated=stated))
    loop = program.entry.instructions["while"]
    return trip_count(loop, program.entry, program, {}), constants_of(loop, program.entry, program, {})


@pytest.mark.parametrize(
    ("arguments", "trips"),
    [
        ((0, 10, 1), 10),
        ((0, 10, 3), 4),
        ((0, 10, 3, "add", "LE"), 4),
        ((9, 0, 1, "subtract", "GE"), 10),
        ((9, -1, -1, "add", "GT"), 10),
        ((1, 64, 2, "multiply"), 6),
        ((5, 5, 1), 0),
        ((0, 10, 1, "add", "NE"), 10),
    ],
)
def test_counters_run_up_down_and_in_steps(arguments, trips):
    assert counted(*arguments)[0] == trips


def test_a_loop_that_never_ends_is_unknown():
    assert counted(0, 10, 0)[0] is None


def test_what_the_compiler_states_is_taken():
    stated = ', backend_config={"known_trip_count":{"n":"17"}}'
    assert counted(0, 10, 1, stated=stated)[0] == 17


def test_what_the_body_hands_on_is_a_constant_within_it():
    assert counted(0, 10, 1)[1] == {1: 10}


def test_a_counter_that_outgrows_every_integer_is_unknown():
    assert counted(3, -1, 3, "multiply", "NE")[0] is None


def test_values_made_of_each_other_twice_are_given_up():
    doubled = "\n".join(f"  %d{n} = s32[] add(%d{n - 1}, %d{n - 1})" for n in range(1, 150))
    text = LOOP.format(start=0, end=10, step=0, operation="add", direction="NE", stated="")
    text = text.replace(
        "%next = s32[]{} add(%i, %step)", f"%d0 = s32[] constant(0)\n{doubled}\n  %next = s32[] add(%i, %d149)"
    )
    program = parse_program(text)
    assert "d149" in program.computation("body").instructions
    assert trip_count(program.entry.instructions["while"], program.entry, program, {}) is None

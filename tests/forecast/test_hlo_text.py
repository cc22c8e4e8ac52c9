"""The reader of scheduled programs: what it finds, and that no text makes it crash or hang."""

import pytest
from forecast.small_programs import program, text

from whichdevice.base.errors import StudyError
from whichdevice.forecast.xla.hlo_operations import read_work
from whichdevice.forecast.xla.hlo_text import parse_program, shapes_in


def test_a_shape_has_its_sizes_its_bytes_and_its_memory():
    (shape,) = shapes_in("bf16[128,500]{1,0:S(5)}")
    assert (shape.dtype, shape.dims, shape.space) == ("bf16", (128, 500), 5)
    assert shape.nbytes == 128 * 500 * 2


def test_an_array_without_a_mark_lies_in_hbm():
    assert [shape.space for shape in shapes_in("(f32[2]{0}, s32[]{:S(5)})")] == [0, 5]


def test_an_unknown_element_type_is_an_error():
    with pytest.raises(StudyError, match="element type q7"):
        shapes_in("q7[3]{0}")


def test_instructions_come_in_the_order_in_which_they_run():
    entry = program("all_reduce-A100").entry
    opcodes = [instruction.opcode for instruction in entry.instructions.values()]
    assert opcodes.index("all-reduce-start") > opcodes.index("fusion")
    assert entry.root.opcode == "all-reduce-done"


def test_a_pallas_kernel_s_attributes_go_over_several_lines_and_end_nothing():
    kernel = (
        '  %k = f32[8]{0} custom-call(%p), custom_call_target="any", frontend_attributes={kernel_metadata={\n'
        '"xprof_metadata":"{\\"block\\": 2048}"\n'
        '}}, metadata={op_name="x"}, backend_config={"a":"77"}\n'
    )
    entry = parse_program(
        "HloModule m, is_scheduled=true\n\nENTRY %m (p: f32[8]) -> f32[8] {\n"
        f"  %p = f32[8]{{0}} parameter(0)\n{kernel}  ROOT %r = f32[8]{{0}} copy(%k)\n}}\n"
    ).entry
    assert list(entry.instructions) == ["p", "k", "r"]
    assert entry.instructions["k"].config == '{"a":"77"}'


def test_branches_and_loops_name_what_they_call():
    def called(name: str, opcode: str) -> set[str]:
        entry = program(f"{name}-A100").entry
        return next(set(each.called) for each in entry.instructions.values() if each.opcode == opcode)

    assert called("conditional", "conditional") == {"branch 0", "branch 1"}
    assert called("nested_loops", "while") == {"body", "condition"}


@pytest.mark.parametrize(
    "garbage",
    [
        "",
        "HloModule x",
        "ENTRY %main (a: f32[2]) -> f32[2] {\n}",
        "HloModule a, is_scheduled=true\n\nENTRY %m () -> f32[] {\n",
    ],
)
def test_anything_else_is_an_error_of_one_line(garbage):
    with pytest.raises(StudyError, match=r"^compiled program: [^\n]*$"):
        parse_program(garbage)


def test_a_computation_that_calls_itself_is_refused():
    endless = text("nested_loops-A100")
    body = next(line for line in endless.splitlines() if " while(" in line).split("body=%")[1].split(",")[0]
    other = [line for line in endless.splitlines() if " while(" in line][1].split("body=%")[1].split(",")[0]
    with pytest.raises(StudyError, match="calls itself"):
        read_work(endless.replace(f"body=%{body}", f"body=%{other}"), "gpu")

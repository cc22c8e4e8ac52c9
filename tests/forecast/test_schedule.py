"""The program that a forecast reads is scheduled as in a whole compile, whose kernels are left out."""

import subprocess
import sys
from pathlib import Path

import pytest
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.xla.compile import compile_programs
from whichdevice.forecast.xla.device_memory import MemoryNeed
from whichdevice.forecast.xla.schedule import memory_of

ODD = str(Path(__file__).with_name("odd_sizes.py"))
SAMPLED = {"Quadro RTX 8000": ["mixed_float16"], "A100 SXM 80GB": ["float32", "mixed_bfloat16"]}
TINY = Path(__file__).with_name("tiny_model.py")
BUFFERS = """BufferAssignment:
allocation 0: size 400, parameter 1, shape |f32[100]| at ShapeIndex {}, maybe-live-out:
 value: <7 p.1 @0> (size=400,offset=0): f32[100]{0}
allocation 1: size 80, parameter 0, shape |f32[20]| at ShapeIndex {}:
allocation 2: size 16, output shape is |(f32[100], f32[])|, maybe-live-out:
allocation 3: size 4, constant:
allocation 4: size 4, maybe-live-out:
allocation 5: size 1000, preallocated-temp:
 value: <9 fusion @0> (size=1000,offset=0): f32[250]{0}
"""
COMPARED = """
if __name__ == "__main__":
    from whichdevice.forecast.xla.hlo_operations import read_work
    from whichdevice.forecast.xla.programs import compile_step, make_step, start
    from whichdevice.forecast.xla.schedule import Portable, schedule_step
    from whichdevice.forecast.targets import find_target
    start(["cuda"])
    for mode, devices in (("train", 1), ("predict", 1), ("train", 2)):
        target = find_target("A100 SXM 40GB", devices)
        step = make_step(MODEL, "gpu", "float32", 64, mode)
        for made in (
            compile_step(step, target, "float32", 64, mode),
            schedule_step(Portable.of(step), target, "float32", 64, mode),
        ):
            work, need = read_work(made.text, "gpu"), made.memory
            print(work.operations, work.kernels, need.arguments, need.outputs, need.aliased, work.bytes, need.temporary)
"""


def test_memory_is_the_sum_of_the_buffers_of_each_kind() -> None:
    assert memory_of(BUFFERS) == MemoryNeed(arguments=480, outputs=420, aliased=400, temporary=1000, code=4)


def test_a_list_of_buffers_in_another_form_is_refused() -> None:
    with pytest.raises(StudyError, match="list of buffers"):
        memory_of("BufferAssignment:\nbuffer 0: 400 bytes\n")


@pytest.mark.slow
def test_a_scheduled_program_is_the_compiled_one(tmp_path: Path) -> None:
    require("gpu compiler")
    script = tmp_path / "compared.py"
    script.write_text(f"MODEL = {str(TINY)!r}\n{COMPARED}", encoding="utf-8")
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=True, timeout=120)
    lines = [list(map(float, line.split())) for line in ran.stdout.splitlines()]
    assert len(lines) == 6
    for compiled, scheduled in zip(lines[::2], lines[1::2], strict=True):
        assert scheduled[:5] == compiled[:5]
        assert scheduled[5:] == pytest.approx(compiled[5:], rel=1e-3, abs=1024)


# Lengths at which XLA's own search for tiles ends without `GPU_FLAGS`; one card for each way to compile products.
@pytest.mark.slow
@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.long)])
def test_products_of_awkward_sizes_compile_in_every_number_format(
    every: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    require("gpu compiler")
    monkeypatch.chdir(tmp_path)
    asked = [(device, precision) for device, formats in SAMPLED.items() for precision in formats]
    requests = [
        ProgramRequest(
            device=device, workload="odd", module=ODD, precision=precision, batch_size=64, options={"every": every}
        )
        for device, precision in asked
    ]
    reasons = {(each.asked.device, each.asked.precision): each.reason for each in compile_programs(requests)}
    assert reasons == dict.fromkeys(asked)

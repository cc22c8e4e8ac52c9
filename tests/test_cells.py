"""A run's path names it, and reads back as the same run; the calls that a report names make what they say."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whichdevice.base.errors import StudyError
from whichdevice.study.cells import Cell, Run, make_tables, parse_run, repeat_failed, selected, workflow_command
from whichdevice.study.config.model import Call, Data, Measure, Only, Study

names = st.from_regex(r"\A[A-Za-z0-9][A-Za-z0-9_.]{0,20}\Z")
cells = st.builds(
    Cell,
    device=names,
    workload=names,
    backend=st.sampled_from(["tensorflow", "jax", "torch"]),
    precision=st.sampled_from(["float32", "mixed_bfloat16"]),
    batch_size=st.integers(1, 10**6),
    fraction=st.floats(0.001, 1.0),
    sequence_length=st.none() | st.integers(1, 10**5),
)


@given(cells, st.integers(1, 99))
def test_every_run_reads_back_from_its_path(cell, repeat):
    assert parse_run(Run(cell, repeat).path) == Run(cell, repeat)


@pytest.mark.parametrize(
    "path",
    [
        "", "r1", "cpu/x/tensorflow-float32-b0x/r1", "cpu/x/tensorflow-float32-b8/r0",
        "cpu/x/tf-float32-b8-colour=red/r1", "cpu/x/tf-float32-b8-loop=fit/r1", "cpu/x/tf-float32-b8-fraction=red/r1",
        "cpu/x/tf-float32-b8-sequence_length=1.5/r1", f"cpu/x/tf-float32-b{'8' * 5000}/r1",
        f"cpu/x/tf-float32-b8/r{'1' * 5000}",
    ],
)  # fmt: skip
def test_anything_else_is_one_line(path):
    with pytest.raises(StudyError, match="not a run"):
        parse_run(path)


def test_only_narrows_by_every_axis_it_names():
    run = Run(Cell("cpu", "mnist_cnn", "tensorflow", "float32", 512), 2)
    assert selected(run, Only())
    assert selected(run, Only(workload=["mnist_cnn", "matmul"], batch_size=512))
    assert not selected(run, Only(workload="mnist_cnn", batch_size=256))
    assert not selected(run, Only(repeat=1))


def test_the_study_that_ships_needs_no_config(working_folder: Path) -> None:
    assert workflow_command(Study(), "gpu") == "whichdevice study gpu"
    found = Data(sources={"mnist": "standin"})
    assert workflow_command(Study(data=found)) == "whichdevice study all"
    assert workflow_command(Call(retry="failed")) == "whichdevice study all"


def test_a_study_with_merged_records_is_named_too(working_folder: Path) -> None:
    """The config that ships names no source of them."""
    Path("results/quick/merged").mkdir(parents=True)
    assert workflow_command(Study(), "gpu") == "whichdevice study gpu --configfile results/quick/config.yaml"


def test_tables_are_made_of_their_own_study(working_folder: Path) -> None:
    folder = Path("results/try/tables")
    assert make_tables(folder) == "whichdevice study tables"
    folder.mkdir(parents=True)
    (folder.parent / "config.yaml").touch()
    assert make_tables(folder) == "whichdevice study tables --configfile results/try/config.yaml"


def test_any_other_study_is_named_by_its_own_config(working_folder: Path) -> None:
    assert workflow_command(Study(study="try"), "cpu") == "whichdevice study cpu --configfile results/try/config.yaml"
    own = "--configfile results/quick/config.yaml"
    assert workflow_command(Study(measure=Measure(seconds=5))) == f"whichdevice study all {own}"
    assert repeat_failed(Study(seed=2)) == (f"whichdevice study all {own} --config retry=failed -- --forcerun measure")

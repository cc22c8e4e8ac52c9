"""The calls that a report names make what they say."""

from pathlib import Path

from whichdevice.study.config.model import Call, Data, Measure, Study
from whichdevice.study.study_cells import make_tables, repeat_failed, workflow_command


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

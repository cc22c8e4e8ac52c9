"""Tables as Parquet with types and meanings, and one line for what is wrong."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.__main__ import main
from whichdevice.study.tables import runs
from whichdevice.study.tables.base import read_table, table, write_table
from whichdevice.study.tables.make import collect


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A small study with one table."""
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    write_table(table(collect(study, paths)[0], runs.RUN_COLUMNS), tmp_path / "tables/runs.csv")
    return tmp_path


def test_parquet_holds_the_same_table_and_what_its_columns_mean(results: Path) -> None:
    assert main(["export", "--parquet", str(results)]) == 0
    found = pd.read_parquet(results / "parquet/runs.parquet")
    expected = read_table(results / "tables/runs.csv", runs.RUN_COLUMNS)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert found["batch_size"].dtype == "Int64"
    assert found.attrs["step_time"] == "s, seconds / steps"


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["RESULTS"], "export: as what? --parquet"),
        (["--parquet", "gone"], "export: no folder gone; name a study's results, e.g. results/quick"),
        (["--parquet", "RESULTS/runs"], "no tables in RESULTS/runs/tables; make them: whichdevice study tables"),
    ],
)
def test_what_is_wrong_is_one_line(
    results: Path, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *(argument.replace("RESULTS", str(results)) for argument in arguments)]) == 2
    assert capsys.readouterr().err == line.replace("RESULTS", str(results)) + "\n"


def test_without_pyarrow_the_line_says_what_to_install(results: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("whichdevice.study.tables.make.find_spec", lambda name: None)
    assert main(["export", "--parquet", str(results)]) == 2
    assert "pip install pyarrow" in capsys.readouterr().err

"""Tables as Parquet with types and meanings, records as MLPerf lines, and one line for what is wrong."""

import errno
import json
from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.__main__ import main
from whichdevice.records.store import write_record
from whichdevice.study_runs import study_runs
from whichdevice.tables import runs
from whichdevice.tables.collect import collect
from whichdevice.tables.columns import read_table, table, write_table


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """A small study with one table."""
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    write_table(table(collect(study, paths)[0], runs.COLUMNS), tmp_path / "tables/runs.csv")
    return tmp_path


def test_parquet_holds_the_same_table_and_what_its_columns_mean(results: Path) -> None:
    pytest.importorskip("pyarrow")
    assert main(["export", "--parquet", str(results)]) == 0
    found = pd.read_parquet(results / "parquet/runs.parquet")
    expected = read_table(results / "tables/runs.csv", runs.COLUMNS)
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)
    assert found["batch_size"].dtype == "Int64"
    assert found.attrs["step_time"] == "s, seconds / steps"


def test_each_record_is_a_log(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "--mlperf", str(results)]) == 0
    assert capsys.readouterr().out == f"8 records: {results}/mlperf\n"
    text = (results / "mlperf/cpu/mnist_cnn/tensorflow-float32-b256/r1.log").read_text("utf-8")
    assert text.startswith(":::MLLOG {") and text.endswith("}\n")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["RESULTS"], "export: as what? --parquet, --mlperf or both"),
        (["--mlperf", "gone"], "export: no folder gone; name a study's results, e.g. results/quick"),
        (["--mlperf", "RESULTS/tables"], "export: no record.json below RESULTS/tables"),
        (["--parquet", "RESULTS/runs"], "no tables in RESULTS/runs/tables; make them: snakemake --cores 1 tables"),
    ],
)
def test_what_is_wrong_is_one_line(
    results: Path, arguments: list[str], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", *(argument.replace("RESULTS", str(results)) for argument in arguments)]) == 2
    assert capsys.readouterr().err == line.replace("RESULTS", str(results)) + "\n"


def test_without_pyarrow_the_line_says_what_to_install(results: Path, monkeypatch, capsys) -> None:
    monkeypatch.setattr("whichdevice.tables.parquet.find_spec", lambda name: None)
    assert main(["export", "--parquet", str(results)]) == 2
    assert "pip install pyarrow" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["parquet", "mlperf"])
def test_a_folder_that_cannot_be_made_is_one_line(results: Path, option: str, capsys) -> None:
    pytest.importorskip("pyarrow")
    (results / option).touch()
    assert main(["export", f"--{option}", str(results)]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"{results}/{option}") and told.count("\n") == 1


def test_a_disk_that_is_full_is_one_line_and_a_whole_file_stays(results: Path, monkeypatch, capsys) -> None:
    pytest.importorskip("pyarrow")
    assert main(["export", "--parquet", str(results)]) == 0
    before = (results / "parquet/runs.parquet").read_bytes()

    def full(frame: pd.DataFrame, path: Path, **options: object) -> None:
        path.write_bytes(b"PAR1")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pd.DataFrame, "to_parquet", full)
    assert main(["export", "--parquet", str(results)]) == 2
    assert capsys.readouterr().err == "export: No space left on device\n"
    assert {path.name: path.read_bytes() for path in (results / "parquet").iterdir()} == {"runs.parquet": before}


def test_a_record_that_cannot_be_read_keeps_no_other_from_being_written(results: Path, capsys) -> None:
    cut = results / "runs/cpu/mnist_cnn/tensorflow-float32-b256/r1/record.json"
    cut.write_text("{", "utf-8")
    assert main(["export", "--mlperf", str(results)]) == 2
    told = capsys.readouterr().err
    assert told.startswith("export: 1 of 8 records left out, the others written: ") and told.count("\n") == 1
    assert len(list((results / "mlperf").rglob("*.log"))) == 7


@pytest.mark.parametrize("run", ["../../../../x", "ABSOLUTE/x", "cpu/mnist_cnn/tensorflow-float32-b256/r9"])
def test_a_record_that_names_another_place_writes_nothing_there(
    results: Path, run: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = results / "runs/cpu/mnist_cnn/tensorflow-float32-b256/r1/record.json"
    content = json.loads(path.read_text("utf-8"))
    path.write_text(json.dumps(content | {"run": run.replace("ABSOLUTE", str(results.parent))}), "utf-8")
    before = set(results.parent.rglob("*.log"))
    assert main(["export", "--mlperf", str(results)]) == 2
    assert "says that it is of another run than its path" in capsys.readouterr().err
    written = set(results.parent.rglob("*.log")) - before
    assert all(file.is_relative_to(results / "mlperf") for file in written)
    assert not (results / "mlperf/cpu/mnist_cnn/tensorflow-float32-b256/r9.log").exists()


def test_a_record_in_the_place_of_no_run_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    study = synthetic.small_study()
    record = synthetic.record_of(study, study_runs(study)[0])
    write_record(record.model_copy(update={"run": "../../x"}), tmp_path / "runs/record.json")
    assert main(["export", "--mlperf", str(tmp_path)]) == 2
    assert "is in the place of no run" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.log"))

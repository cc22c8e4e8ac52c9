"""Tables are found by their files and made from records, whatever these hold."""

import itertools
import re
from pathlib import Path

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.record import Record
from whichdevice.study import tables
from whichdevice.study.cells import Run
from whichdevice.study.claims import read_published
from whichdevice.study.config.model import Data, Device, Forecasting, Measure, Study, Train, Workload
from whichdevice.study.tables import table_about, table_names
from whichdevice.study.tables.base import Column, Sources, read_table, table, write_table
from whichdevice.study.tables.make import TABLES, collect, write_tables
from whichdevice.study.tables.runs import configured_runs

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


def test_a_row_for_every_configured_run_whatever_became_of_it(tmp_path: Path) -> None:
    study = synthetic.small_study()

    def change(run: Run, record: Record) -> Record | None:
        if run.cell.batch_size == 256 and run.repeat == 2:
            return synthetic.failed_record(study, run, reason="killed by signal 9")
        return record

    runs = synthetic.results(study, tmp_path, devices=["cpu"], change=change).runs
    assert runs["run"].tolist() == [run.path for run in configured_runs(study)]
    assert runs["status"].tolist() == [
        "ok",
        "ok",
        "not_measured",
        "not_measured",
        "failed",
        "ok",
        "not_measured",
        "not_measured",
    ]
    assert runs["reason"][4] == "killed by signal 9"
    assert set(runs["reason"][runs["device"] == "gpu"]) == {
        "no gpu on this host; run: whichdevice study gpu --configfile results/small/config.yaml"
    }


def test_a_cut_record_is_a_row_and_blocks_nothing(tmp_path: Path) -> None:
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu")})
    config, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    paths[1].write_bytes(paths[1].read_bytes()[:200])
    write_tables(config, paths, PUBLISHED, tmp_path / "tables")
    runs = read_table(tmp_path / "tables/runs.csv", TABLES["runs"])
    assert runs["status"].tolist() == ["ok", "unreadable", "ok", "ok"]
    assert "delete it to make it anew" in runs["reason"][1]
    assert runs["batch_size"][1] == 1024  # its path still tells which run it was


def test_a_control_character_in_a_reason_ends_no_row(tmp_path: Path) -> None:
    study, odds = synthetic.small_study(), itertools.cycle(["\r", "\n", "\x00", "\x1b", "\x85", "\u2028"])

    def change(run: Run, record: Record) -> Record:
        odd = next(odds)
        machine = record.machine.model_copy(update={"cpu": f"a{odd}cpu"})
        return record.model_copy(update={"status": "failed", "reason": f"first{odd}second", "machine": machine})

    runs = synthetic.results(study, tmp_path, change=change).runs
    assert runs["run"].tolist() == [run.path for run in configured_runs(study)]
    assert set(runs["reason"]) == {"first second"} and set(runs["cpu"]) == {"a cpu"}


def test_records_that_the_config_no_longer_names_are_kept(tmp_path: Path) -> None:
    wide, narrow = synthetic.small_study(), synthetic.small_study(workloads={"mnist_cnn": Workload(batch_size=[256])})
    _, paths = synthetic.write_study(wide, tmp_path, devices=["cpu"], artefacts=False)
    rows, *_ = collect(narrow, paths)
    assert [row["batch_size"] for row in rows] == [256, 256, 256, 256, 1024, 1024]


def test_a_workload_whose_file_is_gone_stops_nothing(tmp_path: Path) -> None:
    own = tmp_path / "own.py"
    study = synthetic.small_study(workloads={"own": Workload(module=str(own)), "mnist_cnn": Workload(batch_size=[256])})
    rows, *_ = collect(study, [])
    assert {row["workload"] for row in rows} == {"mnist_cnn"}


def test_text_that_looks_like_nothing_survives_the_file(tmp_path: Path) -> None:
    columns = {
        "device": Column("text", ""),
        "n": Column("int", ""),
        "x": Column("float", ""),
        "flag": Column("flag", ""),
    }
    frame = table([{"device": "NA", "n": 3, "x": 1 / 3, "flag": True}, {"device": "01"}], columns)
    write_table(frame, tmp_path / "t.csv")
    assert (tmp_path / "t.csv").read_text("utf-8").splitlines()[1] == "NA,3,0.333333,True"
    back = read_table(tmp_path / "t.csv", columns)
    assert back["device"].tolist() == ["NA", "01"]
    assert (back["n"].isna().tolist(), back["flag"].isna().tolist()) == ([False, True], [False, True])


def test_tables_follow_the_keys_that_their_rule_names_and_no_other(tmp_path: Path) -> None:
    rule = (PUBLISHED.parents[1] / "rules/report.smk").read_text(encoding="utf-8").partition("rule tables:")[2]
    named = set(re.findall(r'"([\w.]+)"', rule.partition("**asked(")[2].partition(")")[0]))
    study = synthetic.small_study()
    edits = {
        "data": Data(source="files"),
        "train": Train(epochs=9, seconds=1),
        "forecast": Forecasting(devices=[]),
        "measure": Measure(repeats=study.measure.repeats, seconds=9, min_steps=9, timeout=9),
    }
    assert {*edits, *(name.partition(".")[0] for name in named), "study"} == {*Study.model_fields}
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    here, there = (
        Sources(each, *collect(each, paths), read_published(PUBLISHED), [], hardware_rows())
        for each in (study, study.model_copy(update=edits))
    )
    assert all(here.table(name).equals(there.table(name)) for name in TABLES)


def test_a_new_file_is_a_new_table_or_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = [
        f'@makes("what each {name}", COLUMNS)\ndef make_{name}(sources):\n    pass\n' for name in ("hopes", "fears")
    ]
    (tmp_path / "moods.py").write_text("\n\n".join(declared), encoding="utf-8")
    (tmp_path / "helpers.py").write_text('"""Table `nothing`: what tables share."""\n', encoding="utf-8")
    monkeypatch.setattr(tables, "TABLES_FOLDER", tmp_path)
    assert [(name, table_about(name)) for name in table_names()] == [
        ("fears", "what each fears"),
        ("hopes", "what each hopes"),
    ]


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(StudyError, match="no table 'nonsense'; tables are "):
        table_about("nonsense")

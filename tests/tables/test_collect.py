"""Many records are read by several processes, and give the rows that one process gives."""

import os
from pathlib import Path

import pytest
import synthetic

from whichdevice.errors import StudyError
from whichdevice.tables import make as collecting
from whichdevice.tables.make import collect


@pytest.fixture
def few_are_many(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several processes for any two records, one record at a time."""
    monkeypatch.setattr(collecting, "FEW", 2)
    monkeypatch.setattr(collecting, "AT_ONCE", 1)
    monkeypatch.setattr(collecting, "usable_cores", lambda: 2)


@pytest.mark.usefixtures("few_are_many")
def test_two_processes_give_the_rows_of_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    paths[1].write_bytes(paths[1].read_bytes()[:200])
    together = collect(study, paths[::-1])
    monkeypatch.setattr(collecting, "usable_cores", lambda: 1)
    alone = collect(study, paths)
    assert together == alone
    assert [row["status"] for row in alone[0]] == ["ok", "unreadable", *["ok"] * 6]
    assert alone[1]


@pytest.mark.usefixtures("few_are_many")
def test_a_reader_that_is_killed_is_told_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    monkeypatch.setattr(collecting, "read_record", lambda path: os._exit(9))
    with pytest.raises(StudyError, match="was killed"):
        collect(study, paths)


def test_few_records_are_read_by_this_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    study = synthetic.small_study()
    _, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    processes, read = set(), collecting.read_record
    monkeypatch.setattr(collecting, "usable_cores", lambda: 2)
    monkeypatch.setattr(collecting, "read_record", lambda path: processes.add(os.getpid()) or read(path))
    collect(study, paths)
    assert processes == {os.getpid()}

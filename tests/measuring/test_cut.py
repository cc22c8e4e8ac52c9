"""A record says itself whether the same would be measured again: kept after a cut, outdated where it came from afar."""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.measuring.attempt import run_code_hash
from whichdevice.measuring.cut import CUT, is_outdated, tell_cut, whole_record
from whichdevice.measuring.request import build_request
from whichdevice.records.facts import DataFacts
from whichdevice.records.request import Request
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record, write_record

Cut = tuple[Study, Request, Path]


@pytest.fixture
def cut(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Cut:
    """A study, what is asked of one of its runs, and where the record of just that lies, whose job was cut."""
    study = synthetic.small_study()
    run: Run = synthetic.configured_runs(study)[0]
    request = build_request(study, run).model_copy(update={"dataset": None})
    path = Path(run.record(study))
    record: Record = synthetic.record_of(study, run)
    software = record.software.model_copy(update={"code_hash": run_code_hash(request.module, request.backend)})
    write_record(record.model_copy(update={"asked": request, "software": software, "data": None}), path)
    monkeypatch.setenv(CUT, "")  # and taken back afterwards
    tell_cut(["results/other/record.json", str(path)])
    return study, request, path


def test_the_record_is_kept(cut: Cut) -> None:
    assert whole_record(*cut) == read_record(cut[2])


def test_a_job_that_was_not_cut_measures(cut: Cut) -> None:
    tell_cut([])
    assert whole_record(*cut) is None
    os.environ.pop(CUT)
    assert whole_record(*cut) is None


def test_another_request_measures(cut: Cut) -> None:
    study, request, path = cut
    assert whole_record(study, request.model_copy(update={"seed": request.seed + 1}), path) is None


def test_more_time_for_what_hangs_does_not_measure(cut: Cut) -> None:
    study, request, path = cut
    assert whole_record(study, request.model_copy(update={"timeout": 2 * request.timeout}), path) == read_record(path)


def test_other_code_measures(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("whichdevice.measuring.cut.run_code_hash", lambda *_: "other")
    assert whole_record(*cut) is None


def test_data_that_are_not_there_measure(cut: Cut) -> None:
    study, request, path = cut
    study = study.model_copy(update={"data": study.data.model_copy(update={"sources": {"mnist": "standin"}})})
    assert whole_record(study, request.model_copy(update={"dataset": "mnist"}), path) is None


def test_half_a_record_measures(cut: Cut) -> None:
    cut[2].write_bytes(cut[2].read_bytes()[:100])
    assert whole_record(*cut) is None


def test_a_record_of_the_same_is_not_outdated_whatever_its_time_limit(cut: Cut) -> None:
    study, request, path = cut
    assert not is_outdated(*cut)
    assert not is_outdated(study, request.model_copy(update={"timeout": 2 * request.timeout}), path)


def test_another_request_or_other_code_outdates_a_record(cut: Cut, monkeypatch: pytest.MonkeyPatch) -> None:
    study, request, path = cut
    assert is_outdated(study, request.model_copy(update={"seconds": 2 * request.seconds}), path)
    monkeypatch.setattr("whichdevice.measuring.cut.run_code_hash", lambda *_: "other")
    assert is_outdated(*cut)


def test_other_data_outdate_a_record_and_data_that_are_not_here_do_not(
    cut: Cut, monkeypatch: pytest.MonkeyPatch
) -> None:
    study, request, path = cut
    study = study.model_copy(update={"data": study.data.model_copy(update={"sources": {"mnist": "standin"}})})
    request = request.model_copy(update={"dataset": "mnist"})
    data = DataFacts(dataset="mnist", source="standin", checksum="first")
    write_record(read_record(path).model_copy(update={"asked": request, "data": data}), path)
    assert not is_outdated(study, request, path)
    for checksum, outdated in {"first": False, "second": True}.items():
        monkeypatch.setattr(
            "whichdevice.measuring.cut.read_info", lambda folder, told=checksum: SimpleNamespace(checksum=told)
        )
        assert is_outdated(study, request, path) is outdated


def test_data_that_a_run_makes_itself_neither_outdate_its_record_nor_keep_it_from_being_kept(cut: Cut) -> None:
    made = DataFacts(dataset="mine", source="own", checksum="abc")
    write_record(read_record(cut[2]).model_copy(update={"data": made}), cut[2])
    assert not is_outdated(*cut)
    assert whole_record(*cut) is not None


def test_what_is_not_there_or_cannot_be_read_is_not_outdated(cut: Cut) -> None:
    study, request, path = cut
    path.write_bytes(path.read_bytes()[:100])
    assert not is_outdated(*cut)
    assert not is_outdated(study, request, path.with_name("none.json"))

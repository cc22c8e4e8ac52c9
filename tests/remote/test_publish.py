"""A study goes to the bucket whole; records of another machine are never replaced."""

import shutil
from datetime import timedelta

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.measure.record import SCHEMA_VERSION
from whichdevice.study.records.store import read_record, write_record
from whichdevice.study.remote.publish import publish


@pytest.fixture
def root(tmp_path):
    """results/<study> of a small study with tables, report and an exported model."""
    root = tmp_path / "results" / "small"
    synthetic.write_study(synthetic.small_study(), root)
    for name in ("tables/runs.csv", "figures/x.svg", "report.html", "models/mnist/saved_model/saved_model.pb"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(name)
    (root / "logs").mkdir()
    (root / "logs/tables.log").write_text("of this machine")
    return root


def test_merged_records_go_up_and_leave_once_they_were_deleted_here(place, root):
    for name in ("aaaa", "bbbb"):
        shutil.copytree(root / "runs/gpu", root / "merged" / name / "runs/gpu")
        write_atomically("{}", root / "merged" / name / "source.json")
    publish(root, place)
    there = set(place.below("small").listing())
    assert {"merged/aaaa/source.json", "merged/bbbb/source.json"} <= there
    assert sum(name.startswith("merged/") and name.endswith("record.json") for name in there) == 8
    shutil.rmtree(root / "merged/aaaa")
    publish(root, place)
    there = set(place.below("small").listing())
    assert {name.split("/")[1] for name in there if name.startswith("merged/")} == {"bbbb"}


def change(root, **changes):
    """Change the first record; its path."""
    path = sorted(root.rglob("record.json"))[0]
    record = read_record(path)
    write_record(record.model_copy(update=changes), path)
    return path


def test_everything_but_logs_goes_up_and_only_once(place, root):
    line = publish(root, place)
    files = {path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file()} - {"logs/tables.log"}
    assert set(place.below("small").listing()) == files
    assert f": {len(files)} files, " in line
    assert ": 0 files, 0.0 MB" in publish(root, place)


def test_a_record_measured_again_replaces_its_older_one(place, root):
    publish(root, place)
    record = read_record(change(root))
    path = change(root, ended=record.ended + timedelta(hours=1))
    assert ": 1 files, " in publish(root, place)
    name = path.relative_to(root).as_posix()
    assert place.fs.cat_file(place.path(f"small/{name}")) == path.read_bytes()


def test_a_later_record_there_stops_what_was_made_from_the_older_one(place, root):
    publish(root, place)
    path = change(root)
    change(root, ended=read_record(path).ended - timedelta(hours=1))
    before = place.fs.cat_file(place.path("small/report.html"))
    (root / "report.html").write_text("of the older records")
    with pytest.raises(StudyError, match="is newer than the record here: measure that run here again, or publish"):
        publish(root, place)
    assert place.fs.cat_file(place.path("small/report.html")) == before


def test_another_machines_record_is_refused_with_the_way_out(place, root):
    publish(root, place)
    path = change(root)
    before = path.read_bytes()
    change(root, machine=read_record(path).machine.model_copy(update={"cpu": "Another CPU"}))
    with pytest.raises(StudyError, match=r"measured on another machine .*study=<name>.* --rename cpu=cpu_2"):
        publish(root, place)
    assert place.fs.cat_file(place.path(f"small/{path.relative_to(root).as_posix()}")) == before


def test_records_that_only_the_bucket_has_stay_and_are_told(place, root):
    assert "there are not here" not in publish(root, place)
    shutil.rmtree(root / "runs/gpu")
    assert "4 more records there are not here" in publish(root, place)
    assert [name for name in place.below("small").listing() if name.startswith("runs/gpu")]


def test_a_record_damaged_here_replaces_no_sound_one(place, root):
    publish(root, place)
    path = sorted(root.rglob("record.json"))[0]
    name, whole = place.path(f"small/{path.relative_to(root).as_posix()}"), path.read_bytes()
    path.write_bytes(whole[:200])
    publish(root, place)
    assert place.fs.cat_file(name) == whole


def test_a_record_of_a_newer_version_there_is_not_replaced(place, root):
    publish(root, place)
    path = sorted(root.rglob("record.json"))[0]
    name = place.path(f"small/{path.relative_to(root).as_posix()}")
    newer = path.read_text().replace(f'"schema_version": {SCHEMA_VERSION}', '"schema_version": 99')
    place.fs.pipe_file(name, newer.encode())
    with pytest.raises(
        StudyError, match="cannot be read here; update this project, delete that record, or publish under another"
    ):
        publish(root, place)

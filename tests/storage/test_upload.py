"""An upload sends what is not there yet, whole or not at all, and goes on after a cut."""

import subprocess
import sys
import time

import pytest

from whichdevice.errors import StudyError
from whichdevice.storage.download import download
from whichdevice.storage.upload import PART, UNFINISHED, upload

UPLOAD = """
import sys
from pathlib import Path
from whichdevice.storage.place import open_place
from whichdevice.storage.upload import upload
upload(open_place(sys.argv[1]), {"mnist/x.npy": Path(sys.argv[2])})
"""


def test_files_arrive_as_they_are_and_nothing_else_does(place, file_of):
    files = {"runs/a=1/record.json": file_of("a", 1000), "empty": file_of("b", 0), "x.npy": file_of("c", 300_000)}
    sent = upload(place, files)
    assert (sent.files, sent.kept) == (3, 0)
    assert set(place.listing()) == set(files)
    for name, path in files.items():
        assert place.fs.cat_file(place.path(name)) == path.read_bytes()


def test_a_second_run_uploads_nothing_and_a_changed_file_goes_alone(place, file_of):
    files = {"a": file_of("a", 1000), "b": file_of("b", 1000)}
    upload(place, files)
    assert (upload(place, files).files, upload(place, files).kept) == (0, 2)
    file_of("b", 1000, seed=1)  # of the same size
    assert (upload(place, files).files, upload(place, files).files) == (1, 0)
    assert place.fs.cat_file(place.path("b")) == files["b"].read_bytes()


def test_an_object_deleted_behind_our_back_is_sent_again(place, file_of):
    files = {"a": file_of("a", 1000), "b": file_of("b", 1000)}
    upload(place, files)
    place.fs.rm_file(place.path("a"))
    assert (upload(place, files).files, set(place.listing())) == (1, {"a", "b"})


def test_later_stages_wait_for_earlier_ones(place, file_of, monkeypatch):
    put, order = place.fs.put_file, []
    monkeypatch.setattr(
        place.fs, "put_file", lambda here, there, **more: (order.append(here), put(here, there, **more))
    )
    upload(place, {"x": file_of("x", 10), "y": file_of("y", 10)}, {"z": file_of("z", 10)})
    assert order[-1].endswith("z")


def test_what_arrives_damaged_is_taken_away_again(place, file_of, monkeypatch):
    wrong, put = file_of("wrong", 1000, seed=7), place.fs.put_file
    monkeypatch.setattr(place.fs, "put_file", lambda here, there, **more: put(str(wrong), there, **more))
    with pytest.raises(StudyError, match="arrived damaged and was taken away again"):
        upload(place, {"a": file_of("a", 1000)})
    assert place.listing() == {}


def test_what_another_machine_sent_at_the_same_time_is_left_to_it(place, file_of, monkeypatch):
    other, put = file_of("other", 0), place.fs.put_file
    other.write_text('{"of": "another machine"}')
    monkeypatch.setattr(place.fs, "put_file", lambda here, there, **more: put(str(other), there, **more))
    with pytest.raises(StudyError, match=r"record.json: another machine sent its own at the same time; run again"):
        upload(place, {"record.json": file_of("a", 1000)})
    assert place.fs.cat_file(place.path("record.json")) == other.read_bytes()


def test_a_cut_file_without_parts_leaves_nothing_behind(tmp_path, file_of, monkeypatch):
    from whichdevice.storage.place import open_place

    place = open_place(str(tmp_path / "there"))

    def cut(here: str, there: str) -> None:
        place.fs.pipe_file(there, b"half")
        raise ConnectionResetError

    monkeypatch.setattr(place.fs, "put_file", cut)
    with pytest.raises(StudyError, match="connection broke"):
        upload(place, {"a": file_of("a", 1000)})
    assert place.listing() == {}


def test_a_part_that_differs_is_sent_again(bucket, file_of, monkeypatch):
    path = file_of("large", PART + 1000)
    with monkeypatch.context() as cut, pytest.raises(StudyError, match="connection broke"):
        cut.setattr(bucket.fs, "merge", lambda *_: (_ for _ in ()).throw(ConnectionResetError()))
        upload(bucket, {"large": path})
    _, last = sorted(bucket.listing())
    bucket.fs.pipe_file(bucket.path(last), b"x" * 1000)
    sent = upload(bucket, {"large": path})
    assert (sent.files, sent.kept_bytes) == (1, PART)
    assert bucket.fs.cat_file(bucket.path("large")) == path.read_bytes()
    assert set(bucket.listing()) == {"large"}


def test_parts_that_another_machine_joined_meanwhile_are_no_failure(bucket, file_of, monkeypatch):
    path, merge = file_of("large", PART + 1000), bucket.fs.merge

    def join_first(name, parts):
        merge(name, parts)
        bucket.fs.rm(parts)
        raise FileNotFoundError(parts[0])

    monkeypatch.setattr(bucket.fs, "merge", join_first)
    assert upload(bucket, {"large": path}).files == 1
    assert set(bucket.listing()) == {"large"}


@pytest.mark.slow
def test_200_megabytes_killed_in_the_middle_are_finished_and_come_back_equal(bucket, file_of, tmp_path, project_root):
    path = file_of("large.npy", 200_000_000)
    command = [sys.executable, "-c", UPLOAD, bucket.address, str(path)]
    upload_process = subprocess.Popen(command, env=_environment(project_root))
    end = time.monotonic() + 300
    while sum(UNFINISHED in name for name in bucket.listing()) < 2:
        assert upload_process.poll() is None, "it ended before it could be cut"
        assert time.monotonic() < end
        time.sleep(0.05)
    upload_process.kill()
    upload_process.wait()
    assert "mnist/x.npy" not in bucket.listing()

    sent = upload(bucket, {"mnist/x.npy": path})
    assert sent.files == 1 and sent.kept_bytes >= 2 * PART
    assert set(bucket.listing()) == {"mnist/x.npy"}
    assert upload(bucket, {"mnist/x.npy": path}).files == 0

    back = tmp_path / "back" / "x.npy"
    assert download(bucket, {"mnist/x.npy": back}, bucket.listing()) == 1
    assert back.read_bytes() == path.read_bytes()
    assert download(bucket, {"mnist/x.npy": back}, bucket.listing()) == 0


def _environment(project_root) -> dict[str, str]:
    import os

    return {**os.environ, "PYTHONPATH": str(project_root / "scripts")}

"""Only what differs is sent or brought, each file whole under its name or not at all."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.study.remote.transfer import Place, download, open_place, upload

BESIDE = beside(__file__)

FileOf = Callable[..., Path]
MOVE = BESIDE["move"]


def test_a_second_run_moves_nothing_and_a_changed_file_goes_alone(place, file_of, tmp_path, monkeypatch) -> None:
    files = {"a": file_of("a", 1000), "b": file_of("b", 1000)}
    back = {name: tmp_path / "back" / name for name in files}
    upload(place, files)
    download(place, back, place.listing())
    with monkeypatch.context() as patch:
        for way in ("put_file", "get_file"):
            patch.setattr(place.fs, way, lambda *_, **__: pytest.fail("something was moved"))
        assert (upload(place, files).kept, download(place, back, place.listing()).kept) == (2, 2)
    file_of("b", 1000, seed=1)  # of the same size
    assert (upload(place, files).files, download(place, back, place.listing()).files) == (1, 1)
    assert back["b"].read_bytes() == files["b"].read_bytes()


def test_what_arrives_damaged_is_kept_on_neither_side(place, file_of, tmp_path, monkeypatch) -> None:
    good, wrong = file_of("a", 1000), file_of("a flipped bit", 1000)
    wrong.write_bytes(good.read_bytes()[:-1] + bytes([good.read_bytes()[-1] ^ 1]))
    put = place.fs.put_file
    with monkeypatch.context() as patch, pytest.raises(StudyError, match="/a: arrived damaged and was removed"):
        patch.setattr(place.fs, "put_file", lambda here, there, **more: put(str(wrong), there, **more))
        upload(place, {"a": good})
    assert place.listing() == {}
    upload(place, {"a": good})
    here = tmp_path / "back" / "a"
    here.parent.mkdir()
    here.write_bytes(b"before")
    with monkeypatch.context() as patch, pytest.raises(StudyError, match="/a: arrived damaged and was not kept"):
        patch.setattr(place.fs, "get_file", lambda there, aside, **_: Path(aside).write_bytes(wrong.read_bytes()))
        download(place, {"a": here}, place.listing())
    assert here.read_bytes() == b"before" and list(here.parent.iterdir()) == [here]


def test_what_another_machine_sent_at_the_same_time_is_left_to_it(bucket, file_of, monkeypatch) -> None:
    other, put = file_of("other", 0), bucket.fs.put_file
    other.write_text('{"of": "another machine"}')
    monkeypatch.setattr(bucket.fs, "put_file", lambda here, there, **more: put(str(other), there, **more))
    with pytest.raises(StudyError, match=r"record\.json: another machine sent its own at the same time; run again"):
        upload(bucket, {"record.json": file_of("a", 1000)})
    assert bucket.read("record.json") == other.read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("way", ["up", "down"])
@pytest.mark.parametrize("kind", ["folder", "bucket"])
def test_a_transfer_killed_in_the_middle_leaves_nothing_under_the_final_name_and_the_next_one_is_whole(
    way: str, kind: str, file_of: FileOf, tmp_path: Path, project_root: Path, request: pytest.FixtureRequest
) -> None:
    place = request.getfixturevalue("bucket") if kind == "bucket" else open_place(str(tmp_path / "there"))
    path, back = file_of("x.npy", 60_000_000), tmp_path / "back" / "x.npy"
    if way == "down":
        upload(place, {"x.npy": path})
    for milliseconds in (1, 20, 60):
        mover = subprocess.Popen(
            [sys.executable, "-c", MOVE, way, place.address, str(path if way == "up" else back)],
            env={**os.environ, "PYTHONPATH": str(project_root / "scripts")},
            stdout=subprocess.PIPE,
        )
        assert mover.stdout is not None and mover.stdout.readline() == b"begins\n"
        time.sleep(milliseconds / 1000)
        mover.send_signal(signal.SIGKILL)
        mover.communicate()
        if way == "up" and "x.npy" in place.listing():
            assert int(place.listing()["x.npy"]["size"]) == 60_000_000
        if way == "down" and back.exists():
            assert back.stat().st_size == 60_000_000
    upload(place, {"x.npy": path})
    download(place, {"x.npy": back}, place.listing())
    assert back.read_bytes() == path.read_bytes()


def test_what_is_missing_is_named_and_nothing_here_changes(place: Place, file_of: FileOf, tmp_path: Path) -> None:
    upload(place, {"a": file_of("a", 10)})
    listing, here = place.listing(), tmp_path / "kept"
    here.write_bytes(b"kept")
    with pytest.raises(StudyError, match=r"/b is missing; publish it again"):
        download(place, {"b": here}, listing)
    place.fs.rm_file(place.path("a"))
    with pytest.raises(StudyError, match="no such bucket or object"):
        download(place, {"a": here}, listing)
    assert here.read_bytes() == b"kept"

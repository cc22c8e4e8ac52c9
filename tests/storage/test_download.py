"""A download brings what differs, checked, and goes on where it was cut."""

import pytest

from whichdevice.errors import StudyError
from whichdevice.storage import download as module
from whichdevice.storage.download import download
from whichdevice.storage.upload import upload


def test_files_come_back_as_they_went(place, file_of, tmp_path):
    files = {"a/b": file_of("b", 100_000), "empty": file_of("e", 0)}
    upload(place, files)
    back = {name: tmp_path / "back" / name for name in files}
    assert download(place, back, place.listing()) == 2
    assert [path.read_bytes() for path in back.values()] == [path.read_bytes() for path in files.values()]
    assert download(place, back, place.listing()) == 0


def test_what_is_here_and_differs_is_replaced(place, file_of, tmp_path):
    upload(place, {"a": file_of("a", 100)})
    here = tmp_path / "other"
    here.write_bytes(b"other")
    assert download(place, {"a": here}, place.listing()) == 1
    assert here.read_bytes() == file_of("a", 100).read_bytes()


def test_what_is_gone_is_named_and_nothing_here_changes(place, file_of, tmp_path):
    upload(place, {"a": file_of("a", 10)})
    listing = place.listing()
    here = tmp_path / "kept"
    here.write_bytes(b"kept")
    with pytest.raises(StudyError, match=r"/b is gone; publish it again"):
        download(place, {"b": here}, listing)
    place.fs.rm_file(place.path("a"))
    with pytest.raises(StudyError, match="no such bucket or object"):
        download(place, {"a": here}, listing)
    assert here.read_bytes() == b"kept"


def test_a_cut_download_goes_on_where_it_stopped(bucket, file_of, tmp_path, monkeypatch):
    monkeypatch.setattr(module, "BLOCK", 1000)
    path, back = file_of("a", 5000), tmp_path / "back" / "a"
    upload(bucket, {"a": path})
    asked, cat = [], bucket.fs.cat_file

    def cut(name, start, end):
        asked.append(start)
        if len(asked) == 3:
            raise ConnectionResetError
        return cat(name, start=start, end=end)

    monkeypatch.setattr(bucket.fs, "cat_file", cut)
    with pytest.raises(StudyError, match="connection broke"):
        download(bucket, {"a": back}, bucket.listing())
    assert not back.exists()
    download(bucket, {"a": back}, bucket.listing())
    assert asked == [0, 1000, 2000, 2000, 3000, 4000]
    assert back.read_bytes() == path.read_bytes()
    assert list(back.parent.iterdir()) == [back]


def test_what_arrives_damaged_is_not_kept(bucket, file_of, tmp_path, monkeypatch):
    upload(bucket, {"a": file_of("a", 5000)})
    monkeypatch.setattr(bucket.fs, "cat_file", lambda name, start, end: b"x" * (end - start))
    with pytest.raises(StudyError, match="arrived damaged and was not kept"):
        download(bucket, {"a": tmp_path / "back" / "a"}, bucket.listing())
    assert list((tmp_path / "back").iterdir()) == []


def test_no_room_is_said_before_anything_is_fetched(bucket, file_of, tmp_path, monkeypatch):
    upload(bucket, {"a": file_of("a", 5000)})
    monkeypatch.setattr(module, "SLACK", 10**18)
    with pytest.raises(StudyError, match="no room"):
        download(bucket, {"a": tmp_path / "back" / "a"}, bucket.listing())

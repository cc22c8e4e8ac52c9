"""`python -m whichdevice bucket`: made, listed, copied from, emptied and removed; deletion only when confirmed."""

import uuid

import pytest
from storage.conftest import emulator, google, settings_kept  # noqa: F401

from whichdevice.__main__ import main
from whichdevice.storage.administration import described
from whichdevice.storage.place import open_place


@pytest.fixture
def address(settings_kept: None, working_folder) -> str:  # noqa: F811
    """Of a bucket that is not there yet."""
    return f"gs://bucket-{uuid.uuid4().hex[:12]}"


@pytest.fixture
def filled(address: str) -> str:
    """Of a bucket with two files."""
    main(["bucket", "make", address, "--project", "p"])
    place = open_place(address)
    place.fs.pipe_file(place.path("quick/report.html"), b"x" * 1000)
    place.fs.pipe_file(place.path("datasets/.parts/abc/8-000"), b"y" * 8)
    return address


def test_a_bucket_is_made_as_told_with_uniform_access(address, capsys):
    options = ["--location", "EUROPE-WEST4", "--storage-class", "NEARLINE", "--project", "p"]
    assert main(["bucket", "make", f"{address}/prefix", *options]) == 0
    facts = described(open_place(address))
    assert (facts["location"], facts["storageClass"]) == ("EUROPE-WEST4", "NEARLINE")
    assert facts["iamConfiguration"]["uniformBucketLevelAccess"]["enabled"] is True
    assert "made: NEARLINE, EUROPE-WEST4" in capsys.readouterr().out
    assert main(["bucket", "make", address, "--project", "p"]) == 0
    assert "was there already" in capsys.readouterr().out


def test_its_name_and_settings_come_from_the_config(address, capsys, working_folder):
    (working_folder / "my.yaml").write_text(f"storage: {{bucket: '{address}/x', location: ASIA, project: p}}")
    assert main(["bucket", "make", "--configfile", "my.yaml"]) == 0
    assert described(open_place(address))["location"] == "ASIA"
    assert main(["bucket", "list"]) == 2
    assert "bucket: which one?" in capsys.readouterr().err


@pytest.mark.parametrize("bare", ["gs://my-bucket", "[a]", "7"])
def test_an_address_without_its_key_is_one_line(working_folder, capsys, bare):
    (working_folder / "my.yaml").write_text(f"storage: {bare}")
    assert main(["bucket", "list", "--configfile", "my.yaml"]) == 2
    err = capsys.readouterr().err
    assert err.startswith("my.yaml: storage: holds ") and "{bucket: gs://name/prefix}" in err
    assert err.count("\n") == 1


def test_a_config_that_is_named_and_not_there_is_one_line(working_folder, capsys):
    assert main(["bucket", "list", "--configfile", "nosuch.yaml"]) == 2
    err = capsys.readouterr().err
    assert "nosuch.yaml: cannot be read" in err
    assert err.count("\n") == 1


def test_listing_shows_folders_and_cut_uploads(filled, capsys):
    assert main(["bucket", "list", filled]) == 0
    out = capsys.readouterr().out
    assert "quick" in out and "2 files" in out and ".parts: of uploads that were cut" in out


def test_copying_brings_every_file_and_none_twice(filled, capsys, working_folder):
    assert main(["bucket", "copy", filled, "--to", "here"]) == 0
    assert (working_folder / "here/quick/report.html").read_bytes() == b"x" * 1000
    assert main(["bucket", "copy", filled, "--to", "here"]) == 0
    assert "0 files copied to here, 1 were there already" in capsys.readouterr().out


def test_copying_keeps_what_is_here_and_differs(capsys, working_folder):
    for folder, text in {"shared": "yesterday", "here": "today"}.items():
        (working_folder / folder / "tables").mkdir(parents=True)
        (working_folder / folder / "tables/runs.csv").write_text(text)
    (working_folder / "shared/report.html").write_text("page")
    assert main(["bucket", "copy", "shared", "--to", "here"]) == 0
    assert (working_folder / "here/tables/runs.csv").read_text() == "today"
    assert (working_folder / "here/report.html").read_text() == "page"
    copied, kept = capsys.readouterr().out.splitlines()
    assert copied == "1 files copied to here, 0 were there already"
    assert kept.startswith("1 files in here differ from those in ")
    assert kept.endswith("and were kept, e.g. here/tables/runs.csv; to get both: another --to")


@pytest.mark.parametrize("action", ["empty", "remove"])
def test_nothing_is_deleted_unasked(filled, action, capsys, monkeypatch):
    assert main(["bucket", action, filled]) == 2
    assert "to do it without being asked: --yes" in capsys.readouterr().err
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: "yes")
    assert main(["bucket", action, filled]) == 2
    assert "nothing was deleted" in capsys.readouterr().err
    assert len(open_place(filled).listing()) == 2


def test_emptying_leaves_the_bucket_and_removing_does_not(filled, capsys, monkeypatch):
    assert main(["bucket", "empty", filled, "--unfinished", "--yes"]) == 0
    assert set(open_place(filled).listing()) == {"quick/report.html"}
    assert main(["bucket", "empty", filled, "--yes"]) == 0
    assert open_place(filled).listing() == {}
    monkeypatch.setattr("sys.stdin.isatty", lambda: True, raising=False)
    monkeypatch.setattr("builtins.input", lambda prompt: filled)
    assert main(["bucket", "remove", filled]) == 0
    assert described(open_place(filled)) is None


@pytest.mark.parametrize("action", ["empty", "remove"])
def test_what_is_deleted_no_longer_counts_as_uploaded(action, working_folder):
    main(["bucket", "make", "shared"])
    mark = working_folder / "results/datasets/uploaded/mnist-standin.json"
    mark.parent.mkdir(parents=True)
    mark.touch()
    if action == "empty":
        assert main(["bucket", "empty", "shared", "--unfinished", "--yes"]) == 0
        assert mark.exists()
    assert main(["bucket", action, "shared", "--yes"]) == 0
    assert not mark.exists()


def test_a_folder_is_a_bucket_too(working_folder, capsys):
    assert main(["bucket", "make", "shared"]) == 0
    (working_folder / "shared/a").write_bytes(b"1")
    assert main(["bucket", "list", "shared"]) == 0
    assert main(["bucket", "remove", "shared", "--yes"]) == 0
    assert not (working_folder / "shared").exists()

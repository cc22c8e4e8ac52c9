"""A folder is replaced whole or not at all."""

import pytest

from whichdevice.exporting.export import new_folder


def fill(folder, text: str) -> None:
    (folder / "file").write_text(text)


@pytest.fixture
def folder(tmp_path):
    target = tmp_path / "models" / "mnist_cnn"
    with new_folder(target) as new:
        fill(new, "first")
    return target


def test_the_new_folder_takes_the_place(folder):
    with new_folder(folder) as new:
        assert not list(new.iterdir())
        fill(new, "second")
        assert (folder / "file").read_text() == "first"  # still there meanwhile
    assert (folder / "file").read_text() == "second"
    assert [path.name for path in folder.parent.iterdir()] == ["mnist_cnn"]


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_a_failure_leaves_the_old_one(folder, error):
    with pytest.raises(error), new_folder(folder) as new:
        fill(new, "half")
        raise error
    assert (folder / "file").read_text() == "first"
    assert [path.name for path in folder.parent.iterdir()] == ["mnist_cnn"]


def test_a_kill_between_both_renames_is_mended(folder):
    folder.rename(folder.with_name(".mnist_cnn.old"))
    with pytest.raises(ValueError), new_folder(folder):
        assert (folder / "file").read_text() == "first"
        raise ValueError
    assert (folder / "file").read_text() == "first"

"""What tests share: the project's folder, a place to work in, and real data where it is at hand."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The project's top folder."""
    return PROJECT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of original archives, <folder>/<dataset>/<archive>; skips where there is none."""
    folder = Path(os.environ.get("WHICHDEVICE_DATA") or PROJECT.parent / "shared" / "data")
    if not folder.is_dir():
        pytest.skip("no original archives: set WHICHDEVICE_DATA to their folder")
    return folder


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory; its name has a space and a letter beyond ASCII."""
    folder = tmp_path / "a stüdy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder

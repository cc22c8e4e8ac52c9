"""What tests share: the project's folder, a place to work in, and real data where it is at hand."""

import os
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parent.parent


def pytest_configure(config: pytest.Config) -> None:
    """Give each of the processes that share the tests its own cores: frameworks then start no threads to fight over."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or not hasattr(os, "sched_setaffinity"):
        return
    cores, processes = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
    if processes <= len(cores):
        os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: processes])


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

"""What tests share: the project's folder, a place to work in, and real data where it is available."""

import os
import shutil
import tempfile
from importlib.util import find_spec
from pathlib import Path

import pytest

from whichdevice.locks import LOCK_FOLDER

# Most of JAX's time in tests is XLA's compiler, for small models that run for milliseconds; what they compute stays the
# same. Tests of forecasts, where the program itself counts, take it back (tests/forecast/conftest.py).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Keras has one backend in a process. In that of the tests it is JAX, which a plan takes too and which starts fastest;
# what needs another backend runs in a process of its own.
if find_spec("jax"):
    os.environ.setdefault("KERAS_BACKEND", "jax")

PROJECT = Path(__file__).resolve().parent.parent
LONGEST = (
    "workflow/test_study.py",
    "backends/test_same_learning.py",
    "workflow/test_bucket.py",
    "workloads/test_costs.py",
    "forecast/test_programs.py",
    "figures/test_figures.py",
    "report/test_report.py",
    "backends/test_generation.py",
    "backends/test_jax.py",
    "backends/test_torch.py",
    "backends/test_inference.py",
    "workflow/test_interrupts.py",
    "backends/test_tensorflow.py",
    "workloads/test_broken.py",
    "models/test_models.py",
    "backends/test_tensorflow_replicas.py",
    "forecast/test_torch_programs.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Give each process that shares the tests its own cores, and leave to measure while another does."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if worker is None or LOCK_FOLDER in os.environ:  # a test may run pytest
        return
    folder = Path(tempfile.gettempdir(), f"whichdevice-tests-{os.environ['PYTEST_XDIST_TESTRUNUID']}-{worker}")
    folder.mkdir()
    config.add_cleanup(lambda: shutil.rmtree(folder))
    os.environ[LOCK_FOLDER] = str(folder)
    if hasattr(os, "sched_setaffinity"):
        cores, processes = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        if processes <= len(cores):
            os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: processes])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that at the end no process waits for the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    longest = {PROJECT / "tests" / name: -place for place, name in enumerate(reversed(LONGEST), 1)}
    items.sort(key=lambda item: longest.get(item.path, 0 if item.path in slow else 1))


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

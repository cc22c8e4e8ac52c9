"""What tests share: the project's folder, a place to work in, real data where it is available, a summary of skips."""

import os
import re
import shutil
import tempfile
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a loaded machine more threads wait for each other

from whichdevice.locks import LOCK_FOLDER

# Most of JAX's time in tests is XLA's compiler, for small models that run for milliseconds; what they compute stays the
# same. Tests of forecasts, where the program itself counts, take it back (tests/forecast/conftest.py).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Keras has one backend in a process. In that of the tests it is JAX, which a plan takes too and which starts fastest;
# what needs another backend runs in a process of its own.
if find_spec("jax"):
    os.environ.setdefault("KERAS_BACKEND", "jax")

PROJECT = Path(__file__).resolve().parent.parent
# What a test that was skipped needs: words of its reason, a name, how to install it.
NEEDS = (
    ("torch", "PyTorch", "make torch-cpu"),
    ("slurm", "Slurm", "apt-get install slurm-wlm slurmdbd munge mariadb-server; sh envs/extra.sh slurm --apart"),
    ("kubernetes", "the executor for Kubernetes", "sh envs/extra.sh kubernetes --apart"),
    ("browser", "a browser", "apt-get install chromium chromium-driver"),
    ("rsync", "rsync", "apt-get install rsync"),
    ("skypilot", "SkyPilot", "sh envs/extra.sh sky"),
    (r"\bgit\b", "git", "apt-get install git"),
    ("original", "original data", "WHICHDEVICE_DATA=<folder of their archives>"),
    ("not installed|could not import|make test-environment", "Python packages", "make test-environment"),
)
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
    """Let tests measure while others on this host do; give each process that shares the tests its own cores."""
    worker = os.environ.get("PYTEST_XDIST_WORKER")
    if LOCK_FOLDER in os.environ or (worker is None and config.getoption("numprocesses", None)):
        return  # a test may run pytest; the process that hands out the tests runs none
    folder = tempfile.mkdtemp(prefix="whichdevice-tests-")
    config.add_cleanup(lambda: shutil.rmtree(folder, ignore_errors=True))
    os.environ[LOCK_FOLDER] = folder
    if worker is not None and hasattr(os, "sched_setaffinity"):
        cores, processes = sorted(os.sched_getaffinity(0)), int(os.environ["PYTEST_XDIST_WORKER_COUNT"])
        if processes <= len(cores):
            os.sched_setaffinity(0, cores[int(worker.removeprefix("gw")) :: processes])


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the files that take longest, so that at the end no process waits for the other."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    longest = {PROJECT / "tests" / name: -place for place, name in enumerate(reversed(LONGEST), 1)}
    items.sort(key=lambda item: longest.get(item.path, 0 if item.path in slow else 1))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print in one place what was skipped, and what to install for it."""
    skips: Counter[tuple[str, str]] = Counter()
    for report in terminalreporter.stats.get("skipped", []):
        reason = report.longrepr[2].removeprefix("Skipped: ") if isinstance(report.longrepr, tuple) else ""
        found = next((need for need in NEEDS if re.search(need[0], reason, re.IGNORECASE)), None)
        skips[found[1:] if found else (reason, "")] += 1
    if skips:
        terminalreporter.section("skipped", sep="=")
        for (name, install), count in sorted(skips.items(), key=lambda item: -item[1]):
            line = f"{count:4} need {name}: {install}" if install else f"{count:4} {name}"
            terminalreporter.write_line(line)


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The project's top folder."""
    return PROJECT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """Folder of original archives, <folder>/<dataset>/<archive>; skips where there is none."""
    folder = os.environ.get("WHICHDEVICE_DATA")
    if not folder:
        pytest.skip("no original archives: set WHICHDEVICE_DATA to their folder")
    return Path(folder)


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory; its name has a space and a letter beyond ASCII."""
    folder = tmp_path / "a stüdy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder

"""What tests share: the project's folder, a place to work in, real data where it is available, a summary of skips."""

import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from needs import PROJECT, require

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # on a loaded machine more threads wait for each other
os.environ.setdefault("WHICHDEVICE_PRICES", str(PROJECT / "config" / "prices.csv"))  # without newer offers of a user

from whichdevice.base.locks import LOCK_FOLDER

# Most of JAX's time in tests is XLA's compiler, for small models that run for milliseconds; what they compute stays the
# same. Tests of forecasts, where the program itself counts, take it back (tests/forecast/conftest.py).
os.environ.setdefault("JAX_DISABLE_MOST_OPTIMIZATIONS", "1")
# Keras has one backend in a process. In that of the tests it is JAX, which a plan takes too and which starts fastest;
# what needs another backend runs in a process of its own.
os.environ.setdefault("KERAS_BACKEND", "jax")

# How fast a machine makes examples decides no test.
settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")

LONGEST = (
    "workflow/test_study.py",
    "models/test_torch_scripts.py",
    "forecast/test_torch_records.py",
    "backends/test_same_learning.py",
    "backends/test_jax.py",
    "workflow/test_bucket.py",
    "forecast/test_programs.py",
    "forecast/test_hugging_face.py",
    "backends/test_torch.py",
    "explorer/test_explorer.py",
    "backends/test_tensorflow.py",
    "models/test_scripts.py",
    "forecast/test_same_models.py",
    "backends/test_tensorflow_replicas.py",
    "workflow/test_interrupts.py",
    "models/test_models.py",
    "figures/test_figures.py",
    "report/test_report.py",
    "backends/test_inference.py",
    "backends/test_generation.py",
    "docs/test_pages.py",
    "models/test_broken.py",
    "models/test_costs.py",
)


def pytest_configure(config: pytest.Config) -> None:
    """Let tests measure while others on this host do; give each process that shares the tests its own cores."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option with which the tests that were skipped can be run later, once what they need is installed."""
    parser.addoption("--skipped", metavar="FILE", help="write the skipped tests, one a line, as `pytest @FILE` reads")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not here."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print in one place what was skipped, and what to install for it."""
    skipped = terminalreporter.stats.get("skipped", [])
    reasons = Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    if reasons:
        terminalreporter.section("skipped", sep="=")
        for reason, count in reasons.most_common():
            terminalreporter.write_line(f"{count:4} {reason}")
    if file := config.getoption("skipped"):
        names = sorted({report.nodeid for report in skipped})
        Path(file).write_text("".join(f"{name}\n" for name in names), encoding="utf-8")


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The project's top folder."""
    return PROJECT


@pytest.fixture(scope="session")
def real_data() -> Path:
    """The folder of original archives, <folder>/<dataset>/<archive>."""
    require("original data")
    return Path(os.environ["WHICHDEVICE_DATA"])


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory; its name has a space and a letter beyond ASCII."""
    folder = tmp_path / "a stüdy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder

"""What tests share: the project's folder, a place to work in, real data where it is available, a summary of skips."""

import os
import shutil
import tempfile
from collections import Counter
from itertools import chain, groupby
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


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Give each process slow files first: quick tests are left to take over, which make no long fixture twice."""
    files = [list(tests) for _, tests in groupby(items, lambda item: item.path)]
    parts: list[list[pytest.Item]] = [[] for _ in range(int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))]
    for tests in sorted(files, key=lambda tests: not any(item.get_closest_marker("slow") for item in tests)):
        min(parts, key=len).extend(tests)
    items[:] = chain.from_iterable(parts)


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not here."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print in one place what was skipped, and what to install for it."""
    skipped = terminalreporter.stats.get("skipped", [])
    if skipped:
        terminalreporter.section("skipped", sep="=")
        for reason, count in Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped).most_common():
            terminalreporter.write_line(f"{count:4} {reason}")


@pytest.fixture(scope="session")
def project_root() -> Path:
    """The project's top folder."""
    return PROJECT


@pytest.fixture
def working_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder that is the working directory; its name has a space and a letter beyond ASCII."""
    folder = tmp_path / "a stüdy"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder

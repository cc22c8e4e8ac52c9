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


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of a machine that should have everything: any other need that is not met is a failure."""
    parser.addoption("--may-lack", metavar="NEEDS", help="fail where a test lacks anything but these, with commas")


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Skip a test whose needs are not here."""
    for mark in item.iter_markers("needs"):
        require(*mark.args)


def reasons(config: pytest.Config) -> Counter[str]:
    """Return how many tests were skipped for each reason."""
    skipped = config.pluginmanager.get_plugin("terminalreporter").stats.get("skipped", [])
    return Counter(report.longrepr[2].removeprefix("Skipped: ") for report in skipped)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """Print in one place what was skipped, and what to install for it."""
    if skipped := reasons(config):
        terminalreporter.section("skipped", sep="=")
        for reason, count in skipped.most_common():
            terminalreporter.write_line(f"{count:4} {reason}")


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail where a test was skipped for want of what this machine should have."""
    names = session.config.getoption("may_lack")
    if names is not None and not hasattr(session.config, "workerinput"):
        lacked = {reason.partition(":")[0].removeprefix("need ") for reason in reasons(session.config)}
        if lacked - {*names.split(",")} and session.exitstatus == 0:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


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

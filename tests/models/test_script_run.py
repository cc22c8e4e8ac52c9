"""A script is stopped where it trains, whoever imports the framework, and nothing of it runs from there on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from beside import beside
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.script.frames import is_own
from whichdevice.models.script.look import probe
from whichdevice.models.script.run import ScriptRun, with_nvidia_smi
from whichdevice.models.script.text import is_script

BESIDE = beside(__file__)
ENGINES = BESIDE["engines"]


@pytest.fixture(autouse=True)
def in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import keras

    assert keras.backend.backend() == "jax"  # in this process, which has other tests
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KERAS_BACKEND", "tensorflow")


@pytest.mark.slow
@pytest.mark.parametrize("framework", ENGINES)
def test_an_entry_that_imports_only_its_own_engine_is_stopped_and_writes_nothing(framework: str) -> None:
    if framework == "torch":
        require(framework)
    Path("engine.py").write_text(ENGINES[framework])
    Path("train.py").write_text(BESIDE["entry"].format(module="engine"))
    address = read_address("train.py")
    assert is_script(Path("train.py"))
    found = probe(address)
    assert (found.framework, found.batch_size, found.examples, found.epochs) == (framework, 64, 640, 3)
    assert sorted(path.name for path in Path().glob("*ed*")) == []


@pytest.mark.slow
def test_a_library_that_trains_is_stopped_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    library = tmp_path / "site-packages"
    library.mkdir()
    (library / "trainer.py").write_text(ENGINES["jax"])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(library), *sys.path]))
    Path("train.py").write_text("import trainer\nsteps_to_go = 40\ntrainer.train(epochs=steps_to_go)\n")
    assert probe(read_address("train.py")).framework == "jax"
    assert not Path("trained").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("text", "why"), BESIDE["not run"])
def test_what_cannot_be_watched_is_not_run(text: str, why: str) -> None:
    Path("engine.py").write_text("open('trained', 'w').close()")
    Path("train.py").write_text(text)
    with pytest.raises(StudyError, match=why):
        probe(read_address("train.py"))
    assert not Path("trained").exists()


def test_a_script_that_its_arguments_stop_runs_no_block_of_its_end() -> None:
    Path("train.py").write_text(BESIDE["stopped by its arguments"])
    with pytest.raises(StudyError, match=r"train.py: ended before .* arguments are required: data"):
        ScriptRun(Path("train.py")).result([])
    assert [path.name for path in Path().iterdir()] == ["train.py"]


def test_a_script_that_is_killed_says_by_what(tmp_path: Path) -> None:
    path = tmp_path / "train.py"
    path.write_text("import os, signal\nimport numpy\nos.kill(os.getpid(), signal.SIGKILL)\n")
    with pytest.raises(StudyError, match=r"train.py: killed \(signal 9\) before its training started: where"):
        probe(read_address(str(path)))


def test_a_library_s_compiled_code_is_not_the_script_s(tmp_path, monkeypatch):
    """Its functions name their file from the library's own folder, which looks like one below the script."""
    monkeypatch.chdir(tmp_path)
    assert is_own(str(tmp_path / "train.py"), tmp_path / "train.py")
    assert not is_own("numpy/random/mtrand.pyx", tmp_path / "train.py")


def test_a_script_that_logs_what_nvidia_smi_prints_gets_nothing_where_it_is_not_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(FileNotFoundError):
        subprocess.run(["nvidia-smi"])
    with with_nvidia_smi():
        assert subprocess.run(["nvidia-smi"], capture_output=True, check=True).stdout == b""
    assert os.environ["PATH"] == str(tmp_path)

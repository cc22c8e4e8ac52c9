"""A script is stopped where it trains, whoever imports the framework, and nothing of it runs from there on."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.script.look import is_script, probe
from whichdevice.models.script.run import is_own, with_nvidia_smi

ENGINES = {
    "torch": """
import torch
def train(epochs):
    net = torch.nn.Linear(8, 2)
    optimizer = torch.optim.SGD(net.parameters(), 0.1)
    for epoch in range(epochs):
        for start in range(0, 640, 64):
            net(torch.zeros(64, 8)).sum().backward()
            optimizer.step()
            open("trained", "w").close()
""",
    "jax": """
import jax
step = jax.jit(lambda w, x: w - jax.grad(lambda w: (x @ w).sum())(w))
def train(epochs):
    w = jax.numpy.ones((8, 2))
    for epoch in range(epochs):
        for start in range(0, 640, 64):
            w = step(w, jax.numpy.ones((64, 8)))
            open("trained", "w").close()
""",
    "keras": """
import keras, numpy as np
def train(epochs):
    model = keras.Sequential([keras.layers.Dense(2)])
    model.compile("sgd", "mse")
    model.fit(np.zeros((640, 8)), np.zeros((640, 2)), batch_size=64, epochs=epochs)
    open("trained", "w").close()
""",
}
ENTRY = """
import atexit
from {module} import train

@atexit.register
def save():
    open("saved_at_exit", "w").close()

class Kept:
    def __enter__(self):
        pass
    def __exit__(self, *error):
        open("saved_by_context", "w").close()

try:
    with Kept():
        train(3)
except BaseException:
    open("saved_by_except", "w").close()
finally:
    open("saved_finally", "w").close()
"""


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
    Path("train.py").write_text(ENTRY.format(module="engine"))
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
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("import subprocess, sys\nsubprocess.run([sys.executable, 'engine.py'])\nx.fit()", "line 2: it starts engine"),
        ("import os\nos.system('torchrun engine.py')\nx.fit()", "line 2: it starts engine.py"),
        ("print()\nif False:\n    x.fit()", "ended, and nothing imported Keras, PyTorch or JAX: give its arguments"),
    ],
)
def test_what_cannot_be_watched_is_not_run(text: str, why: str) -> None:
    Path("engine.py").write_text("open('trained', 'w').close()")
    Path("train.py").write_text(text)
    with pytest.raises(StudyError, match=why):
        probe(read_address("train.py"))
    assert not Path("trained").exists()


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

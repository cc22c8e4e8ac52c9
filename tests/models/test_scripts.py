"""Ordinary training scripts: stopped where they start to train, taken as they are, or refused in one line."""

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.loading import Model
from whichdevice.models.script import look as scripts
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import is_scripts_own, known, last_line, library_of, probe
from whichdevice.models.script.run import ScriptRun
from whichdevice.models.script.text import is_script, others_like
from whichdevice.models.workloads.base import Options

FILE = "train.py"
SCRIPTS = Path(__file__).parents[1] / "scripts"
TEXTS = yaml.safe_load(Path(__file__).with_name("scripts.yaml").read_text(encoding="utf-8"))
TEXT = {name: f"\n{text}" for name, text in TEXTS.items()}
TORCH_NET = TEXT["torch net"]
FOUND = {
    "torch_loop.py": Found("torch", 64, 512, 5, precision="float32"),  # most of its operations are of the last layer
    "torch_gan.py": Found("torch", 50, 1000, 7, precision="float32"),
    "torch_hub.py -- --num_train_epochs 4 --batch 8": Found("torch", 8, 256, 4, precision="mixed", compiled=True),
}
REFUSED = {
    "import keras\nkeras.optimizers.Adam(lr=1)\nx.fit()": r"not recognized: .*\(line 2\); Keras 3: learning_rate=$",
    "import keras\nkeras.Sequential().fit_generator()": r"\(line 2\); Keras 3: fit\(",
    "from keras.layers.core import Dense\nx.fit()": r"\(line 1\); Keras 3: import from keras.layers",
    "import torch\ntorch.zeros(1).step()": "AttributeError",
    "import torch, argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\n"
    "p.parse_args().step()": "required: --data: give its arguments after --",
    "import torch\nif False:\n    x.step()": r"torch.optim stepped \(PyTorch\): give .*, or put its step",
    "import torch\nget_ipython().system('pip install x')\nx.step()": "name 'x' is not defined",
    "import torch\ntorch.nn.Linear(8, 2)(torch.zeros(4, 8)).sum().backward()": "line 2, and no optimiser of torch",
    "import torch\nx = torch.zeros(4, 8)\ntorch.nn.Linear(8, 2)(x).sum().backward()"
    "\ntorch.optim.SGD([x]).step()": "line 4: its optimiser changes no weights of a module: put what is trained into",
    "import sys, torch\nif len(sys.argv) < 2:\n    raise SystemExit(2)\nx.step()": "exit code 2: give its arguments",
}

DISTRIBUTED = "torch.distributed.init_process_group('gloo')\nnet = torch.nn.parallel.DistributedDataParallel(net)\n"
FOUR = "    for _ in range(4):\n        loss(torch.zeros(32, 8)).backward()\n    optimizer.step()\n"
ANEW = FOUR.replace("loss(torch.zeros(32, 8))", "torch.nn.MSELoss()(net(torch.zeros(32, 8)), torch.zeros(32, 2))")
ONE = "    loss(torch.zeros(32, 8)).backward()\n    optimizer.step()\n"
TWO = "    loss(first).backward()\n    loss(second).backward()\n    optimizer.step()\n"
FOURTH = "    loss(torch.zeros(32, 8)).backward()\n    if it % 4 == 3:\n        optimizer.step()\n"
STEPS = {  # script: framework, batch size, examples, epochs
    TORCH_NET + "for it in range(500):\n" + FOUR: ("torch", 128, 64000, 1),
    TORCH_NET + "for it in range(500):\n" + FOURTH: ("torch", 128, 16000, 1),
    TORCH_NET + "for it in range(500):\n" + ANEW: ("torch", 128, 64000, 1),
    TORCH_NET + "for trial in range(9):\n" + TWO + "for it in range(500):\n" + ONE: ("torch", 32, 16000, 1),
    TORCH_NET + "it = 0\nwhile True:\n" + ONE + "    it += 1\n    if it > 400:\n        break\n": (
        "torch", 32, 12832, 1
    ),
    TORCH_NET + "net.cuda()\nfor it in range(500):\n" + ONE.replace(" 8", " 8, device='cuda'"): ("torch", 32, 16000, 1),
    TORCH_NET + DISTRIBUTED + "for it in range(500):\n" + ONE: ("torch", 32, 16000, 1),
    TORCH_NET + "for it in range(500):\n" + TWO: ("torch", 32, 16000, 1),
    TEXT["time first"]: ("torch", 20, 400, 3),  # sequences, of which each of 20 steps takes 35 time steps
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def in_one_folder(tmp_path_factory):
    """Each script is run once: later tests know what it showed. This process keeps Keras on JAX for other tests."""
    import keras

    assert keras.backend.backend() == "jax"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scripts"))
        patch.setenv("KERAS_BACKEND", "tensorflow")
        yield


def address_of(name: str):
    if name.startswith("torch"):
        require("torch")
    return read_address(f"{SCRIPTS}/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_script_shows_its_training(name):
    address = address_of(name)
    found = probe(address)
    assert found == known(address)
    assert replace(found, line=None, pipeline=(), notes=()) == FOUND[name]
    assert bool(found.pipeline) == (name == "torch_loop.py")
    assert all(rate.examples_per_second > 100 for rate in found.pipeline)
    line = address.path.read_text().splitlines()[found.line - 1]
    assert any(call in line for call in ("fit(", ".step(", "update(", "train_step(", "train_on_batch("))


@pytest.mark.slow
@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_train_is_refused_in_one_line(text, tmp_path):
    if "torch" in text:
        require("torch")
    path = tmp_path / "train.py"
    path.write_text(text)
    assert is_script(path)
    with pytest.raises(StudyError, match=REFUSED[text]) as refused:
        probe(read_address(str(path)))
    assert str(refused.value).startswith("train.py") and "\n" not in str(refused.value)


OWN = {  # errors: whether the script fails so also where its step is computed
    "open('absent')": True, "absent": True, "import absent": True, "{}['absent']": True, "{}[3]": False, "[][1]": False,
    "import json; json.JSONDecoder().absent": False, "1 / 0": False,
}  # fmt: skip


@pytest.mark.parametrize("line", OWN)
def test_an_error_that_no_missing_value_causes_is_the_scripts_own(line, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(line)
    with pytest.raises(Exception) as failed:  # of any kind
        runpy.run_path(str(path))
    assert is_scripts_own(failed.value, path) == OWN[line]


def test_an_error_that_a_library_raises_is_said_to_be_its(tmp_path, monkeypatch):
    packages, path = tmp_path / "site-packages", tmp_path / "train.py"
    packages.mkdir()
    (packages / "boxes.py").write_text("def nms(boxes):\n    return max(boxes)\n")
    monkeypatch.syspath_prepend(packages)
    for line, library in (("boxes.nms([])", "boxes"), ("boxes.nms([0]) / 0", None)):
        path.write_text(f"import boxes\n{line}\n")
        with pytest.raises((ValueError, ZeroDivisionError)) as failed:
            runpy.run_path(str(path))
        assert library_of(failed.value, path) == library


COUNTS_GPUS = "import torch\ncount = torch.cuda.device_count()\nnet = torch.nn.Linear(4, 2)\n"


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("text", "may"),
    [
        (COUNTS_GPUS + "assert count > 1", True),
        (COUNTS_GPUS + "raise SystemExit('two GPUs, please')", True),
        (COUNTS_GPUS + "if count > 1: net(torch.zeros(2, 4))", True),
        (COUNTS_GPUS + "open('absent')", False),
        (COUNTS_GPUS + "net(torch.zeros(2, 4))\nassert count > 1", False),
        ("import torch\nassert False", False),
    ],
    ids=["an assertion", "an exit", "no training", "a file", "a training", "no count"],
)
def test_more_gpus_are_tried_where_a_script_may_want_them(text, may, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(text)
    run = ScriptRun(path)
    with pytest.raises(StudyError):
        run.result([])
    assert run.may_want_gpus == may


def test_a_script_that_takes_too_long_is_told_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import beside\nbeside.wait()\n")
    Path("beside.py").write_text("import threading\ndef wait():\n    threading.Event().wait()\n")
    address = read_address("train.py")
    frame = '  File "{}", line {} in {}\n'.format
    waits = frame("threading.py", 7, "wait")
    beside, train = frame(Path("beside.py").resolve(), 3, "wait"), frame(Path("train.py").resolve(), 2, "<module>")
    assert last_line(waits + beside + train, address) == " (beside.py, line 3)"
    assert last_line(waits + train, address) == " (line 2)"
    assert last_line(waits, address) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "runs", "error"),
    [
        ("data = open('absent.csv')", 1, r"FileNotFoundError: .*absent.csv' \(line 8\)"),
        ("for _ in [][1]: pass", 2, "IndexError: .*line 8"),
    ],
)
def test_an_error_of_the_scripts_own_is_said_to_be_its(line, runs, error, tmp_path, monkeypatch):
    """What a step without values cannot cause is seen in one run, other errors where they come again with values."""
    require("torch")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEXT["started"].format(line=line))
    with pytest.raises(StudyError, match=f"^train.py: {error}.*; this error is the script's own: mend it there"):
        probe(read_address("train.py"))
    assert Path("runs").read_text().split() == ["once"] * runs


def started(text: str, folder: Path):
    path = folder / FILE
    path.write_text(text)
    for name in ("torch", "equinox"):
        if f"import {name}" in text:
            require(name)
    return ScriptRun(path).result([])


@pytest.mark.slow
@pytest.mark.parametrize("text", STEPS)
def test_a_step_is_of_one_batch_whatever_else_the_script_gives_it(text, tmp_path):
    """Of batches whose gradients are summed one."""
    found = started(text, tmp_path).found
    assert (found.framework, found.batch_size, found.examples, found.epochs) == STEPS[text]
    assert not found.compiled
    assert (found.keeps == "batch") == ("init_process_group" not in text)
    trials = ["Training starts in line 15; what tr"] * ("trial" in text)
    assert [note[:35] for note in found.notes] == trials


@pytest.mark.slow
def test_a_teacher_belongs_to_the_step_and_is_not_trained(tmp_path):
    body = "with torch.no_grad():\n        wanted = teacher(x)\n    (net(x) - wanted).square().mean().backward()\n"
    text = f"teacher = torch.nn.Linear(8, 2)\nfor it in range(500):\n    x = torch.zeros(32, 8)\n    {body}"
    trace = started(TORCH_NET + text + "    optimizer.step()\n", tmp_path).recorded.trace
    assert (trace.parameters, trace.trained) == (36, 18)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "precision"), [("False", "float32"), ("True", "mixed"), ("torch.cuda.is_available()", "mixed")]
)
def test_an_autocast_for_gpus_counts_unless_a_variable_switches_it_off(use, precision, tmp_path):
    text = f"use = {use}\nfor it in range(500):\n    with torch.autocast('cuda', enabled=use):\n    " + ONE
    assert started(TORCH_NET + text, tmp_path).found.precision == precision


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_number_that_a_module_draws_and_compares_needs_no_value(tmp_path):
    text = """
import torch
class Masked(torch.nn.Linear):
    def forward(self, x):
        drawn = (torch.rand(1) * 8).long().squeeze()
        if drawn >= 9:
            raise ValueError("too wide")
        return super().forward(x)
net = Masked(8, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for start in range(0, 640, 64):
    net(torch.zeros(64, 8)).sum().backward()
    optimizer.step()
"""
    assert started(text, tmp_path).found.batch_size == 64


def test_files_that_another_call_removes_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    scripts.FOLDER.mkdir(parents=True)
    (scripts.FOLDER / "removed.json").symlink_to("nowhere")
    address, found = read_address(f"{SCRIPTS}/torch_loop.py"), Found("torch", 64)
    scripts.keep(address, found)
    assert known(address) == found


@pytest.mark.slow
def test_an_edited_script_or_other_arguments_are_looked_at_anew(tmp_path):
    path = tmp_path / "train.py"
    path.write_text((SCRIPTS / "keras_fit.py").read_text())
    assert known(read_address(str(path))) is None
    probe(read_address(str(path)))
    assert known(read_address(f"{path} -- --fast")) is None
    path.write_text(path.read_text().replace("epochs=5", "epochs=6"))
    assert known(read_address(str(path))) is None
    with pytest.raises(StudyError, match="was not looked at yet: whichdevice ask"):
        Model.read(str(path)).workload(Options(batch_size=32)).splits({})


def test_a_few_examples_of_a_long_stream_are_read():
    """All of a short one: its last batch may be smaller, so that its examples are not known exactly."""
    assert Found("keras", 32, 320).declaration().examples is None
    assert Found("keras", 64, 20032).declaration().examples == Found("keras", 64).declaration().examples == 1024
    assert Found("keras", 4096, 10**6).declaration().examples == 8192


def test_an_answer_says_that_another_training_is_not_counted(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "model.fit(x)\nscaler.fit(x)\nmodel.fit(x)\nfor x in y:\n    optimizer.step()\n    optimizer.step()\n"
    )
    assert others_like(path, 1) == ("Training starts in line 1; what trains in line 3 is not counted.",)
    assert others_like(path, 5) == ()
    twice = "def run(model):\n    model.fit(x)\ndef main():\n    run(small)\n    print(small)\n    run(large)\nmain()\n"
    path.write_text(twice)
    assert others_like(path, 2) == ("Training starts in line 2; what trains in line 6 is not counted.",)
    path.write_text("def run(train):\n    optimizer.step()\nfor epoch in range(3):\n    run(True)\n    run(False)\n")
    assert others_like(path, 2) == ()
    path.write_text("for x in y:\n    w += update(x)\nfor x in z:\n    w += update(x)\n")
    assert others_like(path, 2, "update") == ("Training starts in line 2; what trains in line 4 is not counted.",)
    assert others_like(path, 2) == ()
    path.write_text("print(solver.train(1e-3))\nsolver.train(1e-4)\nsolver.train(1e-5)\n")
    assert others_like(path, 2) == ("Training starts in line 2; what trains in line 1, 3 is not counted.",)


def test_a_model_file_is_no_script(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def model(options):\n    return options.fit()\n")
    assert not is_script(path)
    assert all(map(is_script, SCRIPTS.glob("*.py")))

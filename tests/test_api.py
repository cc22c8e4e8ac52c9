"""`whichdevice.ask` in Python: files and objects of Keras and PyTorch, in a script and in a notebook."""

import functools
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from answer.test_answer import CHEAP, FAST, FREE, answer, here
from needs import require

import whichdevice as wd
from whichdevice.apps import api
from whichdevice.apps.questions.question import Question
from whichdevice.base.errors import StudyError
from whichdevice.decide import Wants
from whichdevice.models.loading import Model
from whichdevice.models.script.look import recording
from whichdevice.models.workloads.base import Options

X, Y = np.random.default_rng(0).random((40, 6), np.float32), np.arange(40) % 3


@pytest.fixture
def asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """What the command is asked; nothing is measured or forecast."""
    seen = SimpleNamespace()

    def answered(question: Question) -> Any:
        vars(seen).update(vars(question))
        return None, [answer(here(), FAST, CHEAP, FREE)]

    monkeypatch.setattr("whichdevice.apps.commands.ask.answered", answered)
    monkeypatch.setattr(api, "CACHE", tmp_path / "cache")
    return seen


def test_importing_the_package_prints_nothing_and_imports_no_library() -> None:
    code = "import sys, whichdevice; whichdevice.ask; print({'keras', 'torch', 'jax', 'tensorflow'} & set(sys.modules))"
    first = "import sys, whichdevice; print({'numpy', 'pandas'} & set(sys.modules))"
    for each in (code, first):
        done = subprocess.run([sys.executable, "-c", each], env=os.environ, capture_output=True, text=True, check=True)
        assert (done.stdout, done.stderr) == ("set()\n", "")


def test_a_file_is_asked_as_by_the_command(asked, tmp_path, monkeypatch) -> None:
    (tmp_path / "train.py").write_text("model.fit()\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    wd.ask("train.py -- --lr 1", devices=["T4", "L4"], deadline_h=12, examples=9, measure=False)
    assert (asked.model.text, asked.script_arguments, asked.devices) == ("train.py", ("--lr", "1"), ("T4", "L4"))
    assert asked.wants == Wants(examples=9, deadline=12 * 3600) and not asked.measuring


def test_the_answer_has_devices_a_table_a_page_and_a_text(asked: SimpleNamespace) -> None:
    found = wd.ask("resnet50")
    assert found.best == found["T4, free"] == found.cheapest
    assert found.fastest is not None and found.fastest.device == "H100" and found["H100"].fits
    assert found.sure == found.answer.pick.sure
    frame = found.to_frame()
    assert set(frame.index) == {"this machine", "H100", "T4", "T4, free"} and frame.loc["T4, free", "usd"] == 0
    assert repr(found).splitlines()[2].startswith("Use a free T4") and "Use a free T4" in found._repr_html_()
    with pytest.raises(KeyError, match="V100: not asked about; there are T4, free, this machine"):
        found["V100"]


@pytest.mark.slow
def test_a_loop_that_is_watched_trains_on_and_its_step_is_asked(asked: SimpleNamespace) -> None:
    require("torch")
    import torch

    net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3))
    optimizer, other = (torch.optim.SGD(net.parameters(), lr=0.1, momentum=each) for each in (0.9, 0.0))
    images, labels, losses = torch.from_numpy(X), torch.from_numpy(Y).long(), []
    with wd.watch(net, optimizer) as step:
        other.step()
        for _ in range(20):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(net(images), labels)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert losses[-1] < losses[0]
    step.ask(examples=900, epochs=3, measure=False)
    found, products = asked.model.found, 2 * len(X) * (6 * 8 + 8 * 3)
    assert (found.batch_size, asked.wants.examples) == (len(X), 900)
    work = recording(asked.model.address)[1]["trace"]["work"]["items"]
    assert sum(row[2] * row[4] for row in work) == 3 * products - 2 * len(X) * 6 * 8  # no gradient of the images
    with pytest.raises(StudyError, match="watch: the optimiser did not step"), wd.watch(net, optimizer):
        pass
    with pytest.raises(StudyError, match=r"watch: a torch.nn.Module and a torch.optim.Optimizer are needed"):
        wd.watch(lambda x: x, optimizer)


@pytest.mark.slow
@pytest.mark.parametrize("framework", ["keras", "torch"])
def test_an_object_becomes_a_model_file_of_the_same_step(framework: str, asked: SimpleNamespace) -> None:
    files = set()
    for _ in range(2):  # weights differ, the model does not
        if framework == "keras":
            import keras

            model = keras.Sequential([keras.layers.Dense(3)])
            model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
            wd.ask(model, X, Y, batch_size=4)
        else:
            require("torch")
            import torch

            model = torch.nn.Sequential(torch.nn.Linear(6, 3))
            wd.ask(model, torch.from_numpy(X), torch.from_numpy(Y), loss=torch.nn.CrossEntropyLoss(), batch_size=4)
        files.add(asked.model.text)
    (file,) = files
    assert asked.wants.examples == 40
    chosen = Model.read(file)
    assert (chosen.framework, chosen.recipe.batch_size) == (framework, 4)
    workload = chosen.workload(Options(batch_size=4))
    train, validation = workload.splits({})
    assert (train.examples, validation.examples) == (35, 5)
    assert workload.model().count_params() == 21


LR, OTHER_LR = 0.1, 0.2


def scaled(by: float) -> Any:
    """A loss that holds a number."""
    return lambda output, target: by * torch_mse(output, target)


def torch_mse(output: Any, target: Any) -> Any:
    return ((output - target) ** 2).mean()


def frozen(module: Any) -> Any:
    for parameter in module.parameters():
        parameter.requires_grad_(False)
    return module


def with_buffer(module: Any, kept: list[int]) -> Any:
    require("torch")
    import torch

    module.register_buffer("mask", torch.tensor(kept), persistent=False)
    return module


def with_attribute(module: Any) -> Any:
    module.steps = 5
    return module


CHANGED = {  # of the step of a linear layer: module, loss, optimizer
    "frozen weights": (frozen, None, None),
    "evaluation mode": (lambda module: module.eval(), None, None),
    "a buffer": (lambda module: with_buffer(module, [1]), None, None),
    "another mask": (lambda module: with_buffer(module, [0]), None, None),
    "an attribute": (with_attribute, None, None),
    "what a loss holds": (None, scaled(2.0), None),
    "another number in it": (None, scaled(3.0), None),
    "a partial": (None, functools.partial(torch_mse), None),
    "an optimiser's rate": (None, None, lambda module: ("SGD", LR)),
    "another rate": (None, None, lambda module: ("SGD", OTHER_LR)),
    "a partial's rate": (None, None, functools.partial(dict, lr=0.1)),
    "another partial's rate": (None, None, functools.partial(dict, lr=0.2)),
}


def test_whatever_changes_the_step_is_another_file_and_weights_are_not(asked: SimpleNamespace) -> None:
    """A frozen layer, asked about again, had the answer of the whole model."""
    require("torch")
    import torch

    files = {}
    for name, (change, loss, optimizer) in (CHANGED | {"nothing": (None, None, None)}).items():
        for _ in range(2):  # with other weights
            module = torch.nn.Linear(6, 3)
            module = change(module) if change else module
            wd.ask(module, torch.from_numpy(X), loss=loss or torch_mse, optimizer=optimizer)
            files.setdefault(name, set()).add(asked.model.text)
    assert all(len(each) == 1 for each in files.values()), files
    assert len(set.union(*files.values())) == len(files)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"deadline_h": float("inf")}, "ask: deadline_h inf: a number above 0 is needed"),
        ({"deadline_h": 0}, "ask: deadline_h 0: a number above 0 is needed"),
        ({"examples": float("nan")}, "ask: examples nan: a number above 0 is needed"),
        ({"batch_size": 0}, "ask: batch_size 0: a number of at least 1 is needed"),
        ({"by": "luck"}, "ask: by is 'luck'; it must be one of cost, time"),
    ],
)
def test_a_wrong_value_is_one_line_that_names_it(given: dict[str, Any], text: str, asked: SimpleNamespace) -> None:
    with pytest.raises(StudyError, match=re.escape(text)):
        wd.ask("resnet50", **given)


def test_a_model_that_nobody_asked_about_for_a_month_is_removed(asked: SimpleNamespace) -> None:
    require("torch")
    import torch

    module, old, young = torch.nn.Linear(6, 3), api.CACHE / "old", api.CACHE / "young"
    for folder, days in ((old, 31), (young, 29)):
        folder.mkdir(parents=True)
        os.utime(folder, 2 * (time.time() - days * 86400,))
    wd.ask(module, torch.from_numpy(X), loss=torch.nn.functional.mse_loss)
    os.utime(file := Path(asked.model.text).parent, 2 * (time.time() - 31 * 86400,))
    wd.ask(module, torch.from_numpy(X), loss=torch.nn.functional.mse_loss)
    assert {*api.CACHE.iterdir()} == {young, file} and time.time() - file.stat().st_mtime < 86400


def test_what_cannot_be_asked_is_one_line(asked: SimpleNamespace) -> None:
    require("torch")
    import keras
    import torch

    for model, text in (
        (torch.nn.Linear(2, 1), "ask: a torch.nn.Module needs a batch of examples"),
        (keras.Sequential([keras.layers.Dense(2)]), "ask: the Keras model is not compiled"),
        (lambda x: x, "ask: a function is not a file, a compiled Keras model or a torch.nn.Module"),
    ):
        with pytest.raises(StudyError, match=text):
            wd.ask(model)


@pytest.mark.slow
def test_a_notebook_asks_about_a_class_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    require("torch")
    import nbclient
    import nbformat

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    cells = [
        "import torch, whichdevice as wd\nclass Net(torch.nn.Linear):\n    pass",
        "x, y = torch.zeros(32, 4), torch.arange(32) % 3\n"
        "wd.ask(Net(4, 3), x, y, loss=torch.nn.CrossEntropyLoss(), examples=1e6, devices=['T4'], measure=False)",
    ]
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in cells])
    nbclient.NotebookClient(notebook, timeout=300, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = notebook.cells[1].outputs[-1]["data"]
    assert "\nUse a free T4" in shown["text/plain"] and "Use a free T4" in shown["text/html"]

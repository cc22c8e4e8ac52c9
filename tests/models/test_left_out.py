"""Statements that fail here and that a training may do without are left out, and the answer says so."""

import traceback
from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.script import look
from whichdevice.models.script.found import Place
from whichdevice.models.script.left_out import code_without, place_to_leave_out, run_file
from whichdevice.models.script.look import probe
from whichdevice.models.script.run import Run
from whichdevice.models.script.stand_ins import Silent

FAILS = {  # the second line of a function that the script calls: whether it may be left out
    "open(None)": True,
    "value = {}[1]": True,
    "values[1 / 0] = 2": True,
    "return {}[1]": True,
    "assert False": True,
    "raise ValueError": True,
    "print(open('absent.txt'))": True,  # nothing is made of it
    "value = open('absent.txt')": False,  # data
    "import absent": False,
    "value = absent": False,  # a fault of the script's
    "raise MemoryError": False,
    "raise SystemExit(1)": False,  # the script itself ends
    "if 1 / 0: pass": False,  # nobody knows which way it would go
}
TORCH = """
import os
import torch
from drawing import draw
NAME = None
os.makedirs(os.path.join(NAME, "logs"))
path = os.path.join(NAME, "best.pt")
net = torch.nn.Linear(8, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for epoch in range(3):
    for _ in range(10):
        loss = net(torch.zeros(4, 8)).sum()
        draw(path, NAME)
        loss.backward()
        optimizer.step()
"""
KERAS = """
import numpy as np
import keras
NAME = None
assert NAME, "no name"
best = open(None)
net = keras.Sequential([keras.Input((8,)), keras.layers.Dense(2)])
net.compile("sgd", "mse")
net.fit(np.zeros((40, 8)), np.zeros((40, 2)), batch_size=4, epochs=3)
"""
DRAWING = """
def draw(path, name):
    picture = name + 1
    return picture.save(path)
"""


def failed(text: str, folder: Path) -> tuple[BaseException, str]:
    """An error of a script, and its file."""
    path = folder / "train.py"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(BaseException) as error:  # also one of memory
        run_file(path, {}, ())
    return error.value, str(path)


@pytest.mark.parametrize("statement", FAILS)
def test_what_a_training_may_do_without_can_be_left_out(statement, tmp_path):
    error, file = failed(f"values = []\ndef draw():\n    {statement}\ndraw()\n", tmp_path)
    place = place_to_leave_out(error, {file})
    assert (place and (place.file, place.line)) == ((file, 3) if FAILS[statement] else None)


@pytest.mark.parametrize("name", ["forward", "__getitem__", "call"])
def test_nothing_is_left_out_of_what_a_step_or_an_example_is_made_of(name, tmp_path):
    text = f"class Part:\n    def {name}(self):\n        open(None)\nPart().{name}()\n"
    error, file = failed(text, tmp_path)
    assert place_to_leave_out(error, {file}) is None


def test_a_script_goes_on_where_a_statement_is_left_out(tmp_path):
    """Names that it would have set are silent, lines stay where they are, and nothing else changes."""
    path = tmp_path / "train.py"
    path.write_text("first, (second, third) = {}[1], (2, 3)\ncount = 1\ncount += [][0]\nlast = [][0]\n")
    places = [Place(str(path), line) for line in (1, 3)]
    with pytest.raises(IndexError) as error:
        run_file(path, {}, places)
    assert traceback.extract_tb(error.value.__traceback__)[-1].lineno == 4
    variables = run_file(path, {}, [*places, Place(str(path), 4)])
    assert variables["count"] == 1
    assert all(isinstance(variables[name], Silent) for name in ("first", "second", "third", "last"))


def test_a_function_without_its_return_gives_something_silent(tmp_path):
    path = tmp_path / "train.py"
    path.write_text("def score():\n    return [][0]\n")
    variables: dict[str, object] = {}
    exec(code_without(str(path), [2]), variables)
    assert isinstance(variables["score"](), Silent)


def test_the_answer_names_the_line_and_a_file_beside_the_script(tmp_path):
    place = Place(str(tmp_path / "train.py"), 6, "TypeError: no name.")
    assert place.note(tmp_path / "train.py") == "Line 6 fails here and is left out: TypeError: no name."
    assert place.note(tmp_path / "main.py") == "Line 6 of train.py fails here and is left out: TypeError: no name."


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_pytorch_script_is_looked_at_without_what_fails_here(tmp_path, monkeypatch):
    """It has three such places, one of them in a file beside it."""
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TORCH)
    Path("drawing.py").write_text(DRAWING)
    found = probe(read_address("train.py"))
    assert (found.batch_size, found.examples, found.epochs) == (4, 40, 3)
    places = [(Path(place.file).name, place.line) for place in found.way.left_out]
    assert places == [("train.py", 6), ("train.py", 7), ("drawing.py", 3)]
    assert Run(Path("train.py"), way=found.way).result([]).found.batch_size == 4


@pytest.mark.slow
def test_a_script_with_more_such_places_is_refused_for_the_first(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(look, "MAX_LEFT_OUT", 1)
    Path("train.py").write_text(KERAS)
    with pytest.raises(StudyError, match=r"^train.py: AssertionError: no name \(line 5\)"):
        probe(read_address("train.py"))
    Path("train.py").write_text(KERAS.replace("best = open(None)", ""))
    found = probe(read_address("train.py"))
    assert (found.batch_size, found.examples, found.epochs) == (4, 40, 3)
    assert found.notes == ("Line 5 fails here and is left out: AssertionError: no name.",)

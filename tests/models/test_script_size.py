"""How long a script's training is, by the loops around its step and by its arrays."""

import ast
import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml

from whichdevice.apps.commands.ask import check_size
from whichdevice.apps.questions.question import Question
from whichdevice.base.errors import StudyError
from whichdevice.decide import Wants
from whichdevice.models.loading import Model
from whichdevice.models.script.beside import trainers_beside
from whichdevice.models.script.found import Found
from whichdevice.models.script.look import keep
from whichdevice.models.script.size import Stack, TrainingLength, amounts, is_whole
from whichdevice.models.script.text import turns_over

DRAWS = (
    "def train():\n    turn, i = 0, 0\n    while i < 100 - 1:\n        length = max(9, draw(10))\n"
    "        step()\n        turn += 1\n        i += length\nfor epoch in range(1, epochs + 1):\n    train()"
)
CASES = yaml.safe_load(Path(__file__).with_name("script_sizes.yaml").read_text(encoding="utf-8"))


class Stop(BaseException):
    """The step is called."""


def test_a_place_without_a_line_is_the_scripts() -> None:
    assert Stack(Path("train.py")).where == "train.py"
    assert Stack(Path(__file__)).where.startswith("test_script_size.py, line ")


def stack_in(text: str, folder: Path, given: dict[str, Any]) -> tuple[Stack, Any]:
    """The stack where a script calls `step`, and what it gives it."""
    path, seen = folder / "train.py", []

    def step(*args: Any) -> None:
        seen.append((Stack(path), args))
        raise Stop

    path.write_text(text)
    with pytest.raises(Stop):
        runpy.run_path(str(path), given | {"step": step}, "__main__")
    return seen[0]


@pytest.mark.parametrize("case", CASES, ids=[case["script"] for case in CASES])
def test_the_innermost_loop_is_over_batches_and_those_around_it_over_epochs(case: Any, tmp_path: Path) -> None:
    names = "import math; from itertools import cycle, islice\n"
    given = {
        "epochs": 3, "data": [1, 2, 3, 4], "args": {"n": 5, "none": -1}, "done": 0, "better": lambda: True, "draw": int,
        "Namespace": SimpleNamespace, "optimizers": [SimpleNamespace(param_groups=[])] * 2,
        "DataLoader": lambda data, batch_size: data[::batch_size],
    }  # fmt: skip
    assert stack_in(names + case["script"], tmp_path, given)[0].amount == TrainingLength(**case["amount"])


def test_a_length_that_each_turn_draws_is_told_from_one_that_stays(tmp_path: Path) -> None:
    given = {"epochs": 3, "draw": int}
    assert stack_in(DRAWS, tmp_path, given)[0].drawn == 10
    assert stack_in(DRAWS.replace("max(9, draw(10))", "10"), tmp_path, given)[0].drawn is None


WHOLE = {  # whether the argument of the step is all that the loop trains on
    "for it in range(9):\n    step(x)": True,
    "for it in range(9):\n    step(held['x'])": True,
    "for epoch in range(9):\n    for it in range(9):\n        step(x)": False,
    "for it in range(9):\n    step(x[:2])": False,
    "for it in range(9):\n    x = x + it\n    step(x)": False,
    "for it in range(9):\n    x[:] = it\n    step(x)": False,
    "for x in [x, x]:\n    step(x)": False,
    "for it in range(9):\n    step(graph.x)": True,
    "def train():\n    step(graph.x)\nfor it in range(9):\n    train()": True,
    "def train(it):\n    graph.x = it + x\n    step(graph.x)\nfor it in range(9):\n    train(it)": False,
    "for it in range(9):\n    held['x'] = x + it\n    step(held['x'])": False,
}


@pytest.mark.parametrize("text", WHOLE)
def test_a_batch_that_the_loop_leaves_as_it_is_is_all_examples(text: str, tmp_path: Path) -> None:
    given = {"x": np.zeros((4, 5)), "held": {"x": np.zeros(3)}, "graph": SimpleNamespace(x=np.zeros((4, 5)))}
    stack, batch = stack_in(text, tmp_path, given)
    assert is_whole(batch, stack.outside) == WHOLE[text]


def test_examples_are_a_loaders_or_of_the_longest_array_like_a_batch() -> None:
    def size(loops: TrainingLength, shapes: list[tuple[int, ...]], *rest: Any) -> tuple[Any, Any]:
        found = amounts(scopes, loops, shapes, *rest)
        return found["examples"], found["epochs"]

    scopes = [{"x": np.zeros((8, 5)), "data": {"all": np.zeros((90, 5)), "labels": np.zeros(90)}, "num_epochs": 6}]
    assert size(TrainingLength(), [(8, 5)], None) == (90, 6)
    assert size(TrainingLength(2), [(8, 7), (8,)], 70) == (70, 2)
    assert size(TrainingLength(1, 500), [(8, 5)], 70) == (4000, 1)
    assert size(TrainingLength(3, 250), [(8, 5)], None) == (2000, 3)
    assert size(TrainingLength(3, 12), [(8, 5)], None) == (90, 3), "the last batch is smaller"
    assert size(TrainingLength(1, 500), [(8, 5)], 70, None, True) == (8, 500)
    assert size(TrainingLength(2, batches=9), [(800, 5)], 288, 9) == (7200, 2), "rows of a batch of 32 graphs"
    assert size(TrainingLength(unknown="no end"), [(8, 5)], None) == (90, None)


ASKED = "line 3 has no end that shows: add "
SIZES = {  # examples that a script shows, whether its end shows, what the question names: what is asked for
    "all shown": (640, True, {}, None),
    "no end": (640, False, {}, ASKED + "--epochs N or --steps N"),
    "no end and no examples": (None, False, {}, ASKED + "--steps N"),
    "steps named": (None, False, {"steps": 100}, None),
    "examples named": (None, False, {"examples": 100}, None),
    "epochs named": (640, False, {"epochs": 2}, None),
    "epochs of unknown examples": (None, False, {"epochs": 2}, ASKED + "--steps N"),
}


@pytest.mark.parametrize("case", SIZES)
def test_a_size_that_no_loop_shows_is_asked_for_unless_it_is_named(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    examples, ends, named, asked = SIZES[case]
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import torch\nwhile True:\n    optimizer.step()\n")
    unknown = None if ends else "the loop in line 3 has no end that shows"
    keep(Model.read("train.py").address, Found("torch", 64, examples, 1 if ends else None, unknown=unknown))
    question = Question(model=Model.read("train.py"), wants=Wants(**named))
    if asked is None:
        check_size(question)
        return
    with pytest.raises(StudyError, match=asked) as refused:
        check_size(question)
    assert "\n" not in str(refused.value)


HELPER = """
def other(tape, optimizer):
    optimizer.apply_gradients(tape.gradient(1))
def run(step):
    for turn in range(2):
        step(turn)
        other(None, None)
"""


def test_what_trains_beside_a_step_is_found_where_two_files_have_it_in_the_same_line(tmp_path: Path) -> None:
    (tmp_path / "helper.py").write_text(HELPER)
    helper = runpy.run_path(str(tmp_path / "helper.py"))
    stack, _ = stack_in("\n" * 5 + "run(step)\n", tmp_path, {name: helper[name] for name in ("run", "other")})
    assert len({part.line for part in stack.own}) == 1 < len(stack.own)
    assert trainers_beside(stack, None) == [(str(tmp_path / "helper.py"), 7)]


NESTED = """
def pairs(data):
    for x in data:
        yield x, x
class Own:
    def rows(self, data, size):
        for start in range(0, len(data), size):
            yield data[start]
own = Own()
"""
LENGTHS = {  # an expression that a loop is over: turns
    "data": 4, "enumerate(data, 1)": 4, "reversed(range(3))": 3, "tqdm(zip(data, cycle(data)), total=9)": 4,
    "islice(data, 10)": 4, "islice(cycle(data), 7)": 7, "islice(data, 1, None)": 3, "islice(cycle(data), None)": None,
    "DataLoader(data, batch_size=3)": 2, "launcher.prepare(loader)": 3, "pairs(data)": 4, "own.rows(data, 2)": 2,
    "stored.take(2)": 2, "stored.take(9).enumerate()": 4, "stored.repeat()": None, "table.items()": 1,
    # What makes parts of an array, or reads a name, gives any number.
    "split(rows, 2)": None, "chunks(data, 3)": None, "read('name')": None, "stream()": None,
}  # fmt: skip


@pytest.mark.parametrize("text", LENGTHS)
def test_turns_of_a_loop_are_those_of_what_it_is_over(text: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(NESTED)
    given = {"data": [1, 2, 3, 4], "rows": np.zeros((8, 2)), "table": {"a": 1}}
    given |= {"loader": Sized(3), "stored": Sized(4), **runpy.run_path(str(tmp_path / "train.py"))}
    assert turns_over(ast.parse(text, mode="eval").body, given) == LENGTHS[text]


class Sized:
    """A loader, or a data set of a library."""

    def __init__(self, length: int) -> None:
        self.length = length

    def __len__(self) -> int:
        return self.length

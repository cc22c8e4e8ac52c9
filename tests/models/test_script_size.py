"""How long a script's training is, by the loops around its step and by its arrays."""

import runpy
import sys

import numpy as np
import pytest

from whichdevice.models.script_size import frames, is_whole, loops_in, outside, sizes

CASES = {
    "for epoch in range(1, epochs + 1):\n    for x in data:\n        step()": (3, None),
    "for _ in range(len(data)):\n    for i, x in enumerate(data):\n        if i == 1:\n            step()": (4, None),
    "for it in range(args['n']):\n    step()": (None, None),
    "for it in range(500):\n    step()": (1, 500),
    "for epoch in range(20):\n    step()": (20, None),
    "for x in data:\n    step()": (1, None),
    "while True:\n    step()": (None, None),
    "step()": (None, None),
    "def train(epoch):\n    for x in data:\n        step()\nfor epoch in list(range(7)):\n    train(epoch)": (7, None),
    "for epoch in range(9):\n    def closure():\n        step()\n    for x in data:\n        closure()": (9, None),
}


class Stop(BaseException):
    """The step is called."""


@pytest.mark.parametrize("text", CASES)
def test_the_innermost_loop_is_over_batches_and_the_one_around_it_over_epochs(text, tmp_path):
    found = []

    def step():
        found.append(loops_in(sys._getframe(1), path))
        raise Stop

    path = tmp_path / "train.py"
    path.write_text("epochs, data, args = 3, [1, 2, 3, 4], {'n': 5}\n" + text)
    with pytest.raises(Stop):
        runpy.run_path(str(path), {"step": step}, "__main__")
    assert found == [CASES[text]]


WHOLE = {  # whether the argument of the step is all that the loop trains on
    "for it in range(9):\n    step(x)": True,
    "for it in range(9):\n    step(held['x'])": True,
    "for epoch in range(9):\n    for it in range(9):\n        step(x)": False,
    "for it in range(9):\n    step(x[:2])": False,
    "for it in range(9):\n    x = x + it\n    step(x)": False,
    "for it in range(9):\n    x[:] = it\n    step(x)": False,
    "for x in [x, x]:\n    step(x)": False,
    "for it in range(9):\n    held['x'] = x + it\n    step(held['x'])": False,
}


@pytest.mark.parametrize("text", WHOLE)
def test_a_batch_that_the_loop_leaves_as_it_is_is_all_examples(text, tmp_path):
    found = []
    path = tmp_path / "train.py"
    path.write_text(text)
    given = {"x": np.zeros((4, 5)), "held": {"x": np.zeros(3)}}
    runpy.run_path(str(path), given | {"step": lambda x: found.append(is_whole([x], outside(sys._getframe(1), path)))})
    assert found[0] == WHOLE[text]


def test_examples_are_a_loaders_or_of_the_longest_array_like_a_batch():
    scopes = [{"x": np.zeros((8, 5)), "data": {"all": np.zeros((90, 5)), "labels": np.zeros(90)}, "num_epochs": 6}]
    assert sizes(scopes, (None, None), [(8, 5)], None) == {"examples": 90, "epochs": 6}
    assert sizes(scopes, (2, None), [(8, 7), (8,)], 70) == {"examples": 70, "epochs": 2}
    assert sizes(scopes, (1, 500), [(8, 5)], 70) == {"examples": 4000, "epochs": 1}
    assert sizes(scopes, (1, 500), [(8, 5)], 70, whole=True) == {"examples": 8, "epochs": 500}
    assert list(frames(None)) == []

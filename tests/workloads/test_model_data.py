"""Generated data have the shapes asked for and can be learnt from; a data function's are checked."""

import itertools

import numpy as np
import pytest

from whichdevice.errors import StudyError
from whichdevice.workloads import given_data
from whichdevice.workloads.declaration import Array
from whichdevice.workloads.generated_data import generate
from whichdevice.workloads.given_data import pairs_of


def test_generated_data_have_the_shapes_and_types_asked_for():
    inputs, targets = generate(Array((8, 8, 3), "uint8"), Array((), "int32", 10), 100, None, 1)
    assert (inputs.shape, inputs.dtype, targets.shape, targets.dtype) == ((100, 8, 8, 3), np.uint8, (100,), np.int32)
    assert targets.min() >= 0 and targets.max() < 10
    assert len(np.unique(targets)) == 10


def test_the_open_axis_is_the_sequence():
    tokens = Array((None,), "int32", 50)
    inputs, targets = generate(tokens, tokens, 4, 12, 1)
    assert inputs.shape == targets.shape == (4, 12)
    assert (targets == (inputs.astype(int) * 7 + 3) % 50).all()


def test_a_linear_model_learns_from_generated_numbers():
    inputs, targets = generate(Array((16,)), Array((2,)), 400, None, 1)
    others, truth = generate(Array((16,)), Array((2,)), 100, None, 2)
    weights = np.linalg.lstsq(inputs, targets, rcond=None)[0]
    assert np.square(others @ weights - truth).mean() < 0.1 * np.square(truth).mean()


def test_an_eighth_of_the_data_validates_where_the_function_gives_none():
    train, validation = pairs_of((np.zeros((80, 3)), np.zeros(80, np.int64)), None, "mine.py: data()")
    assert (len(train[0]), len(validation[0])) == (70, 10)
    assert train[0].dtype == np.float32 and train[1].dtype == np.int32


def test_a_generator_without_end_is_told_before_memory_ends(monkeypatch):
    monkeypatch.setattr(given_data, "MOST_BYTES", 1e6)
    with pytest.raises(StudyError, match=r"data\(\) yielded [\d,]+ examples, .* and goes on; say in EXAMPLES how many"):
        pairs_of(((np.zeros(100), 1.0) for _ in itertools.count()), None, "mine.py: data()")


def test_a_generator_is_read_until_there_are_enough():
    def examples():
        while True:
            yield np.zeros(3), 1

    train, validation = pairs_of(examples(), 16, "mine.py: data()")
    assert len(train[0]) + len(validation[0]) == 16


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "mine.py: data\\(\\) returns None; it must return"),
        ((np.zeros((9, 2)), np.zeros(8)), "returns 9 inputs and 8 targets; every input needs one target"),
        ((np.zeros((4, 2)), np.zeros(4)), "gives 4 examples; 8 are the least"),
        ((np.array(["a"] * 8), np.zeros(8)), "returns an array of type <U1; numbers are needed"),
        (iter([(np.zeros(3), 1), (np.zeros(4), 1)]), "inputs of different shapes"),
        (iter([7]), "yields a int"),
        (iter([]), "ended before its first example"),
    ],
)
def test_what_is_wrong_with_given_data_is_said(given, message):
    with pytest.raises(StudyError, match=message):
        pairs_of(given, None, "mine.py: data()")

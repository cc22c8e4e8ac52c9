"""Structures of arrays keep their form on their way through a flat dict, and what does not fit is one line."""

import numpy as np
import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.consistency import check_data, check_inputs, check_outputs
from whichdevice.models.data import splits_of
from whichdevice.models.declaration import Declaration, read_declaration
from whichdevice.models.shapes import Array, Signature

WHERE = "mine.py: data()"
X, Y = np.zeros((16, 3)), np.zeros(16)


@pytest.mark.parametrize(
    ("given", "keys"),
    [
        ((X, Y), {"inputs", "targets"}),
        ((X, Y, Y), {"inputs", "targets", "weights"}),
        (({"a": X, "b": Y}, Y), {"inputs/a", "inputs/b", "targets"}),
        (((X, X), Y), {"inputs/#0", "inputs/#1", "targets"}),
        ((X, {"a": Y, "b": X}), {"inputs", "targets/a", "targets/b"}),
        (X, {"inputs"}),
        ({"a": X}, {"inputs/a"}),
        (((X, Y), (X[:8], Y[:8])), {"inputs", "targets"}),
        (((X, Y, Y), (X[:8], Y[:8], Y[:8])), {"inputs", "targets", "weights"}),
        ((({"a": X}, Y), ({"a": X}, Y)), {"inputs/a", "targets"}),
        (([[0.0] * 3] * 16, [0] * 16), {"inputs", "targets"}),
        ([X, Y], {"inputs", "targets"}),
    ],
)
def test_every_form_of_data_becomes_arrays_by_path(given, keys):
    train, validation = splits_of(given, None, WHERE)
    assert {*train} == {*validation} == keys
    assert len({len(array) for array in train.values()}) == 1


def test_a_pair_of_tuples_is_two_inputs_and_two_targets_where_input_says_so():
    train, _ = splits_of(((X, X), (Y, Y)), None, WHERE, input_=(Array((3,)), Array((3,))))
    assert {*train} == {"inputs/#0", "inputs/#1", "targets/#0", "targets/#1"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (({"a": X, "b": X[:4]}, Y), "returns 16 inputs/a, 4 inputs/b, 16 targets; there must be one of each"),
        ((X, Y, Y, Y), "returns a tuple of 4; it must return"),
        ((x for x in [(X[0], 1), (X[0], 1, 2)]), "yields 2 and 3 parts"),
    ],
)
def test_data_of_no_form_are_one_line(given, message):
    with pytest.raises(StudyError, match=message):
        splits_of(given, None, WHERE)


@pytest.mark.parametrize("key", ["inputs", "targets", "weights"])
def test_a_number_that_is_not_finite_is_named_wherever_it_is(key):
    good = {"inputs": np.zeros((200, 3), np.float32), "targets": np.zeros(200, np.float32)}
    good["weights"] = np.ones(200, np.float32)
    bad = {name: array.copy() for name, array in good.items()}
    bad[key][-7:] = np.nan
    what = "sample weights" if key == "weights" else key
    with pytest.raises(StudyError, match=f"its {what} are not finite: example 193 has nan"):
        check_data(bad, good, Declaration(loss="mse"), None, WHERE)
    with pytest.raises(StudyError, match=f"its validation {what} are not finite"):
        check_data(good, bad, Declaration(loss="mse"), None, WHERE)


def test_one_hot_and_class_numbers_are_told_apart_by_the_loss():
    one_hot = {"inputs": np.zeros((8, 3), np.float32), "targets": np.eye(4, dtype=np.float32)[[0, 1] * 4]}
    with pytest.raises(StudyError, match=r"are one-hot, but LOSS .* take categorical_crossentropy"):
        check_data(one_hot, one_hot, Declaration(loss="sparse_categorical_crossentropy"), None, WHERE)
    numbers = one_hot | {"targets": np.array([0, 3] * 4, np.int32)}
    with pytest.raises(StudyError, match=r"are class numbers, .* take sparse_categorical_crossentropy"):
        check_data(numbers, numbers, Declaration(loss="categorical_crossentropy"), None, WHERE)


IMAGE = Signature(Array((28, 28, 1)), Array((10,)))
PAIR = Signature((Array((3,)), Array((4,))), Array((1,)), ("left", "right"))


@pytest.mark.parametrize(
    ("given", "signature", "message"),
    [
        (Array((32, 28, 28, 1)), IMAGE, "give the shape of one example, without the batch"),
        (Array((1, 28, 28)), IMAGE, "the model has channels last"),
        (Array((28, 28)), IMAGE, r"one input has shape \(28, 28\), the model takes \(28, 28, 1\)"),
        (Array((3,)), PAIR, r"has 1 array, the model takes 2 arrays: left \(3,\), right \(4,\)"),
        ({"left": Array((3,)), "rihgt": Array((4,))}, PAIR, "no input of the model is named 'rihgt'"),
        ({"left": Array((3,)), "right": Array((5,))}, PAIR, r"has shape \(5,\), the model takes \(4,\)"),
    ],
)
def test_inputs_that_do_not_fit_are_one_line_with_a_hint(given, signature, message):
    with pytest.raises(StudyError, match=message):
        check_inputs(given, signature, None, "mine.py")


@pytest.mark.parametrize(
    ("target", "loss", "message"),
    [
        (
            Array((), "int32", 20),
            "sparse_categorical_crossentropy",
            "gives 10 scores, but targets are classes from 0 to 19",
        ),
        (Array((), "int32", 10), "categorical_crossentropy", "needs one-hot targets; for class numbers take sparse"),
        (Array((3,)), "mse", r"one target has shape \(3,\), the model gives \(10,\)"),
        ((Array((10,)), Array((10,))), "mse", "there are targets for 2 arrays, the model gives 1 array"),
    ],
)
def test_targets_that_do_not_fit_are_one_line(target, loss, message):
    with pytest.raises(StudyError, match=message):
        check_outputs(target, IMAGE, loss, None, "mine.py")


def test_constants_may_describe_several_arrays_and_name_a_loss_for_each(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        'INPUT = ({"shape": (3,)}, {"shape": (4,)})\nTARGET = {"a": {"shape": ()}, "b": {"shape": (2,)}}\n'
        'LOSS = {"a": "mse", "b": "mae"}\nLOSS_WEIGHTS = {"a": 1.0, "b": 2}\nMETRIC = {"a": "mae"}\n'
        "def model(options):\n    return None\n"
    )
    found = read_declaration(path)
    assert found.fault is None
    assert found.input == (Array((3,)), Array((4,))) and found.target == {"a": Array(()), "b": Array((2,))}
    assert (found.loss["b"], found.loss_weights["b"], found.metric["a"]) == ("mae", 2, "mae")

"""Generated data have the shapes asked for and can be learnt from; a data function's are checked."""

import itertools

import numpy as np
import pytest
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.models.consistency import check_data
from whichdevice.models.data import generate, splits_of
from whichdevice.models.declaration import Declaration
from whichdevice.models.loading import Model
from whichdevice.models.shapes import Array
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

SORTED = BESIDE["sorted"]


def test_a_shape_that_has_the_batch_in_it_is_refused_before_data_are_made():
    shapes = Array((128, 28, 28, 100), "float32"), Array((), "int32", 10)
    message = r"60,000 examples of INPUT and TARGET take 2.41e\+03 GB, more than 8 GB. Both are shapes of one example"
    with pytest.raises(StudyError, match=message):
        generate(*shapes, 60_000, None, 0)


def test_data_sorted_by_class_validate_with_every_class_and_always_the_same_examples():
    given = np.arange(800, dtype=np.int32), np.repeat(np.arange(4), 200)
    train, held_out = splits_of(given, None, "mine.py: data()")
    assert np.unique(held_out["targets"]).tolist() == [0, 1, 2, 3]
    assert sorted([*train["inputs"], *held_out["inputs"]]) == [*range(800)]
    np.testing.assert_array_equal(splits_of(given, None, "mine.py: data()")[1]["inputs"], held_out["inputs"])


def test_a_smaller_fraction_is_drawn_from_a_larger_one_and_has_every_class(tmp_path):
    path = tmp_path / "sorted_classes.py"
    path.write_text(SORTED)
    parts = [Model.read(str(path)).workload(Options(4, fraction=share)).splits({})[0].arrays for share in (0.5, 0.25)]
    assert [len(part["inputs"]) for part in parts] == [200, 100]
    assert {*parts[1]["inputs"]} < {*parts[0]["inputs"]}
    assert np.unique(parts[1]["targets"]).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(("train", "held_out", "message"), BESIDE["class numbers of both splits are checked"])
def test_class_numbers_of_both_splits_are_checked(train, held_out, message):
    pair = {"inputs": np.zeros((2, 3), np.float32), "targets": np.array(train, np.int32)}
    held = pair | {"targets": np.array(held_out, np.float32 if isinstance(held_out[0], float) else np.int32)}
    declared = Declaration(loss="sparse_categorical_crossentropy")
    with pytest.raises(StudyError, match=message):
        check_data(pair, held, declared, None, "mine.py: data()")


def test_a_class_that_only_validation_has_counts():
    pair = {"inputs": np.zeros((2, 3), np.float32), "targets": np.array([0, 1], np.int32)}
    declared = Declaration(loss="sparse_categorical_crossentropy")
    assert (
        check_data(pair, pair | {"targets": np.array([7, 0], np.int32)}, declared, None, "mine.py: data()")[1].below
        == 8
    )


def test_a_generator_without_end_is_told_before_memory_ends():
    large = np.broadcast_to(0.0, 10**8)
    with pytest.raises(StudyError, match=r"data\(\) yielded [\d,]+ examples, .* and goes on; say in EXAMPLES how many"):
        splits_of(((large, 1.0) for _ in itertools.count()), None, "mine.py: data()")


def test_a_generator_is_read_until_there_are_enough():
    def examples():
        while True:
            yield np.zeros(3), 1

    train, validation = splits_of(examples(), 16, "mine.py: data()")
    assert len(train["inputs"]) + len(validation["inputs"]) == 16


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (None, "mine.py: data\\(\\) returns None .is a `return` missing.*; it must return"),
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
        splits_of(given, None, "mine.py: data()")


READING = BESIDE["reading"]


@pytest.mark.parametrize(("given", "refused"), BESIDE["an option that no function reads is refused once all is built"])
def test_an_option_that_no_function_reads_is_refused_once_all_is_built(given, refused, tmp_path):
    path = tmp_path / "reading.py"
    path.write_text(READING)
    workload = Model.read(str(path)).workload(Options(8, given=given))
    workload.splits({})
    workload._called("model")
    if refused is None:
        workload.check_options()
    else:
        with pytest.raises(StudyError, match=f"^reading.py: {refused}$"):
            workload.check_options()

"""What `accuracy` counts under each kind of loss."""

import numpy as np
import pytest

from whichdevice.models.losses import named_metric


@pytest.fixture(scope="module")
def ops():
    import keras

    return keras.ops


def accuracy(ops, loss, target, prediction) -> float:
    given = ops.convert_to_tensor(np.array(target)), ops.convert_to_tensor(np.array(prediction, np.float32))
    return float(ops.mean(named_metric("accuracy", loss, "mine.py")(*given)))


def test_several_yes_or_no_answers_are_judged_one_by_one(ops):
    labels, scores = [[1, 0, 1, 0], [0, 0, 0, 1]], [[0.9, 0.6, 0.8, 0.1], [0.2, 0.1, 0.3, 0.4]]
    assert accuracy(ops, "binary_crossentropy", labels, scores) == pytest.approx(6 / 8)


def test_the_largest_of_several_scores_is_the_class(ops):
    scores = [[0.2, 0.3, 0.5], [0.6, 0.3, 0.1]]
    assert accuracy(ops, "categorical_crossentropy", [[0, 0, 1], [0, 1, 0]], scores) == 0.5
    assert accuracy(ops, "sparse_categorical_crossentropy", [2, 0], scores) == 1.0


@pytest.mark.parametrize("loss", ["binary_crossentropy", "mse"])
@pytest.mark.parametrize("target", [[1, 0, 1, 1], [[1], [0], [1], [1]]])
def test_one_score_is_a_yes_above_a_half(ops, loss, target):
    assert accuracy(ops, loss, target, [[0.7], [0.2], [0.4], [0.9]]) == 0.75

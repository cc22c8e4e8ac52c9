"""Every backend and loop reaches the same accuracy: two one-sided t-tests over ten seeds, margin .3 points.

A seed gives every backend the same initial weights and batch order (and the spread of its own initial weights is
checked against theirs), so that seeds pair and only dropout and rounding differ. A tenth of stand-in MNIST, three
epochs of `mnist_cnn`, Adam's rate falling to nothing: accuracies near 94.7 %, standard deviation of pairs near .2.
"""

from pathlib import Path

import pytest
from backends.scenario import accuracies
from needs import require
from scipy import stats

from whichdevice.study.prepare import prepare_dataset

pytestmark = [pytest.mark.slow, pytest.mark.long]

MARGIN = 0.3  # points
RECIPE = {"workload": "mnist_cnn", "batch_size": 128, "fraction": 0.1, "seeds": 10, "epochs": 3}


def interval(first: list[float], second: list[float]) -> tuple[float, float]:
    """90 % interval of the mean difference of pairs: inside ±margin, both one-sided tests have p < .05."""
    low, high = stats.ttest_rel(first, second).confidence_interval(0.90)
    return float(low), float(high)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("datasets") / "mnist" / "standin"
    prepare_dataset("mnist", "standin", None, 1, folder)
    return folder


@pytest.fixture(scope="module")
def initial(tmp_path_factory) -> Path:
    """Where the reference leaves its initial weights."""
    return tmp_path_factory.mktemp("initial")


@pytest.fixture(scope="module")
def reference(dataset, initial, tmp_path_factory) -> list[float]:
    """TensorFlow's."""
    return accuracies(tmp_path_factory.mktemp("reference"), dataset, initial, **RECIPE)


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_accuracy_is_equivalent(dataset, initial, reference, tmp_path, backend):
    if backend == "torch":
        require("torch")
    found = accuracies(tmp_path, dataset, initial, backend=backend, **RECIPE)
    low, high = interval(found, reference)
    print(f"{backend} - tensorflow: 90 % interval [{low:.2f}, {high:.2f}] points")
    assert low > -MARGIN and high < MARGIN


def test_a_loop_that_forgets_dropout_is_not_equivalent(dataset, initial, reference, tmp_path):
    low, high = interval(accuracies(tmp_path, dataset, initial, fault="no_dropout", **RECIPE), reference)
    assert low > MARGIN or high < -MARGIN

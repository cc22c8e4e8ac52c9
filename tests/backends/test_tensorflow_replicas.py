"""TensorFlow on several virtual devices: what replicas must get right besides the loss (test_same_learning.py)."""

import sys

import numpy as np
import pytest
from backends.tensorflow_behaviour import behaviours

from whichdevice.measure.backends.keras_on_tensorflow import shared_out


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, dict]:
    """Everything that is asked of several replicas.

    The overflow alone: its many collectives meet those of earlier programs in one process.
    """
    asked = ["evaluation", "reset"] + ["kernels"] * (sys.platform == "linux")
    together = behaviours(tmp_path_factory.mktemp("replicas"), *asked)
    return together | behaviours(tmp_path_factory.mktemp("overflow"), "overflow")


@pytest.mark.slow
def test_validation_counts_every_example_once_and_predictions_keep_their_order(found):
    seen = found["evaluation"]
    assert seen["evaluated"] == pytest.approx(seen["expected"], rel=1e-5)
    assert seen["shape"] == [23, 10]
    assert seen["difference"] < 1e-6
    assert seen["flags"]["strategy"] == "MirroredStrategy"
    assert seen["device"] == [None, 1]  # virtual devices are one CPU


@pytest.mark.slow
def test_reset_brings_back_every_replica_and_callbacks_may_change_the_rate(found):
    seen = found["reset"]
    assert seen["again"] == pytest.approx(seen["first"], abs=1e-6)
    assert seen["rates"] == [pytest.approx(1e-5)]


@pytest.mark.slow
def test_an_overflow_on_any_replica_skips_the_step_and_halves_the_scale(found):
    kept = found["overflow"]["kept"]
    assert all(finite for finite, _, _ in kept)
    assert kept[0][1:] == [1.0, 1]  # applied
    assert kept[-1][1:] == [0.5, 0]  # skipped
    assert all((scale, steps) in {(1.0, 1), (0.5, 0)} for _, scale, steps in kept)


@pytest.mark.slow
@pytest.mark.needs("linux")  # its TensorFlow alone knows GPU kernels
def test_data_never_goes_back_to_the_host_for_lack_of_a_gpu_kernel(found):
    assert set(found["kernels"]) <= {"ScatterNd"}  # a few flags of the sparse embedding update


@pytest.mark.parametrize(
    ("examples", "size", "replicas", "shapes"),
    [
        (23, 10, 1, [(1, 10), (1, 10), (1, 3)]),
        (23, 10, 8, [(8, 2), (8, 7)]),
        (1, 1, 8, [(8, 1)]),
        (10_000, 1000, 8, [(8, 1000), (8, 250)]),
    ],
)
def test_examples_are_shared_out_in_few_shapes(examples, size, replicas, shapes):
    shares = list(shared_out(examples, size, replicas))
    assert [index.shape for index, _ in shares] == shapes
    assert sum(count for _, count in shares) == examples
    seen = [np.unique(index) for index, _ in shares]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(examples))
    assert [len(part) for part in seen] == [count for _, count in shares]

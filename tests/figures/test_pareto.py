"""The Pareto front holds what nothing beats in both directions, and nothing else."""

import numpy as np
import pytest

from whichdevice.figures.style import front


@pytest.mark.parametrize("higher", [True, False])
def test_a_point_is_on_the_front_just_where_none_beats_it(higher: bool) -> None:
    random = np.random.default_rng(1)
    cost, quality = random.uniform(size=(2, 60))
    best = set(front(cost, quality, higher).tolist())
    gain = quality if higher else -quality
    for place in range(60):
        beaten = ((cost <= cost[place]) & (gain >= gain[place]) & (np.arange(60) != place)).any()
        assert (place in best) != beaten


def test_of_equal_ones_the_cheapest_alone_is_on_it() -> None:
    assert front(np.array([3.0, 1.0, 2.0]), np.array([0.9, 0.9, 0.9]), True).tolist() == [1]


def test_no_points_have_no_front() -> None:
    assert front(np.array([]), np.array([]), True).tolist() == []

"""Where step times settle, and whether a trend is left."""

import numpy as np
import pytest
from scipy.stats import kendalltau, theilslopes

from whichdevice.measure.timing import settled_from, trend_of, trend_test


def windows(times) -> list[tuple[int, float]]:
    return [(10, 10 * float(time)) for time in times]


def noisy(seed: int, n: int, spread: float = 0.03) -> np.ndarray:
    return np.exp(np.random.default_rng(seed).normal(0, spread, n))


@pytest.mark.parametrize(("slope", "direction"), [(0.2, "rising"), (-0.2, "falling")])
def test_a_trend_beyond_the_noise_is_seen(slope, direction):
    series = [windows(noisy(seed, 12, 0.02) * (1 + slope * np.linspace(0, 1, 12))) for seed in range(20)]
    assert sum(trend_of(one).direction == direction for one in series) >= 18


def test_a_drift_that_changes_no_verdict_is_no_trend():
    timing = trend_of(windows(np.linspace(1, 1.008, 12)))
    assert timing.direction == "none" and timing.p < 0.001


@pytest.mark.parametrize("n", [12, 100])
def test_a_slow_start_is_cut_where_it_ends(n):
    slow = n // 4
    cuts = []
    for seed in range(20):
        times = noisy(seed, n, 0.02)
        times[:slow] *= 1.3
        cuts.append(settled_from(windows(times), 0))
    assert min(cuts) >= slow and np.median(cuts) <= 1.3 * slow


@pytest.mark.parametrize("ties", [False, True])
def test_a_trend_has_the_p_and_the_slope_that_scipy_finds(ties):
    for seed in range(30):
        values = noisy(seed, 5 + seed % 16)
        values = values.round(2) if ties else values
        places, has_ties = np.arange(len(values)), len({*values}) < len(values)
        p = kendalltau(places, values, method="asymptotic" if has_ties else "exact").pvalue
        assert trend_test(values) == pytest.approx((p, theilslopes(values, places).slope), rel=1e-9)

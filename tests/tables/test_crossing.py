"""A crossing lies where lines between measured ratios pass 1; its interval covers it as often as it says."""

import math

import numpy as np
import pandas as pd
import pytest

from whichdevice.tables import crossover
from whichdevice.tables.crossover import held_shares, held_sizes, ratios_between
from whichdevice.tables.statistics import FASTER, SLOWER, decided, paired, t_quantile

SIZES = [32, 64, 128, 256, 512]


def logs_of(ratios: dict[int, list[float]]) -> pd.DataFrame:
    """Ratios of repeats by size, as logarithms."""
    return pd.DataFrame({size: np.log(values) for size, values in ratios.items()})


def crossings(logs: pd.DataFrame) -> list[crossover.Crossing]:
    """The crossings between sizes that the decision rule decides, all sizes one family."""
    long = logs.melt(var_name="size", value_name="log")
    verdicts = decided(paired(long["log"], long["size"]))["verdict"]
    return crossover.crossings(logs, [{FASTER: 1, SLOWER: -1}.get(verdicts[size], 0) for size in logs])


def simulated(random: np.random.Generator, n: int, true: float, noise: float, shared: float) -> pd.DataFrame:
    """Repeats of a ratio that is a straight line on logarithmic axes, 1 at `true`; some noise is the repeat's."""
    line = 0.6 * np.log(np.array(SIZES) / true)
    own = random.normal(0, noise * math.sqrt(1 - shared), (n, len(SIZES)))
    return pd.DataFrame(line + own + random.normal(0, noise * math.sqrt(shared), (n, 1)), columns=SIZES)


@pytest.mark.parametrize(("n", "noise", "shared"), [(3, 0.03, 0.0), (3, 0.1, 0.7), (5, 0.1, 0.0), (8, 0.03, 0.7)])
def test_95_of_100_intervals_hold_the_true_crossing(n: int, noise: float, shared: float) -> None:
    random = np.random.default_rng(7)
    sure = [-1, 0, 0, 0, 1]  # which sizes are decided is not the interval's affair
    found = [crossover.crossings(simulated(random, n, 180.0, noise, shared), sure) for _ in range(600)]
    assert all(len(one) == 1 for one in found)
    held = np.mean([one[0].low <= 180 <= one[0].high for one in found if one])
    assert 0.925 < held < 0.975  # 2.8 standard errors of 600 draws


def test_the_interval_shrinks_with_repeats_and_with_less_noise() -> None:
    random = np.random.default_rng(7)

    def width(n: int, noise: float) -> float:
        made = [crossings(simulated(random, n, 180.0, noise, 0.0)) for _ in range(60)]
        return float(np.median([one[0].high / one[0].low for one in made if one]))

    assert width(3, 0.02) < width(3, 0.08)
    assert width(10, 0.08) < width(3, 0.08)


def test_exact_ratios_cross_where_the_line_does() -> None:
    (found,) = crossings(logs_of({64: [0.5, 0.5], 256: [2.0, 2.0]}))
    assert [found.size, found.low, found.high] == pytest.approx([128, 128, 128])
    assert (found.below, found.above, found.sign) == (64, 256, 1)
    (skewed,) = crossings(logs_of({64: [0.5] * 3, 256: [8.0] * 3}))
    assert skewed.size == pytest.approx(64 * 4**0.25)  # a quarter of the way on both logarithmic axes


def test_the_interval_ends_where_the_t_interval_of_interpolated_repeats_touches_1() -> None:
    logs = logs_of({64: [0.5, 0.55, 0.6], 256: [1.9, 2.4, 2.0]})
    (found,) = crossings(logs)
    for end, sign in [(found.low, 1), (found.high, -1)]:
        share = math.log(end / 64) / math.log(4)
        values = ((1 - share) * logs[64] + share * logs[256]).to_numpy()
        touching = values.mean() + sign * t_quantile(3) * values.std(ddof=1) / math.sqrt(3)
        assert touching == pytest.approx(0, abs=1e-9)


def test_falling_and_several_crossings() -> None:
    ratios = {8: [0.5, 0.51], 32: [2.0, 2.01], 128: [0.4, 0.41]}
    assert [(one.below, one.above, one.sign) for one in crossings(logs_of(ratios))] == [(8, 32, 1), (32, 128, -1)]


def test_an_undecided_size_between_two_decided_ones_widens_the_interval() -> None:
    near = {16: [0.5, 0.52, 0.51], 64: [0.9, 1.2, 1.0], 256: [2.0, 2.1, 2.05]}
    (found,) = crossings(logs_of(near))
    assert found.low < 64 < found.high
    without = crossings(logs_of({size: values for size, values in near.items() if size != 64}))[0]
    assert found.high / found.low > without.high / without.low


def test_one_repeat_crosses_nowhere_for_sure() -> None:
    logs = logs_of({64: [0.5], 256: [2.0]})
    assert crossings(logs) == []
    assert held_shares(logs[64].to_numpy(), logs[256].to_numpy()) == [(0.0, 1.0)]


def test_a_repeat_that_lacks_a_size_is_left_out_of_the_stretches_beside_it_alone() -> None:
    logs = logs_of({16: [0.4, 0.41, 0.42], 64: [0.5, 0.52, np.nan], 256: [2.0, 2.1, 2.2]})
    (found,) = crossings(logs)
    pair = logs.iloc[:2]
    assert (found.low, found.high) == pytest.approx(held_sizes(pair[[64, 256]], 0, 1))


def test_no_size_holds_1_where_both_ends_are_sure() -> None:
    assert held_sizes(logs_of({16: [2.0, 2.1, 2.05], 64: [3.0, 3.3, 3.1]}), 0, 1) is None


def test_the_band_at_measured_sizes_is_their_own_interval() -> None:
    logs = logs_of({64: [0.5, 0.55, 0.6], 256: [1.9, 2.4, 2.0]})
    band = ratios_between(logs, 0, np.array([0.0, 0.5, 1.0]))
    assert band["size"].tolist() == pytest.approx([64, 128, 256])
    half = t_quantile(3) * logs[64].std() / math.sqrt(3)
    assert np.log(band.loc[0, ["low", "high"]].to_numpy(float)) == pytest.approx(
        [logs[64].mean() - half, logs[64].mean() + half]
    )

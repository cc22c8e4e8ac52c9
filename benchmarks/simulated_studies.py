"""How often intervals and verdicts are right where the truth is known: python benchmarks/simulated_studies.py [trials]

Step times as on real machines: lognormal between processes, autocorrelated inside one, drifting from block to block.
Every number goes through the functions that make the tables. Prints coverage of the 95 % intervals (it must be 93 to
97 %), the same with 10 % outliers, the share of studies without any difference in which one is claimed (family-wise
false alarms, at most 5 %), and how often a planted slowdown of 10 % is found, and nothing else with it.
"""

import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.signal import lfilter

sys.path.insert(0, str(Path(__file__).parents[1] / "scripts"))

from whichdevice.study.tables.decision_rule import FASTER, SLOWER, decided, geometric, paired

TRIALS, SEED = 2000, 1
COUNTS = (3, 10)  # repeats of the quick and of the published study
CELLS = 20  # in a simulated study, each compared with a first one
SLOWDOWN = 1.10


class Noise(NamedTuple):
    """Relative standard deviations, and the correlation of neighbouring windows."""

    name: str
    between: float
    within: float = 0.05
    correlation: float = 0.6
    outliers: float = 0.0  # share of processes that something slows by 1.2 to 3 times
    windows: int = 20  # as a long time budget has


QUIET = Noise("processes differ by 2 %", 0.02)
BUSY = Noise("processes differ by 5 %", 0.05)
INSIDE = Noise("processes alike, windows differ by 10 %", 0.0, 0.1)
SCENARIOS = [QUIET, BUSY, INSIDE]


def step_times(random: np.random.Generator, noise: Noise, shape: tuple[int, ...]) -> np.ndarray:
    """Total time over steps of processes whose median step takes 1 s, an array of `shape`."""
    shocks = random.normal(0, 1, (*shape, noise.windows))
    shocks[..., 1:] *= np.sqrt(1 - noise.correlation**2)  # the series is stationary from its first window on
    series = noise.within * lfilter([1.0], [1.0, -noise.correlation], shocks)
    levels = random.normal(0, noise.between, shape)
    slow = np.where(random.random(shape) < noise.outliers, random.uniform(1.2, 3, shape), 1.0)
    return np.exp(levels) * slow * np.exp(series).mean(axis=-1)


@cache
def truth(noise: Noise) -> float:
    """What the geometric mean over ever more processes without outliers tends to, from 50,000 of them."""
    times = step_times(np.random.default_rng(SEED + 1), noise._replace(outliers=0.0), (50_000,))
    return float(np.exp(np.log(times).mean()))


def coverage(noise: Noise, n: int, trials: int, seed: int = SEED) -> float:
    """Share of 95 % intervals of a cell's step time, from n processes each, that hold the truth."""
    times = step_times(np.random.default_rng(seed), noise, (trials, n))
    intervals = geometric(pd.Series(times.ravel()), pd.Series(np.repeat(np.arange(trials), n)))
    true = truth(noise)
    return float(((intervals["low"] <= true) & (true <= intervals["high"])).mean())


def half_width(noise: Noise, n: int, trials: int, seed: int = SEED) -> float:
    """Median half width of these intervals, as a share."""
    times = step_times(np.random.default_rng(seed), noise, (trials, n))
    intervals = geometric(pd.Series(times.ravel()), pd.Series(np.repeat(np.arange(trials), n)))
    return float((np.sqrt(intervals["high"] / intervals["low"]) - 1).median())


def ratio_coverage(noise: Noise, n: int, trials: int, seed: int = SEED) -> float:
    """The same for the ratio of two cells with paired repeats, whose blocks drift by 10 %; the truth is 1."""
    random = np.random.default_rng(seed)
    drift = np.exp(random.normal(0, 0.1, (trials, n, 1)))
    pairs = np.log(step_times(random, noise, (trials, n, 2)) * drift)
    judged = decided(paired(*_grouped(pairs[..., 0] - pairs[..., 1])))
    return float(((judged["ratio_low"] <= 1) & (judged["ratio_high"] >= 1)).mean())


def verdicts(noise: Noise, n: int, trials: int, slowed: bool, seed: int = SEED) -> np.ndarray:
    """Verdicts of `trials` studies, (trials, CELLS), each cell against one more; the first of each may be slowed."""
    random = np.random.default_rng(seed)
    factor = np.where((np.arange(CELLS) == 0) & slowed, SLOWDOWN, 1.0)[:, None]
    drift = np.exp(random.normal(0, 0.02, (trials, 1, n)))
    speed = -np.log(step_times(random, noise, (trials, CELLS, n)) * factor * drift)
    family = pd.Series(np.repeat(np.arange(trials), CELLS))
    base = -np.log(step_times(random, noise, (trials, 1, n)) * drift)
    pairs = paired(*_grouped(speed - base))
    return decided(pairs, family)["verdict"].to_numpy().reshape(trials, CELLS)


def _grouped(values: np.ndarray) -> tuple[pd.Series, pd.Series]:
    """Values as one column, and the number of the row along the last axis that each belongs to."""
    n = values.shape[-1]
    return pd.Series(values.ravel()), pd.Series(np.arange(values.size) // n)


def false_alarms(noise: Noise, n: int, trials: int) -> float:
    """Share of studies in which nothing differs and something is called faster or slower."""
    return float(np.isin(verdicts(noise, n, trials, False), [FASTER, SLOWER]).any(axis=1).mean())


def power(noise: Noise, n: int, trials: int) -> tuple[float, float]:
    """Share of studies that call the slowed cell slower, and of those that call just this one so."""
    judged = verdicts(noise, n, trials, True)
    hit = judged[:, 0] == SLOWER
    alone = hit & ~np.isin(judged[:, 1:], [FASTER, SLOWER]).any(axis=1)
    return float(hit.mean()), float(alone.mean())


def lines(trials: int) -> Iterator[str]:
    """Everything that is printed."""
    yield f"Coverage of 95 % intervals, {trials} trials each, standard error {_share(np.sqrt(0.95 * 0.05 / trials))}:"
    cases = [(noise, n) for noise in SCENARIOS for n in COUNTS]
    for noise, n in cases:
        held = coverage(noise, n, trials), ratio_coverage(noise, n, trials)
        yield f"  {noise.name}, n = {n}: step time {_share(held[0])}, paired ratio {_share(held[1])}"
    for n in COUNTS:
        held = coverage(BUSY._replace(outliers=0.1), n, trials), half_width(BUSY._replace(outliers=0.1), n, trials)
        yield (
            f"  {BUSY.name}, 10 % of them 1.2 to 3 times slower, n = {n}: step time {_share(held[0])}, median half "
            f"width {_share(held[1])} instead of {_share(half_width(BUSY, n, trials))}"
        )
    studies = max(50, trials // 4)
    yield f"{studies} studies of {CELLS} comparisons; any false alarm; one slowdown of 10 % found; nothing else found:"
    for noise, n in cases:
        found, alone = power(noise, n, studies)
        alarms = false_alarms(noise, n, studies)
        yield f"  {noise.name}, n = {n}: {_share(alarms)}; {_share(found)}; {_share(alone)}"


def _share(value: float) -> str:
    return f"{100 * value:.1f} %"


if __name__ == "__main__":
    for line in lines(int(sys.argv[1]) if len(sys.argv) > 1 else TRIALS):
        print(line, flush=True)

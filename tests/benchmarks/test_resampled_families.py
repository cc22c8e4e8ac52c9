"""The benchmark's own statistics hold on speeds whose truth is known."""

import numpy as np
import pytest
from benchmarks.resampled_families import alarm_rate, half_width, judged, pairs_of, planted_verdicts, processes_for

from whichdevice.study.tables.decision_rule import FASTER, SLOWER

RANDOM = np.random.default_rng


def test_the_number_of_processes_gives_the_width():
    n = processes_for(0.05, 0.07)
    rows = np.exp(RANDOM(0).normal(0, 0.07, (2000, n)))
    assert np.median([half_width(row) for row in rows]) == pytest.approx(0.05, rel=0.1)


def test_either_of_a_pair_may_be_the_baseline_unless_one_was_slowed():
    speeds = np.array([[100.0, 90.0]] * 40)
    assert (pairs_of(speeds, 40, RANDOM(0), shuffled=False) < 0).all()
    assert {-1, 1} == set(np.sign(pairs_of(speeds, 40, RANDOM(0))))


def test_the_projects_rule_finds_what_differs_in_a_family_and_nothing_else():
    draw = RANDOM(0).normal
    same, slower, faster = (draw(shift, 0.01, 10) for shift in (0, -0.1, 0.1))
    assert judged([same, slower, faster], 3).tolist() == [["", SLOWER, FASTER]]


def test_alarms_are_rare_where_nothing_differs():
    speeds = np.exp(RANDOM(0).normal(0, 0.05, (24, 2)))
    assert alarm_rate(speeds, 10, 6, 300, RANDOM(1)) <= 0.1


def test_a_planted_slowdown_is_the_first_of_its_family():
    alike = np.exp(RANDOM(0).normal(0, 0.01, (24, 2)))
    verdicts = planted_verdicts(alike * [1, 0.9], alike, 10, 6, 50, RANDOM(1))
    assert (verdicts[:, 0] == SLOWER).all() and (verdicts[:, 1:] != "").mean() < 0.05

"""Offsets and variances, as the fit finds them."""

import math
from types import SimpleNamespace

import numpy as np
import pytest
from fit.residuals import Columns, fit

from whichdevice.forecast import joint


def fitted(rows):
    """The parts of rows of a log, family, question, source and chip."""
    names = ("family", "question", "source_group", "chip")
    of_all = {"software": "xla", "peaks": SimpleNamespace(chip_class="desktop")}
    made = [
        SimpleNamespace(**of_all, **dict(zip(names, row, strict=True)), author=row[2].partition("_")[0])
        for _, *row in rows
    ]
    return fit(np.array([row[0] for row in rows]), Columns(made), np.ones(len(made), dtype=bool))["xla"]


def test_a_fit_finds_the_variances_and_offsets_that_made_the_logs():
    random = np.random.default_rng(1)
    chips = {f"chip {n}": random.normal(0, 0.2) for n in range(12)}
    families = {f"family {n}": random.normal(0, 0.15) for n in range(12)}
    rows = []
    for question in range(240):
        family = f"family {question % 12}"
        its = random.normal(0, 0.3)
        for chip in random.choice(sorted(chips), 5, replace=False):
            log = families[family] + its + chips[chip] + random.normal(0, 0.05)
            rows.append((log, family, str(question), "one", chip))
    parts = fitted(rows)
    assert math.sqrt(parts["variances"]["question"]) == pytest.approx(0.3, rel=0.1)
    assert math.sqrt(parts["variances"]["rest"]) == pytest.approx(0.05, rel=0.15)
    spread = [parts["chips"][chip][0] - value for chip, value in chips.items()]
    assert np.std(spread) < 0.03
    known, unknown = (joint.residual(parts, "family 0", chip, "desktop") for chip in ("chip 0", "chip 99"))
    assert known.sd_own < unknown.sd_own
    assert known.sd_shared == unknown.sd_shared


def test_the_level_of_a_new_author_is_the_mean_of_authors_however_many_sources_one_has():
    random = np.random.default_rng(2)
    levels = {**{f"many_{n}": 0.3 for n in range(6)}, "b": -0.1, "c": -0.1, "d": -0.1}
    rows = [
        (level + random.normal(0, 0.15), f"family {n % 8}", f"{source} {n}", source, f"chip {n % 5}")
        for source, level in levels.items()
        for n in range(60)
    ]
    found = fitted(rows)
    assert abs(found["family"][0]) < 0.06  # the mean of sources is 0.17
    assert math.sqrt(found["variances"]["source"]) > 0.15


def test_what_is_missed_by_more_is_shared_and_what_is_missed_by_less_narrows_both():
    assert joint.widened_by(0.5, 0.4, 0.3) == (0.2, 0.15)
    shared, own = joint.widened_by(2.0, 0.4, 0.3)
    assert own == 0.3 and math.hypot(shared, own) == pytest.approx(2 * 0.5)

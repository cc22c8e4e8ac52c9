"""A verdict in words, and what its ratio stands on."""

import pandas as pd
import pytest

from whichdevice.report.numbers import with_setting


@pytest.mark.parametrize(
    ("words", "setting", "told"),
    [
        ("faster", "one machine, one sitting", "faster"),
        ("faster", "2 machines, 2 sittings", "faster; 2 machines, 2 sittings"),
        ("", "2 machines, 2 sittings", "2 machines, 2 sittings"),
        ("not compared", None, "not compared"),
    ],
)
def test_a_ratio_across_machines_or_sittings_says_so(words: str, setting: str | None, told: str) -> None:
    assert with_setting(words, pd.Series({"setting": setting})) == told

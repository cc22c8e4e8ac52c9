"""Machines and sittings behind a ratio, told apart without host names."""

import pandas as pd
import synthetic

from whichdevice.study_runs import study_runs
from whichdevice.tables.columns import table
from whichdevice.tables.runs import COLUMNS
from whichdevice.tables.sittings import located


def machines(*identities: str | None) -> list[int]:
    """The machine that each of several runs on processors of one kind is counted with."""
    study = synthetic.small_study()
    rows = [synthetic.runs_row(synthetic.record_of(study, run)) for run in study_runs(study)[: len(identities)]]
    same = {"cpu": "One CPU", "host_memory": 2**34, "operating_system": "Linux"}
    rows = [{**row, **same, "machine_id": identity} for row, identity in zip(rows, identities, strict=True)]
    return pd.factorize(located(table(rows, COLUMNS))["machine"])[0].tolist()


def test_twins_are_two_machines_where_they_have_an_identity() -> None:
    assert machines("aa", "bb", "aa") == [0, 1, 0]
    assert machines(None, None, None) == [0, 0, 0]


def test_older_records_without_one_count_with_the_first_of_their_kind() -> None:
    assert machines(None, "aa", None, "bb") == [0, 0, 0, 1]

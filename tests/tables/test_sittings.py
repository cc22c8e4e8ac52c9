"""Machines and sittings behind a ratio, told apart without host names."""

import pandas as pd
import synthetic

from whichdevice.study_runs import study_runs
from whichdevice.tables.base import table
from whichdevice.tables.measured import located
from whichdevice.tables.runs import COLUMNS


def machines(*identities: str | None, systems: list[str] | None = None) -> list[int]:
    """The machine that each of several runs on processors of one kind is counted with."""
    study = synthetic.small_study()
    rows = [synthetic.runs_row(synthetic.record_of(study, run)) for run in study_runs(study)[: len(identities)]]
    same = {"cpu": "One CPU", "host_memory": 2**34, "operating_system": "Linux"}
    rows = [{**row, **same, "machine_id": identity} for row, identity in zip(rows, identities, strict=True)]
    rows = [{**row, "operating_system": name} for row, name in zip(rows, systems or ["Linux"] * len(rows), strict=True)]
    return pd.factorize(located(table(rows, COLUMNS))["machine"])[0].tolist()


def test_twins_are_two_machines_where_they_have_an_identity() -> None:
    assert machines("aa", "bb", "aa") == [0, 1, 0]
    assert machines(None, None, None) == [0, 0, 0]


def test_older_records_without_one_count_with_the_first_of_their_kind() -> None:
    assert machines(None, "aa", None, "bb") == [0, 0, 0, 1]


def test_an_update_of_the_system_makes_no_second_machine_of_one_with_an_identity() -> None:
    assert machines("aa", "aa", "bb", systems=["Linux 6.1", "Linux 6.8", "Linux 6.8"]) == [0, 0, 1]
    assert machines(None, None, systems=["Linux 6.1", "Linux 6.8"]) == [0, 1]

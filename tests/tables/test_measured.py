"""Runs that may enter a ratio, with their machine and session."""

import pandas as pd
import synthetic

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.study.cells import study_runs
from whichdevice.study.tables.base import table
from whichdevice.study.tables.measured import located, measured_values
from whichdevice.study.tables.runs import RUN_COLUMNS


def runs(*changes: dict[str, object]) -> pd.DataFrame:
    """As many rows alike in all but what is named."""
    study = synthetic.small_study()
    row = synthetic.runs_row(synthetic.record_of(study, study_runs(study)[0]))
    return table([{**row, **change} for change in changes], RUN_COLUMNS)


def test_operations_that_a_layer_hides_make_no_second_model() -> None:
    """Two lower bounds of one model may differ."""
    hidden = "a lower bound: without pallas_call"
    found = measured_values(
        runs(
            {"flops_per_step": 1e9, "flops_counted": hidden},
            {"flops_per_step": 3e9, "flops_counted": hidden, "backend": "jax"},
        )
    )
    assert found["model"].nunique() == 1
    counted = {"flops_counted": WHOLE_COUNT}
    apart = measured_values(runs({"flops_per_step": 1e9, **counted}, {"flops_per_step": 3e9, **counted}))
    assert apart["model"].nunique() == 2


def test_a_long_run_that_failed_is_part_of_its_session() -> None:
    first = {"started": "2026-01-01 00:00:00", "ended": "2026-01-01 00:01:00"}
    failed = {"status": "timed_out", "started": "2026-01-01 00:01:00", "ended": "2026-01-01 02:01:00"}
    last = {"started": "2026-01-01 02:02:00", "ended": "2026-01-01 02:03:00"}
    assert measured_values(runs(first, failed, last))["session"].nunique() == 1
    assert measured_values(runs(first, last))["session"].nunique() == 2


def test_the_speed_of_a_run_that_learned_for_too_long_counts_once_its_steady_state_was_timed() -> None:
    """It is a slow one, and a mean without it too good."""
    late = {"status": "timed_out"}
    assert len(measured_values(runs({}, late, {"status": "failed"}))) == 2
    assert len(measured_values(runs({}, {**late, "throughput": None, "tflops": None}))) == 1


def machines(*identities: str | None, systems: list[str] | None = None) -> list[int]:
    """The machine that each of several runs on processors of one kind is counted with."""
    study = synthetic.small_study()
    rows = [synthetic.runs_row(synthetic.record_of(study, run)) for run in study_runs(study)[: len(identities)]]
    same = {"cpu": "One CPU", "host_memory": 2**34, "operating_system": "Linux"}
    rows = [{**row, **same, "machine_id": identity} for row, identity in zip(rows, identities, strict=True)]
    rows = [{**row, "operating_system": name} for row, name in zip(rows, systems or ["Linux"] * len(rows), strict=True)]
    return pd.factorize(located(table(rows, RUN_COLUMNS))["machine"])[0].tolist()


def test_twins_are_two_machines_where_they_have_an_identity() -> None:
    assert machines("aa", "bb", "aa") == [0, 1, 0]
    assert machines(None, None, None) == [0, 0, 0]


def test_older_records_without_one_count_with_the_first_of_their_kind() -> None:
    assert machines(None, "aa", None, "bb") == [0, 0, 0, 1]


def test_an_update_of_the_system_makes_no_second_machine_of_one_with_an_identity() -> None:
    assert machines("aa", "aa", "bb", systems=["Linux 6.1", "Linux 6.8", "Linux 6.8"]) == [0, 0, 1]
    assert machines(None, None, systems=["Linux 6.1", "Linux 6.8"]) == [0, 1]

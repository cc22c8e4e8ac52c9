"""What may enter a ratio: which rows are of one model, and which of one sitting."""

import pandas as pd
import synthetic

from whichdevice.records.schema import WHOLE_COUNT
from whichdevice.study_runs import study_runs
from whichdevice.tables.columns import table
from whichdevice.tables.measured_values import measured_values
from whichdevice.tables.runs import COLUMNS


def runs(*changes: dict[str, object]) -> pd.DataFrame:
    """As many rows alike in all but what is named."""
    study = synthetic.small_study()
    row = synthetic.runs_row(synthetic.record_of(study, study_runs(study)[0]))
    return table([{**row, **change} for change in changes], COLUMNS)


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


def test_a_long_run_that_failed_is_part_of_its_sitting() -> None:
    first = {"started": "2026-01-01 00:00:00", "ended": "2026-01-01 00:01:00"}
    failed = {"status": "timed_out", "started": "2026-01-01 00:01:00", "ended": "2026-01-01 02:01:00"}
    last = {"started": "2026-01-01 02:02:00", "ended": "2026-01-01 02:03:00"}
    assert measured_values(runs(first, failed, last))["sitting"].nunique() == 1
    assert measured_values(runs(first, last))["sitting"].nunique() == 2


def test_the_speed_of_a_run_that_learned_for_too_long_counts_once_its_steady_state_was_timed() -> None:
    """It is a slow one, and a mean without it too good."""
    late = {"status": "timed_out"}
    assert len(measured_values(runs({}, late, {"status": "failed"}))) == 2
    assert len(measured_values(runs({}, {**late, "throughput": None, "tflops": None}))) == 1

"""What a study sees where nothing differs and where a slowdown was planted; neither is compared with anything else."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic

from whichdevice.config.model import SECOND, SELF_CHECKS, SLOWED, Device, Measure, SelfCheck, Study, with_self_check
from whichdevice.report.verdict import facts
from whichdevice.tables.measured import measured_values, without_self_checks
from whichdevice.tables.noise_floor import PLANTED, SAME_TWICE, noise_floor_table
from whichdevice.tables.summary import summary_table


def checked_study(repeats: int = 10, slowdown: float = 0.05) -> Study:
    study = synthetic.small_study(
        measure=Measure(repeats=repeats),
        devices={"cpu": Device(kind="cpu")},
        self_check=SelfCheck(workload="mnist_official", batch_size=128, slowdown=slowdown),
    )
    return with_self_check(study)


def floor_of(runs: pd.DataFrame) -> pd.DataFrame:
    return noise_floor_table(runs, summary_table(without_self_checks(runs))).set_index("comparison")


def runs_of(study: Study, factor: dict[str, float]) -> pd.DataFrame:
    """Speeds that differ by 1 % between the repeats and by a factor of the workload."""
    random = np.random.default_rng(0)
    return synthetic.runs_table(study, lambda run: factor.get(run.cell.workload, 1.0) * random.normal(1000, 10))


def test_the_same_cell_twice_passes_and_a_planted_slowdown_is_found():
    floor = floor_of(runs_of(checked_study(), {SECOND: 1.001, SLOWED: 0.953}))
    same, planted = floor.loc[SAME_TWICE], floor.loc[PLANTED]
    assert 0 < same["half_width"] < 0.02
    assert same["passed"] and same["verdict"] == "same within 5 %" and same["expected"] == 1
    assert planted["passed"] and planted["verdict"] == "slower" and planted["n"] == 10
    assert planted["expected"] == pytest.approx(1 / 1.05) and planted["ratio"] == pytest.approx(0.953, rel=0.01)
    assert planted["median_half_width"] > 0


def test_what_is_too_wide_to_show_a_false_alarm_is_told_so_and_not_passed():
    random = np.random.default_rng(0)
    for repeats in (1, 3):
        study = checked_study(repeats)
        runs = synthetic.runs_table(study, lambda run: 1000 * np.exp(random.normal(0, 0.1)))
        same = floor_of(runs).loc[SAME_TWICE]
        assert same["verdict"] == "undecided" and pd.isna(same["passed"])


def test_checks_of_unlike_settings_are_no_pairs_and_have_a_row_each():
    """As merged from studies that checked themselves otherwise."""
    studies = [checked_study(), checked_study()]
    frames = [runs_of(study, {SLOWED: 0.953}) for study in studies]
    frames[1]["batch_size"] = 512
    frames[1]["throughput"] *= 10
    frames[1].loc[frames[1]["workload"] == SLOWED, "planted"] = 0.1
    runs = pd.concat(frames, ignore_index=True)
    floor = noise_floor_table(runs, summary_table(without_self_checks(runs)))
    assert floor[["comparison", "batch_size", "n"]].to_numpy().tolist() == [
        [SAME_TWICE, 128, 10],
        [PLANTED, 128, 10],
        [SAME_TWICE, 512, 10],
        [PLANTED, 512, 10],
    ]
    assert floor["ratio"].tolist() == pytest.approx([1, 0.953] * 2, rel=0.02)
    assert floor["expected"].tolist() == pytest.approx([1, 1 / 1.05, 1, 1 / 1.1])


def test_nothing_of_it_enters_a_comparison():
    runs = runs_of(checked_study(), {})
    assert set(runs["workload"]) == {"mnist_cnn", *SELF_CHECKS}
    assert set(measured_values(runs)["workload"]) == {"mnist_cnn"}
    runs.loc[runs["workload"] == "mnist_cnn", "planted"] = 0.1  # by hand, under another name
    assert measured_values(runs).empty


def test_other_tables_leave_it_out_and_the_report_tells_the_floor(working_folder: Path):
    config, records = synthetic.write_study(checked_study(), working_folder)
    study = synthetic.Results(config, records)
    assert set(study.summary["workload"]) == {"mnist_cnn"} and len(study.noise_floor) == 2
    told = next(one.text for one in facts(study) if one.text.startswith("Noise floor of this study (cpu): "))
    assert "the same cell twice gave" in told and "a planted slowdown of 5 %" in told
    measured = next(one.text for one in facts(study) if one.text.startswith("Measured on cpu"))
    assert "20 runs of 2 cells in 1 workloads" in measured

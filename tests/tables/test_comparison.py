"""Two studies are compared cell by cell."""

from datetime import timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import synthetic

from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Workload
from whichdevice.study.records.store import record_paths, write_record
from whichdevice.study.tables.comparison import comparison_table, controls, differences, read_runs, without_copies


def study_of(sizes: list[int], repeats: int = 5) -> Study:
    """One workload on a cpu."""
    return synthetic.small_study(
        devices={"cpu": Device(kind="cpu")},
        workloads={"mnist_cnn": Workload(batch_size=sizes)},
        measure=Measure(repeats=repeats),
    )


def runs_of(study: Study, speed: dict[int, float], seed: int, noise: float = 0.01) -> pd.DataFrame:
    """Table `runs` with these speeds by batch size, each process with noise of its own."""
    random = np.random.default_rng(seed)

    def throughput(run: Run) -> float:
        return 100 * speed[run.cell.batch_size] * float(np.exp(random.normal(0, noise)))

    return synthetic.runs_table(study, throughput)


def compared(here: dict[int, float], there: dict[int, float], noise: float = 0.01) -> pd.DataFrame:
    """The comparison of two studies with these speeds."""
    sides = [runs_of(study_of(list(speed)), speed, seed, noise) for seed, speed in enumerate((here, there))]
    return comparison_table(*sides).set_index("batch_size")


def test_each_cell_is_judged() -> None:
    found = compared({64: 1.2, 128: 0.8, 256: 1.0}, {64: 1.0, 128: 1.0, 256: 1.0})
    assert found["verdict"].tolist() == ["faster", "slower", "same within 5 %"]
    assert found["ratio"].tolist() == pytest.approx([1.2, 0.8, 1.0], rel=0.02)
    assert found["ratio"].to_numpy() == pytest.approx((found["here"] / found["there"]).to_numpy())
    assert found["n"].tolist() == found["n_there"].tolist() == [5, 5, 5]
    noisy = compared({64: 1.1}, {64: 1.0}, noise=0.2).loc[64]
    assert noisy["verdict"] == "undecided" and noisy["n_to_decide"] > 5


def test_another_work_under_the_same_name_is_no_ratio() -> None:
    study = study_of([64, 128])
    here, there = (runs_of(study, {64: 1.0, 128: 1.0}, seed) for seed in (1, 2))
    there.loc[there["batch_size"] == 64, "flops_per_step"] *= 2
    found = comparison_table(here, there).set_index("batch_size")
    assert found["note"].fillna("").tolist() == ["not the same work: other operations of a step", ""]
    assert found["ratio"].isna().tolist() == [True, False]


def test_models_of_other_weights_are_other_work_where_both_sides_say_how_many() -> None:
    study = study_of([64, 128])
    here, there = (runs_of(study, {64: 1.0, 128: 1.0}, seed) for seed in (1, 2))
    there.loc[there["batch_size"] == 64, "parameters"] += 1
    there.loc[there["batch_size"] == 128, "parameters"] = pd.NA
    found = comparison_table(here, there).set_index("batch_size")
    assert found["note"].fillna("").tolist() == ["not the same work: other number of weights", ""]
    assert found["ratio"].isna().tolist() == [True, False]


def test_records_are_read_from_results_or_any_folder_and_cut_ones_are_told(tmp_path: Path) -> None:
    study = study_of([64], repeats=2)
    _, paths = synthetic.write_study(study, tmp_path / "results", artefacts=False)
    assert record_paths(tmp_path / "results") == record_paths(tmp_path / "results/runs") == sorted(paths)
    paths[0].write_text("{", encoding="utf-8")
    runs, faults = read_runs(paths)
    assert (len(runs), len(faults)) == (1, 1) and "record.json" in faults[0]


def test_what_differs_is_told_in_words(tmp_path: Path) -> None:
    study = study_of([64, 128], repeats=1)

    def table_of(folder: str, **changes: object) -> pd.DataFrame:
        paths = []
        for run in synthetic.configured_runs(study):
            record = synthetic.record_of(study, run)
            record.software.versions |= {"tensorflow": str(changes.get("tensorflow", "2.21.0"))}
            record.software.flags |= {"jit_compile": str(changes.get("jit", "off"))}
            record.machine.driver = changes.get("driver")  # type: ignore[assignment]
            record.software.code_hash = str(changes.get("code", "abc"))
            record.started += timedelta(days=1)
            paths.append(tmp_path / folder / run.path / "record.json")
            write_record(record, paths[-1])
        return read_runs(paths)[0]

    here = table_of("here")
    assert differences(here, table_of("same")) == []
    assert differences(here, table_of("other", tensorflow="2.20.0", jit="on", driver="570.1", code="def")) == [
        "driver: none here, 570.1 there",
        "tensorflow: 2.21.0 here, 2.20.0 there",
        "setting jit_compile: off here, on there",
        "measuring code: another hash in 2 of 2 cells",
    ]
    assert differences(here, here.assign(batch_size=1).astype(here.dtypes)) == []  # no cell in common


def test_a_process_counts_once_however_often_its_record_lies_there() -> None:
    study = study_of([64])
    here, there = (runs_of(study, {64: 1.0}, seed) for seed in (1, 2))
    twice = pd.concat([there, here.iloc[:2], there], ignore_index=True)
    kept, told = without_copies(twice, here)
    pd.testing.assert_frame_equal(kept, there)
    assert told == ["7 of 12 records: copies of others there or of this study's own"]
    assert without_copies(there, here)[1] == []


STUDY = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, measure=Measure(repeats=4))


def runs_of_control(study, speed: float = 1.0, kernel: float = 0.01):
    """Table `runs` at this speed; `kernel`: seconds of the fixed work before the first run, 1 % more with each."""
    runs = synthetic.runs_table(study, lambda run: 1000 * speed * (1 + run.repeat / 100))
    return runs.assign(calibration=kernel * 1.01 ** np.arange(len(runs)))


def test_a_slower_session_shows_in_the_fixed_product():
    found = controls(runs_of_control(STUDY, 0.8, 0.0125), runs_of_control(STUDY, 1.0, 0.01)).set_index("name")
    assert found.index.tolist() == [
        "the fixed work (a product shared by all cores, by NumPy) on the host of cpu",
    ]
    assert found["ratio"].tolist() == pytest.approx([0.8])
    assert (found["ratio_low"] < 0.8).all() and (found["ratio_high"] > 0.8).all()
    assert found["n"].tolist() == found["n_there"].tolist()


def test_times_of_different_fixed_work_are_no_control():
    assert len(controls(runs_of_control(STUDY), runs_of_control(STUDY))) == 1
    assert controls(
        runs_of_control(STUDY), runs_of_control(STUDY).assign(calibration_kernel="a product on each core")
    ).empty

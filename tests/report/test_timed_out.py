"""Runs that ran out of time while they learned: their speed counts everywhere, what they learned nowhere."""

from collections.abc import Callable
from pathlib import Path

import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.figures import style
from whichdevice.figures.speed import draw_images_per_second
from whichdevice.records.schema import Record
from whichdevice.report.best_devices import board, verdict_section
from whichdevice.report.cells import cell_table
from whichdevice.results import StudyResults
from whichdevice.tables.comparison import differences


def results(folder: Path, late: Callable[[Run], bool], repeats: int = 3) -> StudyResults:
    """A CPU and a GPU; `late` runs were ended by `measure.timeout` after their first learned epoch."""

    def change(run: Run, record: Record) -> Record:
        cut = {"status": "timed_out", "reason": "no end after 60 s (measure.timeout)", "epochs": record.epochs[:1]}
        return record.model_copy(update=cut) if late(run) else record

    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        workloads={"mnist_cnn": Workload(batch_size=[256])},
        measure=Measure(repeats=repeats),
        train=Train(epochs=3),
    )
    config, paths = synthetic.write_study(study, folder, artefacts=False, change=change)
    return synthetic.Results(config, paths)


def test_a_device_whose_only_run_ran_out_of_time_was_measured(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: run.cell.device == "cpu", repeats=1)
    assert study.devices == ["cpu", "gpu"] and not study.absent
    found = verdict_section(study)
    assert found["kinds"] == {"cpu": "cpu", "gpu": "gpu"}
    assert {name for row in found["rows"] for name in row.choices["fastest"].devices} <= set(found["kinds"])
    assert not any("not measured" in mark.title for mark in found["marks"])
    with style.applied():
        draw_images_per_second(study)


def test_the_speed_beside_a_ratio_is_of_as_many_runs_as_the_ratio(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: run.repeat == 1)
    (row,) = board(study)
    fastest = row.choices["fastest"]
    assert (fastest.value.n, fastest.others[0].ratio.n) == (3, 3)
    assert study.summary[["n", "n_ok", "n_timed"]].to_numpy().tolist() == [[3, 2, 3]] * 2
    assert study.summary["n_learned"].isna().all()  # the one that learned has not ended
    shown = [each for each in cell_table(study)["rows"] if each["evidence"] == "measured"]
    assert [(each["throughput"].n, each["status"].split(":")[0]) for each in shown] == [
        (3, "2 of 3 ok, 1 timed out")
    ] * 2


def test_where_every_run_ran_out_of_time_speeds_are_still_shown(tmp_path: Path) -> None:
    study = results(tmp_path, lambda run: True, repeats=1)
    found = verdict_section(study)
    assert found["lead"] != ["Nothing was measured yet."] and found["rows"]
    assert "n = 1" in [mark.title for mark in found["marks"]]


def test_what_differs_between_studies_is_told_of_such_runs_too(tmp_path: Path) -> None:
    here = results(tmp_path, lambda run: True).runs
    assert differences(here, here.assign(driver="999")) != []

"""The study's check of itself becomes three workloads."""

import pytest

from whichdevice.config.load import load_study, read_study, resolved, write_study
from whichdevice.config.model import FIRST, SECOND, SELF_CHECKS, SLOWED
from whichdevice.config.schema import published
from whichdevice.errors import StudyError
from whichdevice.forecast.study import program_requests
from whichdevice.measuring.request import build_request
from whichdevice.planning.checks import check_study
from whichdevice.study_cells import study_runs

CONFIG = {
    "self_check": {"workload": "mnist_official", "batch_size": 128},
    "workloads": {"mnist_cnn": {"batch_size": [64]}},
    "data": {"sources": {"mnist": "standin"}},
}


def test_the_same_cell_twice_and_once_slower():
    study = load_study(CONFIG)
    first, second, slowed = (study.workloads[name] for name in SELF_CHECKS)
    assert first == second and (first.module, first.batch_size, first.epochs) == ("mnist_official", [128], 0)
    assert slowed == first.model_copy(update={"slowdown": 0.05})


def test_they_are_runs_like_any_other_and_only_one_is_planted():
    study = resolved(load_study(CONFIG))
    runs = [run for run in study_runs(study) if run.cell.device == "cpu" and run.repeat == 1]
    planted = {run.cell.workload: build_request(study, run).slowdown for run in runs}
    assert planted == {"mnist_cnn": 0, FIRST: 0, SECOND: 0, SLOWED: 0.05}
    assert not any(build_request(study, run).learn for run in runs if run.cell.workload in SELF_CHECKS)


def test_without_one_there_are_none_even_where_an_earlier_config_had_them(tmp_path):
    resolved_once = resolved(load_study(CONFIG))
    write_study(resolved_once, tmp_path / "config.yaml")
    assert read_study(tmp_path / "config.yaml") == resolved_once
    without = resolved_once.model_dump(mode="json") | {"self_check": {}}
    assert set(load_study(without).workloads) == {"mnist_cnn"}


def test_forecasts_leave_them_out():
    study = resolved(load_study(CONFIG))
    assert {request.workload for request in program_requests(study)} == {"mnist_cnn"}


def test_an_unknown_workload_is_named():
    study = resolved(load_study(CONFIG | {"self_check": {"workload": "mnist_offical"}}))
    with pytest.raises(StudyError, match="mnist_offical is no built-in workload; did you mean mnist_official"):
        check_study(study)


def test_every_published_study_checks_itself():
    assert published().self_check.workload is not None

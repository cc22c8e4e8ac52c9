"""What is exported and compiled: the models that learn, and training steps."""

import pytest

from whichdevice.errors import StudyError
from whichdevice.planning.compile_plan import compiled_records
from whichdevice.planning.export_plan import export_inputs, exported_models
from whichdevice.planning.study_plan import plan_study

STUDY = {
    "study": "plans",
    "run_on": ["cpu"],
    "devices": {"cpu": {"kind": "cpu"}, "tpu": {"kind": "tpu", "replicas": 8}},
    "data": {"source": "standin"},
    "compile": {"topologies": ["v2-2x2"]},
}
CNN = {"batch_size": [256, 512], "export": True}


def planned(**workloads):
    return plan_study({**STUDY, "workloads": {"mnist_cnn": CNN, **workloads}})


def test_what_learns_nothing_is_not_exported(working_folder):
    with pytest.raises(StudyError, match=r"workloads\.mine\.export: it learns nothing"):
        planned(mine={"module": "mnist_official", "export": True, "epochs": 0})


def test_no_program_for_tpus_is_made_of_predictions(working_folder):
    plan = planned(predicted={"module": "mnist_cnn", "mode": "predict", "batch_size": [8, 64]})
    predicted = [run for run in plan.runs if run.cell.workload == "predicted"]
    assert {(run.cell.device, run.cell.batch_size) for run in predicted} == {
        (device, size) for device in ("cpu", "tpu") for size in (8, 64)
    }
    assert plan.request(predicted[0].path)["mode"] == "predict"
    assert compiled_records(plan.study)
    assert not [path for path in compiled_records(plan.study) if "predicted" in path]


def test_an_export_needs_the_runs_that_learn(working_folder):
    plan = planned()
    assert exported_models(plan) == ["results/plans/models/mnist_cnn/export.json"]
    assert [path.split("/")[-2] for path in export_inputs(plan, "mnist_cnn")] == ["r1", "r1"]


def test_nothing_is_exported_where_nothing_learns_here(working_folder):
    plan = plan_study({**STUDY, "workloads": {"mnist_cnn": CNN}, "only": {"repeat": 2}})
    assert exported_models(plan) == []

"""What cannot be served or exported is said before anything runs."""

import pytest

from whichdevice.code_hash import code_parts
from whichdevice.errors import StudyError
from whichdevice.planning import serving_checks
from whichdevice.planning.compile_plan import compiled_records
from whichdevice.planning.export_plan import export_inputs, exported_models
from whichdevice.planning.study_plan import plan_study

STUDY = {
    "study": "plans",
    "run_on": ["cpu"],
    "devices": {"cpu": {"kind": "cpu"}, "tpu": {"kind": "tpu", "replicas": 8}, "two": {"kind": "gpu", "replicas": 2}},
    "data": {"source": "standin"},
    "forecast": {"devices": ["v2-2x2"]},
}
CNN = {"batch_size": [256, 512], "export": True}


def planned(**workloads):
    return plan_study({**STUDY, "workloads": {"mnist_cnn": CNN, **workloads}})


@pytest.mark.parametrize(
    ("workload", "told"),
    [
        ({"module": "serve"}, "module serve needs one"),
        ({"module": "mnist_official", "model": "mnist_cnn"}, "other modules none"),
        ({"module": "serve", "model": "mnist_cn"}, "workloads.mine.model: no mnist_cn; this study has mnist_cnn"),
        ({"module": "serve", "model": "matmul"}, "matmul is a single operation"),
        ({"module": "serve", "model": "mnist_cnn", "backend": "jax"}, "served by TensorFlow alone"),
        ({"module": "mnist_official", "export": True, "epochs": 0}, "workloads.mine.export: it learns nothing"),
        ({"module": "serve", "model": "mnist_cnn", "export": True}, "workloads.mine.export: it learns nothing"),
    ],
)
def test_what_is_wrong_names_its_place(working_folder, workload, told):
    with pytest.raises(StudyError) as error:
        planned(mine=workload)
    assert told in str(error.value)


def test_single_cpus_and_gpus_serve_and_no_tpu_program_is_compiled(working_folder):
    plan = planned(served={"module": "serve", "model": "mnist_cnn", "batch_size": [1, 8], "clients": [1, 4]})
    served = [run for run in plan.runs if run.cell.workload == "served"]
    assert {(run.cell.device, run.cell.batch_size) for run in served} == {("cpu", 1), ("cpu", 8)}
    request = plan.request(served[0].path)
    assert (request["model"], request["clients"], request["dataset"]) == ("mnist_cnn", [1, 4], None)
    assert not [path for path in compiled_records(plan.study) if "served" in path]


def test_without_its_packages_serving_alone_is_left_out(working_folder, monkeypatch):
    monkeypatch.setattr(serving_checks, "find_spec", lambda name: None)
    plan = planned(served={"module": "serve", "model": "mnist_cnn"})
    assert {run.cell.workload for run in plan.wanted()} == {"mnist_cnn"}
    assert plan.missing["cpu", "serving"].endswith("sh envs/extra.sh serve")


def test_an_export_needs_the_runs_that_learn(working_folder):
    plan = planned()
    assert exported_models(plan) == ["results/plans/models/mnist_cnn/export.json"]
    assert [path.split("/")[-2] for path in export_inputs(plan, "mnist_cnn")] == ["r1", "r1"]


def test_nothing_is_exported_where_nothing_learns_here(working_folder):
    plan = plan_study({**STUDY, "workloads": {"mnist_cnn": CNN}, "only": {"repeat": 2}})
    assert exported_models(plan) == []


def test_code_of_serving_measures_no_other_run_again(working_folder):
    plan = planned(served={"module": "serve", "model": "mnist_cnn"})
    assert "whichdevice.measuring.serving_run" not in code_parts("whichdevice.measuring.process")
    codes = {plan.code(run.path) for run in plan.runs if run.cell.device == "cpu" and run.repeat == 1}
    assert len(codes) == 2

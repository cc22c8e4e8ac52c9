"""What cannot be served or exported is said before anything runs."""

import pytest

from whichdevice.code_hash import code_parts
from whichdevice.errors import StudyError
from whichdevice.measuring.request import build_request, run_code_hash
from whichdevice.planning import serving_checks
from whichdevice.planning.compile_plan import compiled_records
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
    request = build_request(plan.study, served[0])
    assert (request.model, request.clients, request.dataset) == ("mnist_cnn", [1, 4], None)
    assert not [path for path in compiled_records(plan) if "served" in path]


def test_without_its_packages_serving_alone_is_left_out(working_folder, monkeypatch):
    monkeypatch.setattr(serving_checks, "find_spec", lambda name: None)
    plan = planned(served={"module": "serve", "model": "mnist_cnn"})
    assert {run.cell.workload for run in plan.wanted()} == {"mnist_cnn"}
    assert plan.missing["cpu", "serving"].endswith("sh envs/extra.sh serve")


def test_code_of_serving_measures_no_other_run_again(working_folder):
    plan = planned(served={"module": "serve", "model": "mnist_cnn"})
    assert "whichdevice.measuring.serving_run" not in code_parts("whichdevice.measuring.process")
    requests = [build_request(plan.study, run) for run in plan.runs]
    codes = {run_code_hash(asked.module, asked.backend, asked.model) for asked in requests if asked.device == "cpu"}
    assert len(codes) == 2

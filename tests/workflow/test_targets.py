"""Which jobs each target stands for; which runs a target has is tested on the planner (tests/planning)."""

import pytest

pytestmark = pytest.mark.slow

STUDY = {
    "study": "dry",
    "data": {"source": "standin"},
    "measure": {"repeats": 2},
    "workloads": {"matmul": {"batch_size": [64, 128]}, "mnist_cnn": {"batch_size": [256]}},
}


@pytest.fixture(autouse=True)
def study(project):
    project.write(STUDY)


def test_stages_end_where_their_names_say(project):
    everything = project.snakemake("-n", "all").jobs
    assert everything["measure"] == 6  # neither GPU nor TPU here
    assert [everything[name] for name in ("dataset", "tables", "figures", "report")] == [1, 1, 1, 1]
    runs = project.snakemake("-n", "cpu").jobs
    assert runs["measure"] == 6 and not {"tables", "figures", "report"} & set(runs)


def test_a_device_asked_for_by_name_and_absent_is_one_line(project):
    done = project.snakemake("gpu")
    assert done.code != 0
    assert done.error.startswith("gpu: no GPU found on this host")


def test_a_folder_without_a_config_plans_the_default_study(project, tmp_path):
    (project.folder / "study.yaml").unlink()
    done = project.snakemake("-n", "runs", "--directory", str(tmp_path))
    assert done.code == 0, done.out
    assert done.jobs["measure"] > 0


@pytest.mark.long  # the planner alone is tested with fewer runs
def test_a_study_of_a_thousand_runs_can_be_planned(project):
    config = {**STUDY, "workloads": {"matmul": {"batch_size": list(range(1, 501))}}}
    assert project.snakemake("-n", "runs", config=config).jobs["measure"] == 1000

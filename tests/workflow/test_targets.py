"""Which jobs each target stands for, by dry runs."""

import pytest

pytestmark = pytest.mark.slow

STUDY = {
    "study": "dry",
    "data": {"source": "standin"},
    "measure": {"repeats": 2},
    "workloads": {"matmul": {"batch_size": [64, 128]}, "mnist_cnn": {"batch_size": [256]}},
}
RUNS = 2 * 3  # repeats, cells


@pytest.fixture(autouse=True)
def study(project):
    project.write(STUDY)


def test_all_measures_every_run_of_the_devices_at_hand_and_draws(project):
    jobs = project.snakemake("-n", "all").jobs
    assert jobs["measure"] == RUNS  # neither GPU nor TPU here
    assert jobs["dataset"] == 1  # matmul needs none
    assert (jobs["tables"], jobs["figures"], jobs["page"]) == (1, 1, 1)


def test_a_kind_of_device_is_its_runs_and_nothing_after_them(project):
    jobs = project.snakemake("-n", "cpu").jobs
    assert jobs["measure"] == RUNS
    assert not {"tables", "figures", "page"} & set(jobs)


@pytest.mark.parametrize(
    ("target", "last"), [("datasets", "dataset"), ("runs", "measure"), ("tables", "tables"), ("figures", "figures")]
)
def test_a_stage_ends_where_it_says(project, target, last):
    jobs = project.snakemake("-n", target).jobs
    assert last in jobs
    order = ["dataset", "measure", "tables", "figures", "page"]
    assert not set(order[order.index(last) + 1 :]) & set(jobs)


@pytest.mark.parametrize(("kind", "name"), [("gpu", "GPU"), ("tpu", "TPU")])
def test_a_device_asked_for_by_name_and_absent_is_one_line(project, kind, name):
    done = project.snakemake(kind)
    assert done.code != 0
    assert done.error.startswith(f"{kind}: no {name} found on this host")


def test_a_scheduler_gets_every_device(project):
    jobs = project.snakemake("-n", "runs", "--config", "run_on=all").jobs
    assert jobs["measure"] == 3 * RUNS


def test_only_narrows_what_is_measured(project):
    jobs = project.snakemake("-n", "runs", "--config", "only={workload: matmul, batch_size: 64}").jobs
    assert jobs["measure"] == 2


def test_a_study_of_a_thousand_runs_can_be_planned(project):
    config = {**STUDY, "workloads": {"matmul": {"batch_size": list(range(1, 501))}}}
    assert project.snakemake("-n", "runs", config=config).jobs["measure"] == 1000


def test_a_folder_without_a_config_takes_the_checkout_s(project, tmp_path):
    (project.folder / "study.yaml").unlink()
    done = project.snakemake("-n", "runs", "--directory", str(tmp_path))
    assert done.code == 0, done.out
    assert done.jobs["measure"] > 0


def test_the_workflow_passes_its_own_linter(project):
    done = project.snakemake("--lint")
    assert done.code == 0, done.out

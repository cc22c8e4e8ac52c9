"""Which jobs each target stands for; which runs a target has is tested on the planner (tests/planning)."""

import pytest

pytestmark = pytest.mark.slow

STUDY = {
    "study": "dry",
    "data": {"source": "standin"},
    "measure": {"repeats": 2},
    "workloads": {"matmul": {"batch_size": [64, 128]}, "mnist_cnn": {"batch_size": [256]}},
}


def test_all_has_every_stage_and_a_kind_of_device_only_its_runs(project):
    everything = project.snakemake("-n", "all", config=STUDY).jobs
    assert everything["measure"] == 6  # neither GPU nor TPU here
    assert [everything[name] for name in ("dataset", "tables", "figures", "report")] == [1, 1, 1, 1]
    runs = project.snakemake("-n", "cpu").jobs
    assert runs["measure"] == 6 and not {"tables", "figures", "report"} & set(runs)


def test_every_job_has_the_account_that_a_schedulers_profile_names(project, tmp_path):
    (tmp_path / "config.yaml").write_text("default-resources: {slurm_account: mine, qos: normal}\n", encoding="utf-8")
    done = project.snakemake("-n", "runs", "--profile", str(tmp_path), "--quiet", "host", config=STUDY)
    jobs = [line for line in done.out.splitlines() if line.strip().startswith("resources:")]
    assert jobs and all("slurm_account=mine, qos=normal" in line for line in jobs)


def test_a_folder_without_a_config_plans_the_default_study(project, tmp_path):
    (project.folder / "study.yaml").unlink(missing_ok=True)
    done = project.snakemake("-n", "runs", "--directory", str(tmp_path))
    assert done.code == 0, done.out
    assert done.jobs["measure"] > 0


@pytest.mark.long  # the planner alone is tested with fewer runs
def test_a_study_of_a_thousand_runs_can_be_planned(project):
    config = {**STUDY, "workloads": {"matmul": {"batch_size": list(range(1, 501))}}}
    assert project.snakemake("-n", "runs", config=config).jobs["measure"] == 1000

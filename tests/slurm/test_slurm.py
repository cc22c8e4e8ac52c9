"""A study through profiles/slurm: planned; on a real Slurm of three nodes on this machine, without and with accounting.

The nodes gpu and tpu have no such device: three devices of kind cpu go to the three partitions.
"""

import os
import subprocess
from collections.abc import Iterator

import pytest
from slurm.cluster_studies import DEVICES, PLUGIN, RUN, Disturbed, Whole, command, write
from slurm.throwaway_slurm import Job
from workflow.conftest import Outcome, Project, copy_project

from whichdevice.records.schema import Record
from whichdevice.records.store import read_record

pytestmark = pytest.mark.slow


def on_a_cluster(test):
    """Mark a test that starts a Slurm, which takes minutes."""
    return pytest.mark.long(pytest.mark.needs("slurm", "slurm plugin")(test))


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A copy of the project in a folder whose name the executor's plugin takes."""
    return copy_project(tmp_path_factory.mktemp("cluster") / "study")


@pytest.fixture(scope="module")
def whole(project: Project) -> Iterator[Whole]:
    """Run once for the tests that read from it."""
    yield Whole(project)


@pytest.fixture(scope="module")
def disturbed(project: Project) -> Iterator[Disturbed]:
    """Run once for the tests that read from it."""
    yield Disturbed(project)


def record(project: Project, device: str) -> Record:
    """The only record of a device in the disturbed study."""
    (path,) = (project.folder / "results/disturbed/runs" / device / RUN).glob("*/record.json")
    return read_record(path)


def measured_at(jobs: list[Job]) -> dict[str, tuple[str, str]]:
    """Device: partition and node of its last job."""
    return {
        device: (job.partition, job.node)
        for device in DEVICES
        for job in jobs
        if device in job.comment and job.state == "COMPLETED"
    }


@pytest.mark.needs("slurm plugin")
def test_snakemake_takes_the_profile_and_plans_every_device_without_a_cluster(project):
    write(project, "planned")
    environment = {**os.environ, "PYTHONPATH": str(PLUGIN), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(
        command("all", "--dry-run"), cwd=project.folder, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Outcome(0, done.stdout + done.stderr, 0.0).jobs["measure"] == len(DEVICES), done.stdout


@on_a_cluster
def test_each_device_is_measured_in_its_partition(whole):
    assert whole.code == 0, whole.said
    assert measured_at(whole.jobs) == {"at_cpu": ("cpu", "cpu"), "at_gpu": ("gpu", "gpu"), "at_tpu": ("tpu", "tpu")}


@on_a_cluster
def test_each_run_takes_the_cores_of_its_node_and_what_can_never_start_is_reported(project, whole):
    records = [read_record(path) for path in (project.folder / "results/whole").glob("runs/**/record.json")]
    assert {each.machine.threads for each in records} == {whole.cores}
    (line,) = [line for line in whole.refused.splitlines() if line.startswith("Slurm will never start")]
    assert line.startswith("Slurm will never start the runs of device at_cpu: it asks for 999 cores (cpus_per_task)")


@on_a_cluster
def test_tables_figures_and_page_share_a_job(whole):
    assert [job.comment for job in whole.jobs if "measure" not in job.comment] == ["rule_drawing_figures_report_tables"]


@on_a_cluster
def test_the_study_ends_with_all_its_records_and_its_report(project, whole):
    assert "All 3 runs are ok." in whole.said
    root = project.folder / "results/whole"
    assert {read_record(path).status for path in root.glob("runs/**/record.json")} == {"ok"}
    assert len((root / "tables/runs.csv").read_text().splitlines()) == 4
    assert (root / "report.html").is_file()


@on_a_cluster
def test_a_cancelled_job_runs_again(project, disturbed):
    states = [job.state for job in disturbed.jobs if "at_gpu" in job.comment]
    assert sorted(states) == ["CANCELLED", "COMPLETED"], disturbed.said
    assert record(project, "at_gpu").status == "ok"


@on_a_cluster
def test_a_lost_node_is_told_and_the_other_runs_go_on(project, disturbed):
    assert disturbed.code != 0
    assert "failed due to a node failure" in disturbed.said
    (line,) = [line for line in disturbed.said.splitlines() if "No record" in line]
    assert line.startswith(f"No record of 1 of 3 runs (first: at_tpu/{RUN})")
    assert record(project, "at_cpu").status == "ok"


@on_a_cluster
def test_accounting_knows_partition_and_node(disturbed):
    assert "cpu|cpu|COMPLETED" in disturbed.accounted
    assert "tpu|tpu|NODE_FAIL" in disturbed.accounted


@on_a_cluster
def test_nothing_of_slurm_is_left(whole, disturbed):
    for slurm in (whole.slurm, disturbed.slurm):
        assert not slurm.folder.exists()
        assert slurm.processes() == []

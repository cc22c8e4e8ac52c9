"""A study on Google Batch: the real executor and Google's client, against a service on loopback whose jobs run."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from fakes.bucket import bucket_emulator
from fakes.google_batch_api import WORKDIR, GoogleBatch
from fakes.remote_study import APART, IMAGE, ROOT, RemoteStudy, container_environment, copy_study

from whichdevice.records.store import read_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not ((APART / "google-batch").is_dir() and (APART / "kubernetes").is_dir()),
        reason="no executor: sh envs/google-batch.sh --apart, sh envs/extra.sh kubernetes --apart",
    ),
]
STUDY = {
    "study": "batch",
    "devices": {
        "n2": {"kind": "cpu"},
        "t4": {
            "kind": "gpu",
            "resources": {
                "googlebatch_machine_type": "n1-standard-8",
                "googlebatch_cpu_milli": 8000,
                "googlebatch_memory": 28000,
                "googlebatch_max_run_duration": "7200s",
                "googlebatch_container": f"{IMAGE}-gpu",
                "nvidia_gpu": "nvidia-tesla-t4",
            },
        },
    },
    "data": {"source": "standin"},
    "measure": {"seconds": 0.1, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
    "workloads": {"matmul": {"batch_size": [64], "backend": ["jax"]}},
}
CELL = "matmul/jax-float32-b64/r1"


@dataclass
class Ended:
    """A study that ran to its end: what was said, and what the service was asked."""

    call: CompletedProcess[str]
    study: RemoteStudy
    service: GoogleBatch

    def job(self, device: str) -> dict[str, Any]:
        """The only job of a device."""
        [job] = [job for job in self.service.jobs.values() if f"device={device}" in json.dumps(job)]
        return job

    def task(self, device: str) -> dict[str, Any]:
        """The task of a device's job."""
        return self.job(device)["taskGroups"][0]["taskSpec"]

    def machine(self, device: str) -> dict[str, Any]:
        """The machine of a device's job."""
        return self.job(device)["allocationPolicy"]["instances"][0]


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """The study above, through profiles/google-batch; the first machine is lost."""
    folder = tmp_path_factory.mktemp("batch")
    study = copy_study(folder / "a copy", "google-batch", STUDY, "google-batch")
    service = GoogleBatch(folder / "machines", container_environment(folder, WORKDIR))
    service.lost = 1
    with bucket_emulator("bucket") as address, service:
        site = ROOT / "tests/fakes/google_batch_site"
        study.environment["PYTHONPATH"] += f":{site}"
        study.environment |= {"FAKE_GOOGLE": service.url, "STORAGE_EMULATOR_HOST": address}
        call = study.snakemake("runs", "--gcbatch-project", "a-project", "--gcbatch-region", "us-central1")
        yield Ended(call, study, service)


def test_the_study_ends_well_and_its_records_come_home(ended: Ended) -> None:
    assert ended.call.returncode == 0, ended.call.stdout
    runs = ended.study.folder / "results/batch/runs"
    assert read_record(runs / "n2" / CELL / "record.json").status == "ok"
    assert read_record(runs / "t4" / CELL / "record.json").status == "failed"  # no GPU where this service runs


def test_a_job_has_the_profile_s_machine_and_image(ended: Ended) -> None:
    policy = ended.machine("n2")["policy"]
    assert policy["machineType"] == "n2-standard-4"
    assert policy["bootDisk"]["image"].endswith("/batch-cos-stable-official")
    assert "accelerators" not in policy
    assert ended.task("n2")["computeResource"] == {"cpuMilli": "4000", "memoryMib": "14000"}
    assert ended.task("n2")["maxRunDuration"] == f"{60 * (15 + 5 + 20)}s"  # measure.timeout, and what comes before
    assert ended.task("t4")["maxRunDuration"] == "7200s"
    assert ended.job("n2")["taskGroups"][0]["taskCountPerNode"] == "1"
    assert container(ended.task("n2"))["imageUri"] == IMAGE


def test_a_gpu_has_its_machine_driver_and_container(ended: Ended) -> None:
    machine = ended.machine("t4")
    assert machine["policy"]["machineType"] == "n1-standard-8"
    assert machine["policy"]["accelerators"] == [{"type": "nvidia-tesla-t4", "count": "1"}]
    assert machine["installGpuDrivers"]
    assert ended.task("t4")["computeResource"] == {"cpuMilli": "8000", "memoryMib": "28000"}
    asked = container(ended.task("t4"))
    assert asked["imageUri"] == f"{IMAGE}-gpu"
    assert "--privileged" in asked["options"] and "/var/lib/nvidia/lib64:/usr/local/nvidia/lib64" in asked["volumes"]
    assert "--privileged" not in container(ended.task("n2"))["options"]


def test_settings_are_variables_of_the_job_and_no_credential_is_among_them(ended: Ended) -> None:
    variables = ended.task("n2")["runnables"][-1]["environment"]["variables"]
    assert set(variables) == {"STORAGE_EMULATOR_HOST", "SNAKEMAKE_STORAGE_GCS_PROJECT"}


def test_batch_starts_a_lost_machine_s_task_anew_and_nobody_a_failed_run(ended: Ended) -> None:
    assert sorted(ended.service.attempts.values()) == [1, 2]
    assert all(job["status"]["state"] == "SUCCEEDED" for job in ended.service.jobs.values())


def test_nothing_is_installed_on_a_machine(ended: Ended) -> None:
    assert not (ended.study.folder.parent / "pip-was-called").exists()
    assert not any("Successfully installed" in log for log in ended.service.logs.values())


@pytest.mark.parametrize("status", [0, 3])
def test_how_a_job_ends_is_how_its_task_ends(ended: Ended, tmp_path: Path, status: int) -> None:
    setup, *rest = ended.task("n2")["runnables"]
    command = re.compile(r"^(.*?)python -m snakemake --deploy-sources .*$", re.MULTILINE)
    text, times = command.subn(rf"\1python -c 'raise SystemExit({status})'", setup["script"]["text"])
    assert times == 1
    assert ended.service.attempt("planted", [{"script": {"text": text}}, *rest], tmp_path / "machine") == (status == 0)


def container(task: dict[str, Any]) -> dict[str, Any]:
    """What runs in the job's container, after the scripts that prepare it."""
    return task["runnables"][-1]["container"]

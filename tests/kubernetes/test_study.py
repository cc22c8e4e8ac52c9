"""A study on Kubernetes: the real executor, a server that keeps state, pods that run, a bucket that carries files."""

import base64
import json
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from fakes.bucket import bucket_emulator
from fakes.kubernetes_api import ApiServer
from fakes.kubernetes_cluster import Cluster
from fakes.kubernetes_objects import Node
from fakes.remote_study import APART, IMAGE, RemoteStudy, container_environment, copy_study

from whichdevice.records.schema import Record
from whichdevice.records.store import read_record

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not (APART / "kubernetes").is_dir(), reason="no executor: sh envs/extra.sh kubernetes --apart"),
]
ROOM = {"memory": 64e9, "ephemeral-storage": 100e9}
NODES = [
    Node("cpu", {"node.kubernetes.io/instance-type": "n2-standard-4"}, {"cpu": 4, **ROOM}),
    Node(
        "gpu",
        {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"},
        {"cpu": 8, "nvidia.com/gpu": 1, **ROOM},
        {"nvidia.com/gpu": "present"},
    ),
    Node(
        "tpu",
        {
            "cloud.google.com/gke-tpu-accelerator": "tpu-v5-lite-podslice",
            "cloud.google.com/gke-tpu-topology": "2x2",
        },
        {"cpu": 24, "google.com/tpu": 4, **ROOM},
        {"google.com/tpu": "present"},
    ),
]
STUDY = {
    "study": "pods",
    "devices": {
        "n2": {"kind": "cpu", "resources": {"machine_type": "n2-standard-4"}},
        "t4": {"kind": "gpu", "resources": {"gpu": 1, "gpu_manufacturer": "nvidia", "gpu_model": "nvidia-tesla-t4"}},
        "v5e": {
            "kind": "tpu",
            "replicas": 4,
            "resources": {
                "tpu": 4,
                "tpu_accelerator": "tpu-v5-lite-podslice",
                "tpu_topology": "2x2",
                "cpus": 24,
                "mem_mb": 40000,
            },
        },
    },
    "data": {"source": "standin"},
    "measure": {"seconds": 0.1, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
    "train": {"epochs": 1},
    "workloads": {"mnist_cnn": {"batch_size": [64], "backend": ["jax"], "fraction": [0.01]}},
}
CELL = "mnist_cnn/jax-float32-b64-fraction=0.01/r1"


@dataclass
class Ended:
    """A study that ran to its end: what was said, what the cluster saw, what the bucket holds."""

    call: CompletedProcess[str]
    study: RemoteStudy
    api: ApiServer
    address: str

    @property
    def folder(self) -> Path:
        """The study's results on the machine that started it."""
        return self.study.folder / "results/pods"

    def record(self, device: str) -> Record:
        """The record of a device's run."""
        return read_record(self.folder / "runs" / device / CELL / "record.json")

    def pods(self, device: str) -> list[dict[str, Any]]:
        """The pods of a device's run, as they were asked for."""
        specs = [job["spec"]["template"]["spec"] for job in self.api.cluster.created]
        return [spec for spec in specs if f"device={device}" in spec["containers"][0]["args"][1]]

    def objects(self) -> dict[str, int]:
        """Names and generations of everything in the bucket."""
        from google.auth.credentials import AnonymousCredentials
        from google.cloud import storage

        options = {"api_endpoint": self.address}
        client = storage.Client("a-project", credentials=AnonymousCredentials(), client_options=options)
        return {blob.name: blob.generation for blob in client.list_blobs("bucket")}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Ended]:
    """The study above, through profiles/kubernetes, on a cluster whose GPU node dies under its first pod."""
    folder = tmp_path_factory.mktemp("kubernetes")
    study = copy_study(folder / "a copy", "kubernetes", STUDY, "kubernetes")
    cluster = Cluster(NODES, folder / "pods", container_environment(folder, "/workdir"))
    cluster.lost.append("gpu")
    with bucket_emulator("bucket") as address, ApiServer(cluster) as api:
        login = folder / "kubeconfig"
        login.write_text(kubeconfig(api.url), encoding="utf-8")
        study.environment |= {"KUBECONFIG": str(login), "STORAGE_EMULATOR_HOST": address}
        yield Ended(study.snakemake("tables"), study, api, address)


def kubeconfig(server: str) -> str:
    """What `gcloud container clusters get-credentials` would write, without a login."""
    named = {"clusters": {"server": server}, "users": {}, "contexts": {"cluster": "here", "user": "here"}}
    kinds = {kind: [{"name": "here", kind.removesuffix("s"): value}] for kind, value in named.items()}
    return json.dumps({"apiVersion": "v1", "kind": "Config", "current-context": "here", **kinds})


def test_the_study_ends_well(ended: Ended) -> None:
    assert ended.call.returncode == 0, ended.call.stdout
    assert "5 of 5 steps (100%) done" in ended.call.stdout
    assert (ended.folder / "tables/runs.csv").is_file()


def test_a_run_in_a_pod_is_a_record_here_with_its_artefacts(ended: Ended) -> None:
    record = ended.record("n2")
    assert record.status == "ok", record.reason
    assert record.data is not None and record.data.source == "standin"
    assert set(record.artefacts) >= {"weights", "predictions"}
    for artefact in record.artefacts.values():
        assert (ended.folder / "runs/n2" / CELL / artefact.file).exists()


def test_runs_without_their_device_are_records_that_say_so(ended: Ended) -> None:
    assert [ended.record(device).status for device in ("t4", "v5e")] == ["failed", "failed"]
    assert "no TPU found" in (ended.record("v5e").reason or "")


def test_every_pod_has_the_image_and_its_limits(ended: Ended) -> None:
    for spec in ended.pods("n2") + ended.pods("t4") + ended.pods("v5e"):
        assert spec["containers"][0]["image"] == IMAGE
        assert spec["restartPolicy"] == "Never"
        assert spec["activeDeadlineSeconds"] == 60 * (15 + 5 + 20)  # measure.timeout, and what comes before
    [pod] = ended.pods("n2")
    assert pod["nodeSelector"] == {"node.kubernetes.io/instance-type": "n2-standard-4"}
    asked = pod["containers"][0]["resources"]
    assert asked["requests"] == {"cpu": "3800m", "memory": "8000M", "ephemeral-storage": "4000M"}
    assert asked["limits"]["memory"] == "8000M"


def test_a_gpu_is_asked_for_by_count_kind_and_toleration(ended: Ended) -> None:
    pod = ended.pods("t4")[0]
    asked = pod["containers"][0]["resources"]
    assert asked["requests"]["nvidia.com/gpu"] == asked["limits"]["nvidia.com/gpu"] == "1"
    assert pod["nodeSelector"] == {"cloud.google.com/gke-accelerator": "nvidia-tesla-t4"}
    assert [entry["key"] for entry in pod["tolerations"]] == ["nvidia.com/gpu"]


def test_a_tpu_is_asked_for_by_chips_kind_and_topology(ended: Ended) -> None:
    [pod] = ended.pods("v5e")
    asked = pod["containers"][0]["resources"]
    assert asked["requests"]["google.com/tpu"] == asked["limits"]["google.com/tpu"] == "4"
    assert (asked["requests"]["cpu"], asked["requests"]["memory"]) == ("22800m", "40000M")
    assert pod["nodeSelector"] == NODES[2].labels
    assert [entry["key"] for entry in pod["tolerations"]] == ["google.com/tpu"]


def test_only_devices_with_accelerators_ask_for_any(ended: Ended) -> None:
    [pod] = ended.pods("n2")
    assert not {"nvidia.com/gpu", "google.com/tpu"} & set(pod["containers"][0]["resources"]["requests"])
    assert not pod.get("tolerations")


def test_settings_travel_as_a_secret_and_go_with_the_study(ended: Ended) -> None:
    [pod] = ended.pods("n2")
    named = {variable["name"]: variable["valueFrom"]["secretKeyRef"] for variable in pod["containers"][0]["env"]}
    assert set(named) == {"STORAGE_EMULATOR_HOST", "SNAKEMAKE_STORAGE_GCS_PROJECT"}
    assert ended.address not in pod["containers"][0]["args"][1]
    [secret] = ended.api.cluster.past_secrets
    assert base64.b64decode(secret["data"]["storage_emulator_host"]).decode() == ended.address
    assert not ended.api.cluster.secrets


def test_a_lost_node_s_run_is_tried_again_and_a_failed_run_is_not(ended: Ended) -> None:
    assert [len(ended.pods(device)) for device in ("n2", "t4", "v5e")] == [1, 2, 1]


def test_nothing_is_installed_in_a_pod_and_nothing_is_left_behind(ended: Ended) -> None:
    assert not (ended.study.folder.parent / "pip-was-called").exists()
    assert not ended.api.cluster.jobs and not ended.api.cluster.pods
    assert not [name for name in ended.objects() if "snakemake-workflow-sources" in name]


def test_a_second_call_from_another_machine_measures_nothing(ended: Ended, tmp_path: Path) -> None:
    second = copy_study(tmp_path / "second", "kubernetes", STUDY, "kubernetes")
    second.environment |= ended.study.environment
    before = len(ended.api.cluster.created)
    call = second.snakemake("runs")
    assert call.returncode == 0, call.stdout
    assert len(ended.api.cluster.created) == before
    assert (second.folder / "results/pods/runs/n2" / CELL / "record.json").is_file()


def test_an_earlier_copy_gives_way_to_the_record_and_artefacts_of_the_bucket(ended: Ended) -> None:
    record = ended.folder / "runs/n2" / CELL / "record.json"
    stored = record.read_bytes()
    shutil.rmtree(record.parent)
    record.parent.mkdir()
    record.write_bytes(stored.replace(b'"ok"', b'"failed"'))
    os.utime(record, (1.0, 1.0))
    call = ended.study.snakemake("tables", "--config", "run_on=all", "only={device: t4}")
    assert call.returncode == 0, call.stdout
    assert record.read_bytes() == stored
    for artefact in ended.record("n2").artefacts.values():
        assert (record.parent / artefact.file).exists()


def test_a_forced_run_whose_node_is_lost_leaves_the_earlier_record(ended: Ended) -> None:
    name = f"prefix/results/pods/runs/n2/{CELL}/record.json"
    before = ended.objects()[name]
    ended.api.cluster.lost += ["cpu"] * 3
    call = ended.study.snakemake("cpu", "--forcerun", "measure")
    assert call.returncode == 1, call.stdout
    assert ended.objects()[name] == before
    assert not ended.api.cluster.lost
    assert ended.record("n2").status == "ok"


def test_records_that_are_in_no_bucket_are_not_replaced(ended: Ended, tmp_path: Path) -> None:
    other = copy_study(tmp_path / "other", "kubernetes", STUDY, "kubernetes")
    other.environment |= ended.study.environment
    record = other.folder / "results/pods/runs/n2" / CELL / "record.json"
    record.parent.mkdir(parents=True)
    os.link(ended.folder / "runs/n2" / CELL / "record.json", record)
    call = other.snakemake("runs", "-n")
    assert call.returncode == 1
    assert "error: results/pods holds records that are in no bucket; take another study name" in call.stdout

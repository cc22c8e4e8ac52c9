"""Snakemake's Kubernetes executor with what selects an accelerator on GKE, and with the log of a pod that failed.

snakemake-executor-plugin-kubernetes 0.5.1 knows no TPU and no kind of GPU. Of a pod that failed it wants the log of the
container before, which a pod that is never restarted has not; the refusal ends the study. All else is its own. A job's
resources, beside those of that executor:

    runtime          minutes after which the pod ends, and START_MINUTES for its image; from its start on a node
    cpus             in place of the rule's threads: devices differ
    tpu              chips: google.com/tpu
    tpu_accelerator  e.g. tpu-v5-lite-podslice, tpu-v6e-slice; tpu_topology  e.g. 2x2
    gpu_model        e.g. nvidia-tesla-t4, nvidia-l4
"""

from functools import partial
from typing import Any

import kubernetes.client
from kubernetes.client import V1Job, V1Toleration
from kubernetes.client.rest import ApiException
from snakemake_executor_plugin_kubernetes import Executor as KubernetesExecutor
from snakemake_executor_plugin_kubernetes import ExecutorSettings, common_settings
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

TPU = "google.com/tpu"
START_MINUTES = 20  # an image with CUDA has 12 GB
SELECTORS = {
    "gpu_model": "cloud.google.com/gke-accelerator",
    "tpu_accelerator": "cloud.google.com/gke-tpu-accelerator",
    "tpu_topology": "cloud.google.com/gke-tpu-topology",
}


class Executor(KubernetesExecutor):
    """The executor; its clients are given what they lack whenever it makes them: at its start, and to log in anew."""

    _resources: dict[str, Any]

    def run_job(self, job: JobExecutorInterface) -> None:
        """Submit a job."""
        self._resources = dict(job.resources)
        super().run_job(job)

    @property
    def batchapi(self) -> kubernetes.client.BatchV1Api:
        """The client of jobs."""
        return self._batchapi

    @batchapi.setter
    def batchapi(self, client: kubernetes.client.BatchV1Api) -> None:
        client.create_namespaced_job = partial(self._create, client.create_namespaced_job)
        self._batchapi = client

    @property
    def kubeapi(self) -> kubernetes.client.CoreV1Api:
        """The client of pods and secrets."""
        return self._kubeapi

    @kubeapi.setter
    def kubeapi(self, client: kubernetes.client.CoreV1Api) -> None:
        client.read_namespaced_pod_log = partial(_log_or_why_not, client.read_namespaced_pod_log)
        self._kubeapi = client

    def _create(self, create: Any, namespace: str, body: V1Job) -> V1Job:
        select_node(body, self._resources, self.k8s_cpu_scalar)
        return create(namespace, body)


def select_node(job: V1Job, resources: dict[str, Any], cpu_scalar: float) -> None:
    """Add to a job's pod what its resources say of its node and the executor leaves out."""
    pod = job.spec.template.spec
    asked = pod.containers[0].resources
    if "runtime" in resources:  # the pod's and not the job's: waiting for a node does not count
        pod.active_deadline_seconds = 60 * (resources["runtime"] + START_MINUTES)
    if "cpus" in resources:
        asked.requests["cpu"] = f"{round(resources['cpus'] * cpu_scalar * 1000)}m"
        if asked.limits:
            asked.limits["cpu"] = str(resources["cpus"])
    for resource, label in SELECTORS.items():
        if resource in resources:
            pod.node_selector = {**(pod.node_selector or {}), label: str(resources[resource])}
    if "tpu" in resources:
        chips = {TPU: str(resources["tpu"])}
        asked.requests, asked.limits = {**(asked.requests or {}), **chips}, {**(asked.limits or {}), **chips}
        toleration = V1Toleration(key=TPU, operator="Equal", value="present", effect="NoSchedule")
        pod.tolerations = [*(pod.tolerations or []), toleration]


def _log_or_why_not(read: Any, previous: bool = False, **options: Any) -> str:
    """The log of a pod's only container; one that went with its node has none, which is no reason to end the study."""
    try:
        return read(**options)
    except ApiException as error:
        return f"no log of this pod: {error.reason}"

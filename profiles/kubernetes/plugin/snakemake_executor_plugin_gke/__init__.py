"""Snakemake's Kubernetes executor where pods wait for their nodes, and with what selects an accelerator on GKE.

snakemake-executor-plugin-kubernetes 0.5.1 knows no TPU and no kind of GPU, and ends the study when it looks at a pod
that has no node yet (snakemake issue 3308): on a cluster that starts its GPU nodes on demand, every such pod. All else
is its own. A job's resources, beside those of that executor:

    cpus             in place of the rule's threads: devices differ
    tpu              chips: google.com/tpu
    tpu_accelerator  e.g. tpu-v5-lite-podslice, tpu-v6e-slice; tpu_topology  e.g. 2x2
    gpu_model        e.g. nvidia-tesla-t4, nvidia-l4
"""

from functools import partial
from typing import Any

import kubernetes.client
from kubernetes.client import V1ContainerState, V1ContainerStatus, V1Job, V1PodList, V1Toleration
from kubernetes.client.rest import ApiException
from snakemake_executor_plugin_kubernetes import Executor as KubernetesExecutor
from snakemake_executor_plugin_kubernetes import ExecutorSettings, common_settings
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

TPU = "google.com/tpu"
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
        client.list_namespaced_pod = partial(_with_statuses, client.list_namespaced_pod)
        client.read_namespaced_pod_log = partial(_log_or_why_not, client.read_namespaced_pod_log)
        self._kubeapi = client

    def _create(self, create: Any, namespace: str, body: V1Job) -> V1Job:
        select_node(body, self._resources, self.k8s_cpu_scalar)
        return create(namespace, body)


def select_node(job: V1Job, resources: dict[str, Any], cpu_scalar: float) -> None:
    """Add to a job's pod what its resources say of its node and the executor leaves out."""
    pod = job.spec.template.spec
    asked = pod.containers[0].resources
    if "cpus" in resources:
        asked.requests["cpu"] = f"{int(resources['cpus'] * cpu_scalar * 1000)}m"
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


def _with_statuses(list_pods: Any, *arguments: Any, **options: Any) -> V1PodList:
    """A pod has no container before it has a node, or after it was thrown off one: neither running nor at an end."""
    pods = list_pods(*arguments, **options)
    for pod in pods.items:
        if not pod.status.container_statuses:
            pod.status.container_statuses = [
                V1ContainerStatus(
                    name="snakemake",
                    image="",
                    image_id="",
                    ready=False,
                    restart_count=0,
                    state=V1ContainerState(),
                )
            ]
    return pods


def _log_or_why_not(read: Any, *arguments: Any, **options: Any) -> str:
    """A pod that never started, or went with its node, has no log: no reason to end the study."""
    try:
        return read(*arguments, **options)
    except ApiException as error:
        return f"no log of this pod: {error.reason}"

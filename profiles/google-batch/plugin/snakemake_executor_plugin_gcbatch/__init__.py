"""Snakemake's Google Batch executor, whose containers may write where they work and see the machine's GPU.

snakemake-executor-plugin-googlebatch 0.5.1 gives a container a folder of root's and none of the driver's files. What
a container needs for a GPU is from Google's page on Batch jobs with GPUs. All else is its own, resources included.
"""

from typing import Any

from google.cloud import batch_v1
from snakemake_executor_plugin_googlebatch import Executor as GoogleBatchExecutor
from snakemake_executor_plugin_googlebatch import ExecutorSettings, common_settings
from snakemake_interface_executor_plugins.jobs import JobExecutorInterface

__all__ = ["Executor", "ExecutorSettings", "common_settings"]

DRIVER = ["/var/lib/nvidia/lib64:/usr/local/nvidia/lib64", "/var/lib/nvidia/bin:/usr/local/nvidia/bin"]


class Executor(GoogleBatchExecutor):
    """The executor, with containers of its own."""

    def get_container(self, job: JobExecutorInterface, *arguments: Any) -> batch_v1.Runnable.Container | None:
        """What runs a job; None where its machine has no container."""
        container = super().get_container(job, *arguments)
        if container is not None:
            container.options += " --user 0"
            if job.resources.get("nvidia_gpu"):
                container.options += " --privileged"
                container.volumes.extend(DRIVER)
        return container

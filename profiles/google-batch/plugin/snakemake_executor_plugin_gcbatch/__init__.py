"""Snakemake's Google Batch executor, whose containers may write where they work and see the machine's GPU.

A job also has the time that its rule asks for, and START_MINUTES for its image; there it is one setting for all.

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


START_MINUTES = 20  # an image with CUDA has 12 GB


class Executor(GoogleBatchExecutor):
    """The executor, with containers and time limits of its own."""

    def get_param(self, job: JobExecutorInterface, param: str) -> Any:
        """A setting of a job: its own, or the call's; its time, where it names none, follows from its `runtime`."""
        own = job.resources.get(f"googlebatch_{param}")
        if param == "max_run_duration" and not own and (minutes := job.resources.get("runtime")):
            return f"{60 * (minutes + START_MINUTES)}s"
        return super().get_param(job, param)

    def get_container(self, job: JobExecutorInterface, *arguments: Any) -> batch_v1.Runnable.Container | None:
        """What runs a job; None where its machine has no container."""
        container = super().get_container(job, *arguments)
        if container is not None:
            container.options += " --user 0"
            if job.resources.get("nvidia_gpu"):
                container.options += " --privileged"
                container.volumes.extend(DRIVER)
        return container

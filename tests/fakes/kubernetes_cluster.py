"""The state of a fake Kubernetes cluster, its scheduler, and a kubelet that runs pods as processes of this machine."""

import base64
import os
import signal
import subprocess
import threading
import uuid
from pathlib import Path
from typing import Any

from fakes.kubernetes_objects import Node, Object, Refusal, check_job, requests


class Cluster:
    """Nodes, secrets, jobs and pods by namespace and name; `folder` holds the pods' working directories and logs."""

    def __init__(self, nodes: list[Node], folder: Path, environment: dict[str, str]) -> None:
        self.nodes, self.folder, self.environment = nodes, folder, environment
        self.secrets: dict[tuple[str, str], Object] = {}
        self.jobs: dict[tuple[str, str], Object] = {}
        self.pods: dict[tuple[str, str], Object] = {}
        self.created: list[Object] = []  # every job ever made, as it came
        self.past_secrets: list[Object] = []  # every secret ever made
        self.lost: list[str] = []  # nodes whose next pod dies with them, once for each time they stand here
        self._processes: dict[tuple[str, str], subprocess.Popen[bytes]] = {}
        self._lock = threading.RLock()

    def create_secret(self, space: str, secret: Object) -> Object:
        """POST secrets."""
        with self._lock:
            key = space, secret["metadata"]["name"]
            if key in self.secrets:
                raise Refusal(409, "AlreadyExists", f"secrets {key[1]!r} already exists")
            self.secrets[key] = {"apiVersion": "v1", "kind": "Secret", **secret}
            self.past_secrets.append(secret)
            return self.secrets[key]

    def delete_secret(self, space: str, name: str) -> Object:
        """DELETE secrets/name."""
        with self._lock:
            self._known(self.secrets, space, name, "secrets")
            del self.secrets[space, name]
            return {"kind": "Status", "status": "Success"}

    def create_job(self, space: str, job: Object) -> Object:
        """POST jobs: checked, kept, and its pod made."""
        check_job(job)
        with self._lock:
            name = job["metadata"]["name"]
            if (space, name) in self.jobs:
                raise Refusal(409, "AlreadyExists", f"jobs.batch {name!r} already exists")
            self.created.append(job)
            kept = {"apiVersion": "batch/v1", "kind": "Job", **job, "status": {"active": 1}}
            kept["metadata"] = {**job["metadata"], "namespace": space, "uid": str(uuid.uuid4())}
            self.jobs[space, name] = kept
            pod_name = f"{name}-{uuid.uuid4().hex[:5]}"
            self.pods[space, pod_name] = {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {"name": pod_name, "namespace": space, "labels": {"job-name": name}},
                "spec": job["spec"]["template"]["spec"],
                "status": {"phase": "Pending"},  # no containerStatuses before a kubelet has the pod
            }
            return kept

    def read_job(self, space: str, name: str) -> Object:
        """GET jobs/name/status; time passes in this cluster when somebody looks."""
        with self._lock:
            job = self._known(self.jobs, space, name, "jobs.batch")
            self._schedule()
            return job

    def list_pods(self, space: str, selector: str) -> Object:
        """GET pods, selected by one label."""
        label, _, value = selector.partition("=")
        with self._lock:
            items = [
                pod
                for (where, _), pod in self.pods.items()
                if where == space and (not label or pod["metadata"]["labels"].get(label) == value)
            ]
            return {"apiVersion": "v1", "kind": "PodList", "metadata": {}, "items": items}

    def pod_log(self, space: str, name: str, previous: bool) -> str:
        """GET pods/name/log; a container that is never restarted has no previous one."""
        if previous:
            raise Refusal(400, "BadRequest", f'previous terminated container "snakemake" in pod "{name}" not found')
        with self._lock:
            self._known(self.pods, space, name, "pods")
            log = self.folder / name / "log"
            return log.read_text(encoding="utf-8", errors="replace") if log.is_file() else ""

    def delete_pod(self, space: str, name: str) -> Object:
        """DELETE pods/name: its process ends, its job fails."""
        with self._lock:
            pod = self._known(self.pods, space, name, "pods")
            process = self._processes.pop((space, name), None)
            if process is not None and process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
                self._end_job(pod, succeeded=False)
            del self.pods[space, name]
            return pod

    def delete_job(self, space: str, name: str) -> Object:
        """DELETE jobs/name with its pods."""
        with self._lock:
            self._known(self.jobs, space, name, "jobs.batch")
            for where, pod in list(self.pods.items()):
                if where[0] == space and pod["metadata"]["labels"]["job-name"] == name:
                    self.delete_pod(*where)
            del self.jobs[space, name]
            return {"kind": "Status", "status": "Success"}

    def close(self) -> None:
        """End every pod."""
        with self._lock:
            for space, name in list(self.pods):
                self.delete_pod(space, name)

    def _known(self, kept: dict[tuple[str, str], Object], space: str, name: str, kind: str) -> Object:
        if (space, name) not in kept:
            raise Refusal(404, "NotFound", f"{kind} {name!r} not found")
        return kept[space, name]

    def _schedule(self) -> None:
        """Place pending pods, one look after they were made; notice those that ended."""
        for where, pod in self.pods.items():
            if where in self._processes:
                self._notice(where, pod)
        for where, pod in self.pods.items():
            if pod["status"]["phase"] == "Pending" and "looked" in pod:
                node = next((node for node in self.nodes if node.fits(pod, self._used(node))), None)
                if node is not None:
                    self._start(where, pod, node)
            pod.setdefault("looked", True)

    def _used(self, node: Node) -> dict[str, float]:
        used: dict[str, float] = {}
        for pod in self.pods.values():
            if pod["spec"].get("nodeName") == node.name and pod["status"]["phase"] == "Running":
                for name, amount in requests(pod["spec"]).items():
                    used[name] = used.get(name, 0) + amount
        return used

    def _start(self, where: tuple[str, str], pod: Object, node: Node) -> None:
        container = pod["spec"]["containers"][0]
        workdir = self.folder / where[1] / "workdir"  # the pod's emptyDir
        workdir.mkdir(parents=True)
        environment = {name: value.replace("/workdir", str(workdir)) for name, value in self.environment.items()}
        for variable in container.get("env") or []:
            secret = variable["valueFrom"]["secretKeyRef"]
            data = self._known(self.secrets, where[0], secret["name"], "secrets")["data"]
            environment[variable["name"]] = base64.b64decode(data[secret["key"]]).decode()
        with (workdir.parent / "log").open("wb") as log:
            self._processes[where] = subprocess.Popen(
                [*container["command"], *container["args"]],
                cwd=workdir,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        pod["spec"] = {**pod["spec"], "nodeName": node.name}
        pod["status"] = {"phase": "Running", "containerStatuses": [self._container(container, {"running": {}})]}
        if node.name in self.lost:
            self.lost.remove(node.name)
            os.killpg(self._processes[where].pid, signal.SIGKILL)

    def _notice(self, where: tuple[str, str], pod: Object) -> None:
        code = self._processes[where].poll()
        if code is None or pod["status"]["phase"] != "Running":
            return
        code = code if code >= 0 else 128 - code
        state = {"terminated": {"exitCode": code, "reason": "Error" if code else "Completed"}}
        container = pod["spec"]["containers"][0]
        phase = "Failed" if code else "Succeeded"
        pod["status"] = {"phase": phase, "containerStatuses": [self._container(container, state)]}
        self._end_job(pod, succeeded=not code)

    def _end_job(self, pod: Object, succeeded: bool) -> None:
        job = self.jobs.get((pod["metadata"]["namespace"], pod["metadata"]["labels"]["job-name"]))
        if job is not None:
            job["status"] = {"succeeded": 1} if succeeded else {"failed": 1}

    def _container(self, container: Object, state: dict[str, Any]) -> Object:
        return {
            "name": container["name"],
            "image": container["image"],
            "imageID": "",
            "ready": "running" in state,
            "restartCount": 0,
            "state": state,
        }

"""A small Google Batch, and the logging that goes with it, on loopback: keeps jobs, runs their tasks as processes."""

import json
import os
import re
import subprocess
import threading
import uuid
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

Object = dict[str, Any]
WORKDIR = "/tmp/workdir"  # where the executor's scripts work on the machine
JOB_ID = re.compile(r"[a-z]([a-z0-9-]{0,61}[a-z0-9])?")
LABEL = re.compile(r"[a-z0-9_-]{0,63}")
SCRIPT, CONTAINER = "script", "container"


class Refusal(Exception):  # noqa: N818
    """An answer that is no 200."""

    def __init__(self, code: int, status: str, message: str) -> None:
        super().__init__(message)
        self.code, self.body = code, {"error": {"code": code, "status": status, "message": message}}


def check_job(job_id: str, job: Object) -> None:
    """Raise Refusal as the service does on a job that it would not take."""
    if not JOB_ID.fullmatch(job_id):
        raise Refusal(400, "INVALID_ARGUMENT", f"job id {job_id!r} is not valid")
    for key, value in job.get("labels", {}).items():
        if not (LABEL.fullmatch(key) and LABEL.fullmatch(value)):
            raise Refusal(400, "INVALID_ARGUMENT", f"label {key}={value} is not valid")
    policy = job["allocationPolicy"]["instances"][0]["policy"]
    accelerators = policy.get("accelerators", [])
    if any(entry["type"] == "nvidia-tesla-t4" for entry in accelerators) and not policy["machineType"].startswith(
        "n1-"
    ):
        raise Refusal(400, "INVALID_ARGUMENT", "nvidia-tesla-t4 goes with machines of the N1 series")
    if accelerators and not job["allocationPolicy"]["instances"][0].get("installGpuDrivers"):
        raise Refusal(400, "INVALID_ARGUMENT", "accelerators without drivers")
    task = job["taskGroups"][0]["taskSpec"]
    cores = int(policy["machineType"].rpartition("-")[2]) * 1000
    if int(task["computeResource"]["cpuMilli"]) > cores:
        raise Refusal(400, "INVALID_ARGUMENT", f"cpuMilli is more than {policy['machineType']} has")
    if not re.fullmatch(r"\d+(\.\d+)?s", task["maxRunDuration"]):
        raise Refusal(400, "INVALID_ARGUMENT", "maxRunDuration is no duration")


class GoogleBatch:
    """The service; `environment` is what the container image sets, `folder` holds the machines' disks."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self.folder, self.environment = folder, environment
        self.jobs: dict[str, Object] = {}
        self.logs: dict[str, str] = {}
        self.attempts: dict[str, int] = {}
        self.lost = 0  # so many machines die with their next task
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._threads = [threading.Thread(target=self._server.serve_forever, daemon=True)]

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "GoogleBatch":
        self._threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        for thread in self._threads[1:]:
            thread.join()

    def answer(self, method: str, path: str, query: dict[str, str], body: Object) -> Object:
        """The object that a request gets; raises Refusal."""
        if method == "POST" and (match := re.fullmatch(r"/v1/(projects/[^/]+/locations/[^/]+)/jobs", path)):
            return self._create(match[1], query["jobId"], body)
        if method == "GET" and (match := re.fullmatch(r"/v1/(projects/[^/]+/locations/[^/]+/jobs/[^/]+)", path)):
            if match[1] not in self.jobs:
                raise Refusal(404, "NOT_FOUND", f"{match[1]} was not found")
            return self.jobs[match[1]]
        if method == "POST" and path == "/v2/entries:list":
            uid = re.search(r"labels.job_uid=(\S+)", body["filter"])
            lines = self.logs.get(uid[1] if uid else "", "").splitlines()
            name = f"{body['resourceNames'][0]}/logs/batch_task_logs"
            return {"entries": [{"logName": name, "textPayload": line} for line in lines]}
        raise Refusal(404, "NOT_FOUND", f"{method} {path}")

    def _create(self, parent: str, job_id: str, job: Object) -> Object:
        check_job(job_id, job)
        name = f"{parent}/jobs/{job_id}"
        if name in self.jobs:
            raise Refusal(409, "ALREADY_EXISTS", f"{name} already exists")
        self.jobs[name] = {**job, "name": name, "uid": uuid.uuid4().hex, "status": {"state": "QUEUED"}}
        thread = threading.Thread(target=self._run, args=(self.jobs[name],))
        self._threads.append(thread)
        thread.start()
        return self.jobs[name]

    def _run(self, job: Object) -> None:
        task = job["taskGroups"][0]["taskSpec"]
        for attempt in range(1 + int(task.get("maxRetryCount", 0))):
            self.attempts[job["name"]] = attempt + 1
            job["status"] = {"state": "RUNNING"}
            if self.attempt(job["uid"], task["runnables"], self.folder / job["uid"] / str(attempt)):
                job["status"] = {"state": "SUCCEEDED"}
                return
        job["status"] = {"state": "FAILED"}

    def attempt(self, uid: str, runnables: list[Object], workdir: Path) -> bool:
        """One machine: its runnables one after the other, until one fails."""
        workdir.mkdir(parents=True)
        if self.lost:
            self.lost -= 1
            return False
        for runnable in runnables:
            if "barrier" in runnable:
                continue
            if SCRIPT in runnable:
                command, environment = ["bash", "-c", runnable[SCRIPT]["text"]], dict(os.environ)
            else:
                container = runnable[CONTAINER]
                command = [container["entrypoint"], *container["commands"]]
                environment = {**self.environment, **runnable.get("environment", {}).get("variables", {})}
            done = subprocess.run(
                [part.replace(WORKDIR, str(workdir)) for part in command],
                cwd=workdir,
                env={name: value.replace(WORKDIR, str(workdir)) for name, value in environment.items()},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            self.logs[uid] = self.logs.get(uid, "") + done.stdout
            if done.returncode:
                return False
        return True


def _handler(service: GoogleBatch) -> type[BaseHTTPRequestHandler]:
    class Requests(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else {}
            parts = urlsplit(self.path)
            query = {key: values[0] for key, values in parse_qs(parts.query).items()}
            try:
                status, answer = 200, service.answer(self.command, parts.path, query, body)
            except Refusal as refusal:
                status, answer = refusal.code, refusal.body
            payload = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(payload)))
            self.end_headers()
            self.wfile.write(payload)

        do_GET = do_POST = do_DELETE = _serve  # noqa: N815

        def log_message(self, format: str, *args: object) -> None:
            """Say nothing: the tests read `jobs`."""

    return Requests

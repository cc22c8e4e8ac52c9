"""What a Kubernetes API server checks of the objects that Snakemake's executor makes."""

import re
from dataclasses import dataclass, field
from typing import Any

Object = dict[str, Any]
NAME = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")
UNITS = {"m": 1e-3, "": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30}
OVERCOMMIT = ("cpu", "memory", "ephemeral-storage")  # resources whose limit may differ from the request


class Refusal(Exception):  # noqa: N818
    """An answer that is no 200, as the API's Status object."""

    def __init__(self, code: int, reason: str, message: str) -> None:
        super().__init__(message)
        self.code, self.reason, self.message = code, reason, message

    def status(self) -> Object:
        """The body of the answer."""
        return {
            "kind": "Status",
            "apiVersion": "v1",
            "status": "Failure",
            "reason": self.reason,
            "message": self.message,
            "code": self.code,
        }


@dataclass
class Node:
    """A machine of the cluster: labels, what can be asked of it, and taints (key=value) that a pod must tolerate."""

    name: str
    labels: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, float] = field(default_factory=dict)
    taints: dict[str, str] = field(default_factory=dict)

    def fits(self, pod: Object, used: dict[str, float]) -> bool:
        """Whether the scheduler would place a pod here beside what is `used`."""
        spec = pod["spec"]
        tolerated = {(entry.get("key"), entry.get("value")) for entry in spec.get("tolerations") or []}
        asked = requests(spec)
        return (
            all(self.labels.get(key) == value for key, value in (spec.get("nodeSelector") or {}).items())
            and all(taint in tolerated for taint in self.taints.items())
            and all(used.get(name, 0) + amount <= self.capacity.get(name, 0) for name, amount in asked.items())
        )


def quantity(text: str) -> float:
    """A resource quantity as a number."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(m|k|M|G|Ki|Mi|Gi)?", str(text))
    if match is None:
        raise Refusal(422, "Invalid", f"quantities must match the regular expression: {text!r}")
    return float(match[1]) * UNITS[match[2] or ""]


def requests(spec: Object) -> dict[str, float]:
    """What the containers of a pod ask for together."""
    found: dict[str, float] = {}
    for container in spec["containers"]:
        for name, amount in (container.get("resources", {}).get("requests") or {}).items():
            found[name] = found.get(name, 0) + quantity(amount)
    return found


def check_job(job: Object) -> None:
    """Raise Refusal as the real server does on a job that it would not take."""
    name = job.get("metadata", {}).get("name", "")
    if not NAME.fullmatch(name) or len(name) > 63:
        raise Refusal(422, "Invalid", f"metadata.name: Invalid value: {name!r}")
    spec = job.get("spec", {}).get("template", {}).get("spec", {})
    if not spec.get("containers"):
        raise Refusal(422, "Invalid", "spec.template.spec.containers: Required value")
    if spec.get("restartPolicy") not in ("Never", "OnFailure"):
        raise Refusal(422, "Invalid", "spec.template.spec.restartPolicy: Required value")
    for key, value in (spec.get("nodeSelector") or {}).items():
        if not isinstance(value, str):
            raise Refusal(400, "BadRequest", f"nodeSelector.{key}: cannot unmarshal into a string")
    for container in spec["containers"]:
        _check_container(container)


def _check_container(container: Object) -> None:
    resources = container.get("resources", {})
    asked, limits = resources.get("requests") or {}, resources.get("limits") or {}
    for name, amount in {**limits, **asked}.items():
        quantity(amount)
        extended = name not in OVERCOMMIT
        if extended and name in asked and name not in limits:
            raise Refusal(
                422,
                "Invalid",
                f"resources.limits: Required value: Limit must be set for non overcommitable resources ({name})",
            )
        if extended and name in asked and quantity(asked[name]) != quantity(limits[name]):
            raise Refusal(422, "Invalid", f"resources.requests: must be equal to {name} limit")
        if not extended and name in asked and name in limits and quantity(asked[name]) > quantity(limits[name]):
            raise Refusal(422, "Invalid", f"resources.requests: must be less than or equal to {name} limit")
    if not container.get("image"):
        raise Refusal(422, "Invalid", "spec.template.spec.containers[0].image: Required value")

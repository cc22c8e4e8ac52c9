"""What is to be made: a machine's name, labels and properties, as the API is asked for them."""

import re
import secrets
from dataclasses import dataclass
from typing import Any

from whichdevice.cloud.accelerators import Accelerator, accelerator
from whichdevice.cloud.lifetime import startup_script
from whichdevice.cloud.tpu_api import Place
from whichdevice.config.model import TpuVm

LABEL = ("made-by", "whichdevice")
PREFIX = "whichdevice-"
CLOUD_PLATFORM = "https://www.googleapis.com/auth/cloud-platform"  # the account's roles limit it further


def new_name(study: str) -> str:
    """A name for a machine that nobody else has: whichdevice-<study>-<random>."""
    plain = re.sub(r"[^a-z0-9]+", "-", study.lower()).strip("-")[:30].strip("-")
    return f"{PREFIX}{plain}-{secrets.token_hex(4)}"


def labels_of(vm: TpuVm) -> dict[str, str]:
    """Labels of everything made under this config, by which `tpu down` finds it."""
    return {**vm.labels, LABEL[0]: LABEL[1]}


@dataclass
class Order:
    """What is to be made; nothing of it is there yet."""

    vm: TpuVm
    project: str
    name: str
    kind: Accelerator
    labels: dict[str, str]

    @classmethod
    def of(cls, vm: TpuVm, project: str, study: str) -> "Order":
        """The order that a config asks for; raises StudyError on a type that is unknown."""
        return cls(vm, project, new_name(study), accelerator(vm.accelerator_type), labels_of(vm))

    def places(self) -> list[Place]:
        """Where to try, in this order."""
        return [Place(self.project, zone) for zone in self.vm.zone]

    def resource(self, place: Place) -> str:
        """The API's name of what is to be deleted: the queued request, with its machine, or the machine."""
        return f"{place.parent}/{'queuedResources' if self.vm.queued else 'nodes'}/{self.name}"

    def node(self, place: Place, public_key: str) -> Any:
        """The machine as the API is asked for it."""
        from google.cloud.tpu_v2 import Node

        vm = self.vm
        metadata = {
            "ssh-keys": f"{vm.ssh_user}:{public_key}",
            "enable-oslogin": "FALSE",
            "enable-guest-attributes": "TRUE",
            "startup-script": startup_script(self.project, self.resource(place), vm.max_hours),
        }
        node: dict[str, Any] = {
            "accelerator_type": self.kind.name,
            "runtime_version": vm.runtime_version or self.kind.runtime,
            "labels": self.labels,
            "metadata": metadata,
            "network_config": {"enable_external_ips": vm.external_ip},
            "service_account": {"email": vm.service_account or "", "scope": [CLOUD_PLATFORM]},
        }
        if vm.network:
            node["network_config"]["network"] = vm.network
        if vm.subnetwork:
            node["network_config"]["subnetwork"] = vm.subnetwork
        if vm.spot and not vm.queued:  # a queued request says it itself
            node["scheduling_config"] = {"spot": True}
        return Node(node)

    def queued_resource(self, place: Place, public_key: str) -> Any:
        """The queued request; past its time it makes nothing, though nobody may be left to wait for it."""
        from google.cloud.tpu_v2 import QueuedResource

        spec = {"parent": place.parent, "node_id": self.name, "node": self.node(place, public_key)}
        request: dict[str, Any] = {
            "tpu": {"node_spec": [spec]},
            "queueing_policy": {"valid_until_duration": {"seconds": round(self.vm.queue_minutes * 60)}},
        }
        request["spot" if self.vm.spot else "guaranteed"] = {}
        return QueuedResource(request)

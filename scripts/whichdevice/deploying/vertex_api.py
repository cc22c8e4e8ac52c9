"""Google's Vertex AI: the few calls that a deployment needs, through Google's own client library, over REST."""

import os
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from whichdevice.deploying.api_errors import one_line, refusal
from whichdevice.errors import StudyError

EMULATOR = "VERTEX_EMULATOR_HOST"  # host:port of a stand-in for the API, which gets no credentials
MISSING = "the Vertex AI client library is not installed: sh envs/extra.sh cloud"
PATIENCE = 60.0  # seconds that one request may take
LABEL = "whichdevice"  # on everything that is made; its value is one deployment's


@dataclass(frozen=True)
class Found:
    """A model or an endpoint that is there; `deployed` are the models that an endpoint pays for."""

    path: str
    display_name: str
    deployment: str
    deployed: tuple[str, ...] = ()

    @property
    def is_endpoint(self) -> bool:
        """Endpoints answer; models are only kept."""
        return "/endpoints/" in self.path


@dataclass(frozen=True)
class VertexApi:
    """Calls to the API in one project and region; each raises a StudyError with one line."""

    project: str
    region: str

    @property
    def parent(self) -> str:
        """The API's name of the place."""
        return f"projects/{self.project}/locations/{self.region}"

    @cached_property
    def _models(self) -> Any:
        return self._client("ModelServiceClient", "model_service", "ModelServiceRestTransport")

    @cached_property
    def _endpoints(self) -> Any:
        return self._client("EndpointServiceClient", "endpoint_service", "EndpointServiceRestTransport")

    def _client(self, name: str, service: str, transport: str) -> Any:
        try:
            from importlib import import_module

            from google.cloud import aiplatform_v1
        except ImportError:
            raise StudyError(MISSING) from None
        if host := os.environ.get(EMULATOR):
            from google.auth.credentials import AnonymousCredentials

            module = import_module(f"google.cloud.aiplatform_v1.services.{service}.transports.rest")
            made = getattr(module, transport)(host=host, url_scheme="http", credentials=AnonymousCredentials())
            return getattr(aiplatform_v1, name)(transport=made)
        with one_line("Vertex AI"):
            options = {"api_endpoint": f"{self.region}-aiplatform.googleapis.com"}
            return getattr(aiplatform_v1, name)(transport="rest", client_options=options)

    def check(self) -> None:
        """Raise StudyError where library, credentials, project or permission are missing; makes nothing."""
        self.endpoints()

    def upload_model(self, name: str, deployment: str, artefact: str, image: str) -> Any:
        """Register the SavedModel at `artefact` with the container that serves it; the operation."""
        model = {
            "display_name": name,
            "artifact_uri": artefact,
            "container_spec": {"image_uri": image},
            "labels": {LABEL: deployment},
        }
        with one_line(f"registering {name}"):
            request = {"parent": self.parent, "model": model}
            return self._models.upload_model(request=request, timeout=PATIENCE, retry=None)

    def create_endpoint(self, name: str, deployment: str) -> Any:
        """Make an endpoint without a model; the operation."""
        with one_line(f"making endpoint {name}"):
            return self._endpoints.create_endpoint(
                parent=self.parent,
                endpoint={"display_name": name, "labels": {LABEL: deployment}},
                timeout=PATIENCE,
                retry=None,
            )

    def deploy_model(self, endpoint: str, model: str, name: str, machine_type: str, replicas: int) -> Any:
        """Start machines that serve the model: from here on it costs money; the operation."""
        deployed = {
            "model": model,
            "display_name": name,
            "dedicated_resources": {
                "machine_spec": {"machine_type": machine_type},
                "min_replica_count": replicas,
                "max_replica_count": replicas,
            },
        }
        with one_line(f"deploying {name}"):
            return self._endpoints.deploy_model(
                endpoint=endpoint,
                deployed_model=deployed,
                traffic_split={"0": 100},
                timeout=PATIENCE,
                retry=None,
            )

    def result(self, operation: Any, what: str) -> Any:
        """What an operation brought, None while it goes on; raises StudyError where it failed, UnreachableError where
        it cannot be asked."""
        with one_line(what):
            if not operation.done():
                return None
            error = operation.exception(timeout=PATIENCE)
        if error is not None:
            raise StudyError(str(refusal(what, error)))  # an answer, however bad: not one to wait on
        return operation.result(timeout=PATIENCE)

    def endpoints(self, deployment: str | None = None) -> list[Found]:
        """Endpoints made here, of one deployment or of all."""
        with one_line(f"listing the endpoints in {self.region}"):
            request = {"parent": self.parent, "filter": _labelled(deployment)}
            listed = list(self._endpoints.list_endpoints(request=request, timeout=PATIENCE))
        return [_found(one, tuple(model.id for model in one.deployed_models)) for one in listed]

    def models(self, deployment: str | None = None) -> list[Found]:
        """Models registered here, of one deployment or of all."""
        with one_line(f"listing the models in {self.region}"):
            request = {"parent": self.parent, "filter": _labelled(deployment)}
            listed = list(self._models.list_models(request=request, timeout=PATIENCE))
        return [_found(one) for one in listed]

    def undeploy_model(self, endpoint: str, deployed: str) -> None:
        """Ask for the machines' end."""
        with one_line(f"undeploying from {_name(endpoint)}"):
            self._endpoints.undeploy_model(
                endpoint=endpoint, deployed_model_id=deployed, traffic_split={}, timeout=PATIENCE, retry=None
            )

    def delete(self, found: Found) -> None:
        """Ask for the deletion of an endpoint without models, or of a model that none serves; gone already is fine."""
        from google.api_core.exceptions import NotFound

        with one_line(f"deleting {_name(found.path)}"):
            try:
                if found.is_endpoint:
                    self._endpoints.delete_endpoint(name=found.path, timeout=PATIENCE, retry=None)
                else:
                    self._models.delete_model(name=found.path, timeout=PATIENCE, retry=None)
            except NotFound:
                return


def _labelled(deployment: str | None) -> str:
    return f"labels.{LABEL}:*" if deployment is None else f"labels.{LABEL}={deployment}"


def _found(one: Any, deployed: tuple[str, ...] = ()) -> Found:
    return Found(one.name, one.display_name, dict(one.labels).get(LABEL, ""), deployed)


def _name(path: str) -> str:
    return "/".join(path.split("/")[-2:])


def project_of(named: str | None) -> str:
    """The project to bill: as named, GOOGLE_CLOUD_PROJECT, or the one that the credentials name."""
    if found := named or os.environ.get("GOOGLE_CLOUD_PROJECT"):
        return found
    if not os.environ.get(EMULATOR):
        try:
            import google.auth
        except ImportError:
            raise StudyError(MISSING) from None
        with one_line("Vertex AI"):
            _, found = google.auth.default()
        if found:
            return found
    raise StudyError("deploy: the login names no project; say which pays: --project")

"""A model on Vertex AI from SavedModel to endpoint, or nothing: what fails midway is taken down again.

Everything made carries one label whose value is this deployment's, so that what a lost answer made is found as well.
"""

import secrets
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from whichdevice.deploying.vertex_api import LABEL, Found, VertexApi
from whichdevice.errors import StudyError
from whichdevice.google_api_errors import UnreachableError

Say = Callable[[str], None]
POLL_SECONDS = 10.0
MADE_SECONDS = 3600.0  # within which every step must end
REMOVED_SECONDS = 3600.0
QUIET_LOOKS = 6  # how often nothing must be found, as a request without an answer may still be carried out


@dataclass(frozen=True)
class Order:
    """What is to be deployed."""

    name: str
    artefact: str  # address of the folder with saved_model.pb
    image: str
    machine_type: str
    replicas: int
    deployment: str = field(default_factory=lambda: f"d{secrets.token_hex(6)}")


def deploy(api: VertexApi, order: Order, say: Say) -> str:
    """The endpoint's name, once it answers. On any failure and on Ctrl-C all that was made is removed first."""
    try:
        return _made(api, order, say)
    except BaseException as error:
        say(f"{'Stopped' if isinstance(error, KeyboardInterrupt) else error}: removing what was made.")
        remove(api, say, order.deployment)
        raise


def _made(api: VertexApi, order: Order, say: Say) -> str:
    say(f"Registering {order.name} from {order.artefact} ...")
    upload = api.upload_model(order.name, order.deployment, order.artefact, order.image)
    model = _waited(api, upload, f"registering {order.name}").model
    say("Making an endpoint ...")
    endpoint = _waited(api, api.create_endpoint(order.name, order.deployment), "making an endpoint").name
    say(f"Starting {order.replicas} × {order.machine_type}; this takes some ten minutes ...")
    started = api.deploy_model(endpoint, model, order.name, order.machine_type, order.replicas)
    _waited(api, started, f"deploying {order.name}")
    return endpoint


def _waited(api: VertexApi, operation: Any, what: str) -> Any:
    """The operation's result; a question that gets no answer is asked again."""
    end = time.monotonic() + MADE_SECONDS
    while time.monotonic() < end:
        with suppress(UnreachableError):
            if (result := api.result(operation, what)) is not None:
                return result
        time.sleep(POLL_SECONDS)
    raise StudyError(f"{what}: not done after {MADE_SECONDS / 60:.0f} minutes")


def made(api: VertexApi, deployment: str | None = None) -> list[Found]:
    """Endpoints and models that are there, of one deployment or of all made here; endpoints first."""
    return [*api.endpoints(deployment), *api.models(deployment)]


def remove(api: VertexApi, say: Say, deployment: str | None = None) -> None:
    """Undeploy and delete until nothing is left; goes on through errors and Ctrl-C. Raises StudyError on leftovers."""
    end, quiet, told = time.monotonic() + REMOVED_SECONDS, 0, set[str]()
    seen: dict[str, Found] = {}
    while quiet < QUIET_LOOKS:
        try:
            quiet = quiet + 1 if _nothing_there(api, say, deployment, seen, told) else 0
            if quiet < QUIET_LOOKS:
                time.sleep(POLL_SECONDS)
        except KeyboardInterrupt:
            say("Not before everything is removed, for it would go on costing money.")
        if time.monotonic() > end:
            raise StudyError(
                f"NOT EVERYTHING COULD BE REMOVED and may cost money: {', '.join(seen) or 'unknown'}; "
                f"python -m whichdevice undeploy --project {api.project} --region {api.region}, or by hand: "
                f"console.cloud.google.com/vertex-ai/endpoints, label {LABEL}"
            )


def _nothing_there(api: VertexApi, say: Say, deployment: str | None, seen: dict[str, Found], told: set[str]) -> bool:
    """Whether a look found nothing; one that failed did not."""
    try:
        return not _round(api, say, deployment, seen, told)
    except StudyError as error:
        _once(f"{error} (trying again)", say, told)
        return False


def _round(api: VertexApi, say: Say, deployment: str | None, seen: dict[str, Found], told: set[str]) -> bool:
    """One look at what is there, with a request for the end of each; whether there was anything."""
    there = {found.path: found for found in made(api, deployment)}
    for path in list(seen):
        if path not in there:
            say(f"{'/'.join(path.split('/')[-2:])} is removed.")
            del seen[path]
    seen.update(there)
    for found in there.values():
        try:
            for deployed in found.deployed:
                api.undeploy_model(found.path, deployed)
            if not found.deployed:
                api.delete(found)
        except StudyError as error:
            _once(f"{error} (trying again)", say, told)
    return bool(there)


def _once(line: str, say: Say, told: set[str]) -> None:
    if line not in told:
        told.add(line)
        say(line)

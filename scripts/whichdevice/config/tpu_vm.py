"""The TPU VM that `python -m whichdevice tpu` rents; no result names it."""

import re
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from whichdevice.config.lenient import text
from whichdevice.config.section import Bool, PositiveFloat, PositiveInt, Section, Values

PROJECT = re.compile(r"([a-z0-9.-]+:)?[a-z][a-z0-9-]{4,28}[a-z0-9]")
ZONE = re.compile(r"[a-z]+-[a-z]+\d+-[a-z]")
LABEL_KEY = re.compile(r"[a-z][a-z0-9_-]{0,62}")
LABEL_VALUE = re.compile(r"[a-z0-9_-]{0,63}")
LOGIN = re.compile(r"[a-z_][a-z0-9_-]{0,30}")
RESOURCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9@._/:-]*")  # names of networks, runtimes, types, accounts
LONGEST_HOURS = 24 * 14


def _project(value: str) -> str:
    if not PROJECT.fullmatch(value):
        raise ValueError(f"is {value!r}; it needs the project's ID, such as my-project-123456, not its name or number")
    return value


def _zone(value: str) -> str:
    if not ZONE.fullmatch(value):
        raise ValueError(f"is {value!r}; it needs a zone, such as us-central1-b")
    return value


def _login(value: str) -> str:
    if not LOGIN.fullmatch(value) or value == "root":
        raise ValueError(f"is {value!r}; it needs a login name: lower-case letters, digits, _ and -, and not root")
    return value


def _resource(value: str) -> str:
    if not RESOURCE.fullmatch(value):
        raise ValueError(f"is {value!r}; letters, digits and . _ - / : @ only")
    return value


def _labels(value: dict[str, str]) -> dict[str, str]:
    for key, content in value.items():
        if not LABEL_KEY.fullmatch(key) or not LABEL_VALUE.fullmatch(content):
            raise ValueError(f"has {key}: {content}; labels have lower-case letters, digits, _ and - only")
    return value


Text = Annotated[str, BeforeValidator(text)]
Resource = Annotated[Text, AfterValidator(_resource)]
Labels = Annotated[dict[str, Text], AfterValidator(_labels)]


class TpuVm(Section):
    """One machine with a TPU: what it is, where, for how long at most, and how it is reached."""

    project: Annotated[Text, AfterValidator(_project)] | None = Field(
        None, description="ID of the Google Cloud project that pays; empty takes the login's"
    )
    zone: Values[Annotated[Text, AfterValidator(_zone)]] = Field(
        ["us-central1-b"], description="tried in this order; the next where one has no capacity or quota"
    )
    accelerator_type: Resource = Field(
        "v2-8", description="v2-8, v3-8, v4-8, v5litepod-1, -4 or -8, v5p-8, v6e-1, -4 or -8: one machine each"
    )
    runtime_version: Resource | None = Field(None, description="its image; empty takes the type's")
    environment: Literal["tpu", "cpu"] = Field(
        "tpu", description="software stack there: tpu (TensorFlow) or cpu (JAX, which brings its own TPU library)"
    )
    spot: Bool = Field(False, description="cheaper, and taken away at any moment")
    queued: Bool = Field(False, description="wait in Google's queue instead of being refused at once")
    queue_minutes: PositiveFloat = Field(120, description="for so long; then the request is void")
    ready_minutes: PositiveFloat = Field(15, description="until the machine is made, and again until it answers")
    max_hours: Annotated[PositiveFloat, Field(le=LONGEST_HOURS)] = Field(
        4, description="after which the machine deletes itself, whatever became of this program"
    )
    labels: Labels = Field(
        default_factory=dict, description="further labels, e.g. {owner: me}; `tpu down` takes what has all of them"
    )
    service_account: Resource | None = Field(
        None, description="whose rights the machine has; empty takes the project's default one"
    )
    network: Resource | None = Field(None, description="empty takes the network `default`")
    subnetwork: Resource | None = Field(None, description="of that network")
    external_ip: Bool = Field(True, description="false where this machine reaches the network from inside")
    ssh_user: Annotated[Text, AfterValidator(_login)] = Field("whichdevice", description="login made on the machine")
    ssh_key: str | None = Field(None, description="private key file; empty makes a key for each machine alone")
    ssh_port: PositiveInt = Field(22, description="of the machine's ssh server")

"""Put a study's exported model from the bucket on Vertex AI, or take it down again: `deploy mnist_cnn [--remove]`."""

import argparse
import re
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

from whichdevice.apps.commands.plan import add_arguments as add_config
from whichdevice.apps.commands.plan import read_config
from whichdevice.base.errors import StudyError
from whichdevice.base.files import CONFIG, csv_rows
from whichdevice.base.terminal import agree
from whichdevice.study.exporting.export import export_path
from whichdevice.study.exporting.record import EXPORT_RECORD, SAVED_MODEL, ExportRecord
from whichdevice.study.planning.study_plan import plan_study
from whichdevice.study.remote.transfer import open_place

IMAGE = "us-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"  # Google's newest with TensorFlow Serving
LABEL = "whichdevice"  # on everything that is made; its value is the model
TRIES, LOOKS, PAUSE = 180, 3, 10.0  # to remove; that must find nothing, as an answer may be lost; seconds between two


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("model", help="name of the exported model, as in results/<study>/models")
    add("--remove", action="store_true", help="undeploy and delete all that was made for this model")
    add_config(parser)
    add("--project", help="Google Cloud project that pays (default: the login's project)")
    add("--region", default="us-central1", help="(default: us-central1)")
    add("--machine-type", default="e2-standard-2", help="(default: e2-standard-2)")
    add("--dry-run", action="store_true", help="print what would be made and its price")
    add("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Print the price, ask, deploy; or list what was made, ask, remove."""
    if not re.fullmatch(r"[A-Za-z0-9]\w{0,62}", args.model, re.ASCII):
        raise StudyError(f"deploy: {args.model} is no name of a model")
    if args.remove:
        with _vertex(args) as api:
            names = [one.resource_name for one in _made(api, args.model)]
            print("\n".join(names) or f"Nothing of {args.model} is in {args.region}.", flush=True)
            if names:
                agree("Remove it?", args.yes)
                _remove(api, args)
        return 0
    artefact = _artefact(args)
    print(f"{args.model} from {artefact}, served by {IMAGE} in {args.region}.")
    print(price_line(args.machine_type, args.region), flush=True)
    if not args.dry_run:
        with _vertex(args) as api:
            if _made(api, args.model):
                raise StudyError(f"deploy: {args.model} is deployed already; first: deploy {args.model} --remove")
            agree("Deploy it?", args.yes)
            endpoint = _deploy(api, args, artefact)
        print(f"It answers: POST https://{args.region}-aiplatform.googleapis.com/v1/{endpoint}:predict")
        print(f"It costs money until: python -m whichdevice deploy {args.model} --remove --region {args.region}")
    return 0


def price_line(machine_type: str, region: str) -> str:
    """The price of an hour and a month by config/vertex_prices.csv, an estimate, in words."""
    rows = [row for row in csv_rows(CONFIG / "vertex_prices.csv") if row["machine_type"] == machine_type]
    if not rows:
        return f"Price: unknown for {machine_type}, see cloud.google.com/vertex-ai/pricing."
    row = next((row for row in rows if row["region"] == region), rows[0])
    usd = float(row["usd_per_hour"])
    cost = f"about {usd:.3f} USD an hour, {usd * 730:.0f} USD a month, used or not, until it is removed"
    return f"Price: {cost} (an estimate for {row['region']}: {row['source']})."


def _artefact(args: argparse.Namespace) -> str:
    """Address of the SavedModel; raises StudyError unless it is there and its export was found to be right."""
    plan = plan_study(read_config(args))
    bucket, study = plan.call.storage.bucket, plan.study
    if bucket is None:
        raise StudyError("deploy: storage.bucket is empty; set it, then whichdevice study publish")
    if not bucket.startswith("gs://"):
        raise StudyError(f"deploy: Vertex AI reads gs:// alone, not {bucket}")
    if args.model not in study.workloads:
        raise StudyError(f"deploy: the study has no workload {args.model}")
    below = export_path(study, args.model).parent.relative_to(study.root).as_posix()
    folder = f"{bucket.rstrip('/')}/{study.study}/{below}"
    place = open_place(folder)
    if f"{SAVED_MODEL}/saved_model.pb" not in place.listing():
        raise StudyError(f"deploy: no SavedModel at {folder}; export and publish it: whichdevice study publish")
    record = ExportRecord.model_validate_json(place.read(EXPORT_RECORD))
    if record.status != "ok":
        raise StudyError(f"deploy: the export of {record.workload} is {record.status}: {record.reason}")
    return f"{folder}/{SAVED_MODEL}"


@contextmanager
def _vertex(args: argparse.Namespace) -> Iterator[Any]:
    """Google's client, set to project and region; what it raises becomes one line."""
    try:
        from google.api_core.exceptions import GoogleAPICallError
        from google.auth.exceptions import GoogleAuthError
        from google.cloud import aiplatform
    except ImportError:
        raise StudyError("deploy: Google's client is not installed: sh envs/extra.sh cloud") from None
    try:
        aiplatform.init(project=args.project, location=args.region)
        yield aiplatform
    except (GoogleAPICallError, GoogleAuthError, RuntimeError) as error:
        raise StudyError(f"deploy: Vertex AI: {error}; signed in? gcloud auth application-default login") from error


def _made(api: Any, model: str) -> list[Any]:
    """Endpoints, then models, that carry this model's label."""
    return [one for kind in (api.Endpoint, api.Model) for one in kind.list(filter=f"labels.{LABEL}={model.lower()}")]


def _deploy(api: Any, args: argparse.Namespace, artefact: str) -> str:
    """The endpoint's resource name, once it answers; whatever fails midway, all that was made is removed."""
    common: dict[str, Any] = {"display_name": args.model, "labels": {LABEL: args.model.lower()}}
    machines = {"machine_type": args.machine_type, "min_replica_count": 1, "max_replica_count": 1}
    _signals(_interrupt)
    try:
        model = api.Model.upload(artifact_uri=artefact, serving_container_image_uri=IMAGE, **common)
        endpoint = api.Endpoint.create(**common)
        model.deploy(endpoint=endpoint, traffic_percentage=100, **machines)
    except BaseException:
        with suppress(OSError):  # the terminal may be gone
            print("Removing what was made.", flush=True)
        _remove(api, args)
        raise
    return str(endpoint.resource_name)


def _signals(handler: Any) -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def _interrupt(number: int, frame: Any) -> None:
    _signals(signal.SIG_IGN)  # a second one does not stop the removal
    raise KeyboardInterrupt


def _remove(api: Any, args: argparse.Namespace) -> None:
    """Undeploy and delete until several looks find nothing; raises StudyError where something stays."""
    _signals(signal.SIG_IGN)
    quiet, wrong = 0, ""
    for _ in range(TRIES):
        try:
            resources = _made(api, args.model)
            quiet = 0 if resources else quiet + 1
            for one in resources:
                one.delete(force=True) if isinstance(one, api.Endpoint) else one.delete()
        except Exception as error:  # such as a deployment that is going on; tried again
            quiet, wrong = 0, " ".join(str(error).split())
        if quiet == LOOKS:
            return print("Everything is removed.", flush=True)
        time.sleep(PAUSE)
    again = f"whichdevice deploy {args.model} --remove --region {args.region}"
    raise StudyError(f"deploy: NOT EVERYTHING COULD BE REMOVED, it costs money ({wrong}); run: python -m {again}")

"""Put a study's exported model from the bucket on Vertex AI: `deploy mnist_cnn`; it costs money until `undeploy`."""

import argparse
import re
from pathlib import Path

from whichdevice.errors import StudyError

IMAGE = "{continent}-docker.pkg.dev/vertex-ai/prediction/tf2-cpu.2-15:latest"  # Google's newest with TensorFlow Serving
CONTINENTS = {"europe": "europe", "asia": "asia", "australia": "asia"}  # all others: us
REGION = re.compile(r"^[a-z]+-[a-z]+\d+$")
NAME = re.compile(r"^[A-Za-z0-9][A-Za-z0-9_.]*$")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", help="name of the exported model, as in results/<study>/models")
    parser.add_argument("--configfile", type=Path, default=Path("config/config.yaml"), help="names study and bucket")
    parser.add_argument("--config", nargs="*", default=[], metavar="KEY=VALUE", help="as for Snakemake")
    parser.add_argument("--artefact", metavar="GS_ADDRESS", help="SavedModel elsewhere than storage.bucket has it")
    add_place(parser)
    parser.add_argument("--machine-type", default="e2-standard-2", help="of each replica (default: e2-standard-2)")
    parser.add_argument("--replicas", type=int, choices=range(1, 11), default=1, metavar="1-10")
    parser.add_argument("--image", help="serving container (default: Google's prebuilt TensorFlow 2.15, CPU)")
    parser.add_argument("--usd-per-hour", type=float, help="price of one machine, where none is known here")
    parser.add_argument("--dry-run", action="store_true", help="print what would be made and its price")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def add_place(parser: argparse.ArgumentParser) -> None:
    """Options that `undeploy` has as well."""
    parser.add_argument("--project", help="Google Cloud project that pays (default: the login's)")
    parser.add_argument("--region", type=_region, default="us-central1", help="(default: us-central1)")


def _region(text: str) -> str:
    if not REGION.match(text):
        raise argparse.ArgumentTypeError(f"{text} is no region; e.g. europe-west4")
    return text


def run(args: argparse.Namespace) -> int:
    """Say the price, ask, deploy."""
    from whichdevice.cloud.consent import agree
    from whichdevice.deploying.deployment import Order, deploy
    from whichdevice.deploying.prices import price_lines
    from whichdevice.deploying.vertex_api import VertexApi, project_of

    if not NAME.match(args.model):
        raise StudyError(f"deploy: {args.model} is no name of a model")
    artefact = args.artefact or _artefact(args)
    if not artefact.startswith("gs://"):
        raise StudyError(f"deploy: Vertex AI reads gs:// alone, not {artefact}")
    continent = CONTINENTS.get(args.region.partition("-")[0], "us")
    image = args.image or IMAGE.format(continent=continent)
    order = Order(args.model, artefact.rstrip("/"), image, args.machine_type, args.replicas)
    api = VertexApi(project_of(args.project), args.region)
    print(f"{order.name} from {order.artefact}, served by {order.image} in {api.region}, project {api.project}.")
    for line in price_lines(args.machine_type, args.replicas, args.region, args.usd_per_hour):
        print(line, flush=True)
    _check_artefact(order.artefact)
    if args.artefact is None:
        _check_export(order.artefact)
    api.check()
    if args.dry_run:
        return 0
    agree("Deploy it?", args.yes)
    endpoint = deploy(api, order, lambda line: print(line, flush=True))
    host = f"https://{api.region}-aiplatform.googleapis.com/v1"
    print(f'It answers: POST {host}/{endpoint}:predict {{"instances": [...]}}')
    print(f"It costs money until: python -m whichdevice undeploy --project {api.project} --region {api.region}")
    return 0


def _artefact(args: argparse.Namespace) -> str:
    """Where `publish` put the SavedModel."""
    from whichdevice.commands.plan import merged
    from whichdevice.config.load import load_study
    from whichdevice.config.yaml_file import check_yaml
    from whichdevice.records.exported import SAVED_MODEL

    call = load_study(merged(check_yaml(args.configfile), args.config), str(args.configfile))
    if call.storage.bucket is None:
        raise StudyError(
            "deploy: storage.bucket is empty; set it, then snakemake --cores 1 publish; or name an --artefact"
        )
    return f"{call.storage.bucket.rstrip('/')}/{call.study}/models/{args.model}/{SAVED_MODEL}"


def _check_artefact(artefact: str) -> None:
    """Raise StudyError where there is no SavedModel."""
    from whichdevice.remote.place import open_place

    if "saved_model.pb" not in open_place(artefact).listing():
        raise StudyError(f"deploy: no SavedModel at {artefact}; export and publish it: snakemake --cores 1 publish")


def _check_export(artefact: str) -> None:
    """Raise StudyError unless the export that `publish` put there was found to predict what its run predicted."""
    from whichdevice.records.exported import RECORD, SAVED_MODEL, ExportRecord
    from whichdevice.remote.place import explained, open_place

    folder = artefact.removesuffix(f"/{SAVED_MODEL}")
    place = open_place(folder)
    try:
        with explained(folder):
            record = ExportRecord.model_validate_json(place.fs.cat_file(place.path(RECORD)))
    except (FileNotFoundError, ValueError) as error:
        raise StudyError(f"deploy: cannot read {folder}/{RECORD}: {error}; publish the model again") from error
    if record.status != "ok":
        raise StudyError(f"deploy: the export of {record.workload} is {record.status}: {record.reason}")

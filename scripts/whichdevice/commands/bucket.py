"""Make, list, copy from, empty or remove the bucket that datasets and results go to: `bucket list gs://name`."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.config.storage import Storage
from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.storage.place import Place

DEFAULT = Path("config/config.yaml")
UPLOADED = Path("results/datasets/uploaded")  # marks of the rule upload_dataset
ACTIONS = {
    "make": "make the bucket: storage class, location, uniform access, closed to the public",
    "list": "files and bytes by folder",
    "copy": "copy everything below the address to --to, checked; files that are there already stay as they are",
    "empty": "delete everything below the address",
    "remove": "delete the bucket and everything in it",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("action", choices=ACTIONS, help="; ".join(f"{name}: {text}" for name, text in ACTIONS.items()))
    parser.add_argument(
        "address", nargs="?", help="gs://name/prefix or a folder; default: storage.bucket of the config"
    )
    parser.add_argument("--to", type=Path, default=Path("results"), help="copy: to this folder")
    parser.add_argument("--location", help="make: US, EU, us-central1 ...; default: storage.location")
    parser.add_argument(
        "--storage-class", help="make: STANDARD, NEARLINE, COLDLINE, ARCHIVE; default: storage.storage_class"
    )
    parser.add_argument("--project", help="make: Google Cloud project; default: storage.project, else the login's")
    parser.add_argument("--unfinished", action="store_true", help="empty: only what cut uploads left behind")
    parser.add_argument("--yes", action="store_true", help="empty, remove: do not ask")
    parser.add_argument("--configfile", type=Path, default=DEFAULT, help="config with storage:")


def run(args: argparse.Namespace) -> int:
    """Do it, and say what was done."""
    from whichdevice.storage.place import open_place

    storage = _storage(args)
    address = args.address or storage.bucket
    if not address:
        raise StudyError("bucket: which one? name it, e.g. gs://name, or set storage.bucket in the config")
    place = open_place(address)
    actions = {"make": _make, "list": _list, "copy": _copy, "empty": _empty, "remove": _remove}
    actions[args.action](place, storage, args)
    return 0


def _storage(args: argparse.Namespace) -> Storage:
    from whichdevice.config.load import load_study
    from whichdevice.config.yaml_file import check_yaml

    needed = args.address is None or args.action == "make"
    values = check_yaml(args.configfile) if needed and (args.configfile != DEFAULT or DEFAULT.is_file()) else {}
    given = values.get("storage") or {}
    if not isinstance(given, dict):
        raise StudyError(f"{args.configfile}: storage: holds {given}; it needs keys, e.g. {{bucket: gs://name/prefix}}")
    named = {"location": args.location, "storage_class": args.storage_class, "project": args.project}
    told = {key: value for key, value in named.items() if value is not None}
    return load_study({"storage": {**given, **told}}, "bucket").storage


def _make(place: "Place", storage: Storage, args: argparse.Namespace) -> None:
    from whichdevice.storage.administration import described, make_bucket
    from whichdevice.storage.place import GOOGLE
    from whichdevice.storage.region import region_warning

    made = make_bucket(place, storage)
    facts = described(place) if place.protocol in GOOGLE else None
    about = f": {facts['storageClass']}, {facts['location']}" if facts else ""
    print(f"{place.address} {'made' if made else 'was there already'}{about}")
    if warning := region_warning(place):
        print(warning, file=sys.stderr)


def _list(place: "Place", storage: Storage, args: argparse.Namespace) -> None:
    from whichdevice.storage.administration import sizes
    from whichdevice.storage.upload import UNFINISHED

    found = sizes(place)
    for name, (files, nbytes) in sorted(found.items()):
        print(f"{files:8} files {nbytes / 1e6:12.1f} MB  {name}")
    print(f"{place.address}: {sum(files for files, _ in found.values())} files, {_megabytes(found):.1f} MB")
    if UNFINISHED in found:
        print(
            f"{UNFINISHED}: of uploads that were cut; the next upload goes on with them, or: bucket empty --unfinished"
        )


def _copy(place: "Place", storage: Storage, args: argparse.Namespace) -> None:
    from whichdevice.storage.download import differing, download
    from whichdevice.storage.place import safe_name
    from whichdevice.storage.upload import UNFINISHED

    listing = {name: facts for name, facts in place.listing().items() if UNFINISHED not in name.split("/")}
    if odd := [name for name in listing if not safe_name(name)]:
        raise StudyError(f"{place.address}: {odd[0]!r} is no name for a file below {args.to}; nothing was copied")
    if not listing:
        raise StudyError(f"{place.address}: nothing there to copy")
    files = {name: args.to / name for name in listing}
    present = {name: path for name, path in files.items() if path.exists()}
    kept = differing(place, present, listing)
    new = download(place, {name: path for name, path in files.items() if name not in present}, listing)
    print(f"{new} files copied to {args.to}, {len(present) - len(kept)} were there already")
    if kept:
        told = f"{len(kept)} files in {args.to} differ from those in {place.address} and were kept"
        print(f"{told}, e.g. {files[kept[0]]}; to get both: another --to")


def _empty(place: "Place", storage: Storage, args: argparse.Namespace) -> None:
    from whichdevice.storage.administration import empty, sizes
    from whichdevice.storage.dataset_copy import forget_uploads
    from whichdevice.storage.upload import UNFINISHED

    found = sizes(place)
    chosen = {name: size for name, size in found.items() if not args.unfinished or name == UNFINISHED}
    what = (
        f"delete {sum(files for files, _ in chosen.values())} files, {_megabytes(chosen):.1f} MB, below {place.address}"
    )
    _confirm(what, place.address, args.yes)
    count = empty(place, args.unfinished)
    if not args.unfinished:
        forget_uploads(UPLOADED)
    print(f"{count} files deleted below {place.address}")


def _remove(place: "Place", storage: Storage, args: argparse.Namespace) -> None:
    from whichdevice.storage.administration import remove_bucket, sizes, whole
    from whichdevice.storage.dataset_copy import forget_uploads

    bucket = whole(place)
    found = sizes(bucket)
    what = f"delete {bucket.address} and the {sum(files for files, _ in found.values())} files in it"
    _confirm(what, bucket.address, args.yes)
    remove_bucket(place)
    forget_uploads(UPLOADED)
    print(f"{bucket.address} removed")


def _confirm(what: str, name: str, yes: bool) -> None:
    """Go on only where the person types the name, or said --yes before."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise StudyError(f"bucket: would {what}; to do it without being asked: --yes")
    if input(f"About to {what}. There is no way back. Type {name} to go on: ").strip() != name:
        raise StudyError("bucket: nothing was deleted")


def _megabytes(found: dict[str, tuple[int, int]]) -> float:
    return sum(nbytes for _, nbytes in found.values()) / 1e6

"""Bring records of another machine into a study: `merge gs://name/prefix/<study> --rename gpu=a100`."""

import argparse
import re
from pathlib import Path

from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import check_yaml, default_config, load_study
from whichdevice.study.config.model import LONGEST_NAME, NAME


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("source", nargs="?", help="results/<study> of another machine: a folder, its .zip or address")
    parser.add_argument(
        "--rename", action="append", default=[], metavar="THERE=HERE", help="a device's name there and here: cpu=laptop"
    )
    parser.add_argument("--study", help="into results/STUDY, with the config there; default: the study of --configfile")
    parser.add_argument("--configfile", type=Path, default=default_config(), help="config of the study that they go to")
    parser.add_argument("--list", action="store_true", help="print what is merged")
    parser.add_argument("--drop", metavar="ID", help="delete the records of a merged source")


def run(args: argparse.Namespace) -> int:
    """Merge, list or drop; print what was done."""
    from whichdevice.study.records.store import merged_sources
    from whichdevice.study.remote.merge import drop, merge_folder

    if sum(map(bool, (args.source, args.list, args.drop))) != 1:
        raise StudyError("merge: name a source, or --list, or --drop ID")
    path = Path("results") / args.study / "config.yaml" if args.study else args.configfile
    study = load_study(check_yaml(path), str(path))
    root = Path(study.root)
    if args.drop:
        drop(root, args.drop)
        print(f"dropped {args.drop}")
    elif args.list:
        for folder, source in merged_sources(root).items():
            names = ", ".join(
                f"{name} ({device.name} there, {' and '.join(device.models) or device.kind})"
                for name, device in source.devices.items()
            )
            print(f"{folder.name}: {len(source.records)} records of {names}")
    else:
        for line in merge_folder(root, args.source, renames(args.rename), study):
            print(line)
    return 0


def renames(pairs: list[str]) -> dict[str, str]:
    """`THERE=HERE` pairs as a mapping; raises StudyError on anything else."""
    names: dict[str, str] = {}
    for pair in pairs:
        there, equals, here = pair.partition("=")
        if not equals or any(not re.fullmatch(NAME, name) or len(name) > LONGEST_NAME for name in (there, here)):
            raise StudyError(f"merge: --rename {pair}: needs THERE=HERE, two names of a device, e.g. cpu=laptop")
        names[there] = here
    return names

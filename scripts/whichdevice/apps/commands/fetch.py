"""Bring a published study here to show its report; nothing is measured: `fetch gs://name/prefix/<study>`."""

import argparse
import re
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError

COMPILED_NAME = re.compile(r"compiled/([A-Za-z0-9_][A-Za-z0-9_.=-]*/)*[A-Za-z0-9_][A-Za-z0-9_.=-]*\.json")
MAX_FETCHED_BYTES = 2**22  # of config.yaml and of a compiled record


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("address", help="gs://name/prefix/<study>, or a folder")
    parser.add_argument(
        "--allow", action="append", default=[], metavar="FILE", help="a Python file that the study may name as a module"
    )


def run(args: argparse.Namespace) -> int:
    """Fetch it; print how to make the report."""
    for line in fetch(args.address, args.allow):
        print(line)
    return 0


def fetch(address: str, allow: list[str]) -> list[str]:
    """Bring config, records and compiled records of a published study to results/<study>; the lines to print.

    What another person's config names is never run: a Python file counts only if `allow` names it. Raises StudyError
    where no study was published there, or results/<study> holds other records.
    """
    from whichdevice.study.config.load import resolved, write_study
    from whichdevice.study.records.store import CONFIG, MERGED, OWN, RECORD, merged_sources
    from whichdevice.study.remote.merge import merge_folder, source_id
    from whichdevice.study.remote.transfer import download, open_place

    place = open_place(address)
    listing = place.listing()
    if CONFIG not in listing or int(listing[CONFIG]["size"]) > MAX_FETCHED_BYTES:
        raise StudyError(f"fetch: no study was published at {place.address} (no {CONFIG} there)")
    study = resolved(_their_study(place.read(CONFIG).decode("utf-8", "replace"), f"{place.address}/{CONFIG}", allow))
    root = Path(study.root)
    own_record = next((root / OWN).rglob(RECORD), None)
    if own_record is not None or set(merged_sources(root)) - {root / MERGED / source_id(place)}:
        raise StudyError(f"fetch: {root} holds other records; move it away, or bring both together with merge")
    lines = merge_folder(root, address, {}, fetched=True)
    compiled = {
        name
        for name, facts in listing.items()
        if COMPILED_NAME.fullmatch(name) and int(facts["size"]) <= MAX_FETCHED_BYTES
    }
    download(place, {name: root / name for name in compiled}, listing)
    write_study(study, root / CONFIG)
    return [*lines, f"its report: whichdevice study report --configfile {root / CONFIG}"]


def _their_study(text: str, where: str, allow: list[str]) -> Any:
    from whichdevice.base.errors import brief
    from whichdevice.study.config.load import load_study, parse_yaml
    from whichdevice.study.config.model import Study
    from whichdevice.study.study_cells import own_modules

    values = parse_yaml(text, where)
    if isinstance(values, dict) and (unknown := [key for key in values if key not in Study.model_fields]):
        raise StudyError(f"{where}: {brief(unknown[0])} is no key of a published study")
    call = load_study(values, where)
    for module, name in own_modules(call).items():
        if module not in allow:
            raise StudyError(
                f"{where}: workloads.{name} names the Python code {brief(module)}, which would be run; look at the one "
                f"that you have of that name, then: --allow {module}"
            )
    return call

"""Write what you timed on your GPU as a file for a pull request: no names of models, people or machines, no paths.

example: whichdevice share results/quick
"""

import argparse
from pathlib import Path

from whichdevice.base.errors import StudyError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, help="results/<study> with measured GPUs or TPUs and their forecasts")
    parser.add_argument("--to", type=Path, metavar="FOLDER", help="default: results/commons")


def run(args: argparse.Namespace) -> int:
    """Write a file for each card, and print what is in it."""
    from whichdevice.study.records.commons import COMMONS, card_of, write_card
    from whichdevice.study.tables.forecasts import timed_steps

    table = args.results / "tables" / "forecasts.csv"
    if not table.is_file():
        raise StudyError(f"share: no {table}; name a study's results, e.g. results/quick")
    timed = timed_steps(table)
    if not timed:
        raise StudyError(f"share: {args.results} has no step that was timed on a GPU or TPU and forecast for it")
    for device, (steps, versions) in timed.items():
        path = write_card(card_of(device, steps, versions), args.to or COMMONS)
        print(f"{path}: {len(steps)} steps of {device}. Read it, then propose it: a pull request that adds this file.")
    return 0

"""Write a study's tables as Parquet.

example: whichdevice export --parquet results/quick
"""

import argparse
from pathlib import Path

from whichdevice.base.errors import StudyError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, help="results/<study>")
    parser.add_argument("--parquet", action="store_true", help="tables as <results>/parquet/<table>.parquet")


def run(args: argparse.Namespace) -> int:
    """Write what was asked for, and print how much."""
    if not args.parquet:
        raise StudyError("export: as what? --parquet")
    if not args.results.is_dir():
        raise StudyError(f"export: no folder {args.results}; name a study's results, e.g. results/quick")
    from whichdevice.study.tables.make import write_parquet

    print(f"{len(write_parquet(args.results / 'tables', args.results / 'parquet'))} tables: {args.results}/parquet")
    return 0

"""Print the JSON schema of a config file, which editors use to complete and check it.

example: whichdevice schema > study.schema.json
"""

import argparse
import sys

from whichdevice.config.schema import generated_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """No options."""


def run(args: argparse.Namespace) -> int:
    """Print the schema."""
    sys.stdout.write(generated_files()["study.schema.json"])
    return 0

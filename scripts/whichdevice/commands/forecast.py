"""The old word for `whichdevice ask FILE --no-measuring`: it works for one more release."""

import argparse
import sys

from whichdevice.commands import ask


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of `ask`."""
    ask.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    """Answer without measuring here."""
    print("whichdevice forecast goes: use whichdevice ask FILE --no-measuring", file=sys.stderr)
    args.no_measuring = True
    return ask.run(args)

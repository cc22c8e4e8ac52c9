"""Nothing that costs money or deletes is done before a person has agreed."""

import sys

from whichdevice.errors import StudyError


def agree(question: str, yes: bool) -> None:
    """Ask y/N unless `yes`; raises StudyError on any answer but y, and where nobody can be asked."""
    if not yes and not sys.stdin.isatty():
        raise StudyError(f"{question} Nobody can be asked here: add --yes")
    try:
        answer = "y" if yes else input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise StudyError("Nothing was done.")

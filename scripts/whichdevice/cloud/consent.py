"""Nothing that costs money is made before a person has seen what and said yes."""

import sys

from whichdevice.errors import StudyError


class DeclinedError(StudyError):
    """The answer was no."""


def agree(question: str, yes: bool) -> None:
    """Ask y/N unless `yes`; raises StudyError where nobody can be asked, DeclinedError on any answer but y."""
    if yes:
        return
    if not sys.stdin.isatty():
        raise StudyError(f"{question} Nobody can be asked here: add --yes")
    try:
        answer = input(f"{question} [y/N] ")
    except EOFError:
        answer = ""
    if answer.strip().lower() not in ("y", "yes"):
        raise DeclinedError("Nothing was done.")

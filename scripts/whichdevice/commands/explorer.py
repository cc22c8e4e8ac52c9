"""Write one page that answers for well-known models on every device: `explorer --html explorer.html`."""

import argparse
from difflib import get_close_matches
from pathlib import Path

from whichdevice.errors import StudyError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--html", type=Path, metavar="PAGE", default=Path("explorer.html"), help="the page; default: explorer.html"
    )
    parser.add_argument("--model", action="append", default=[], help="only this model; again for others")


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from whichdevice.explorer.page import write_page
    from whichdevice.explorer.steps import known_models

    models = known_models()
    for name in args.model:
        if name not in models:
            nearest = ", ".join(get_close_matches(name, models, 3, cutoff=0.0))
            raise StudyError(f"explorer: no model {name!r}; nearest: {nearest}")
    if not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    write_page(args.html, args.model)
    print(f"{args.html}: {args.html.stat().st_size / 1e6:.2f} MB")
    return 0

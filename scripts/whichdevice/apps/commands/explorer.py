"""Write one page that answers for well-known models on every device: `explorer --html explorer.html`."""

import argparse
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from whichdevice.apps.commands.serve import ANSWER, PROMPT, TPOT, TTFT, seconds_of
from whichdevice.base.errors import StudyError

RPS = 5.0  # requests a second, to serve a model that everybody knows


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the options of the command."""
    parser.add_argument(
        "--html", type=Path, metavar="PAGE", default=Path("explorer.html"), help="the page; default: explorer.html"
    )
    parser.add_argument("--model", action="append", default=[], help="only this model; again for others")


def _served(name: str) -> Sequence[str]:
    """Return what `serve` says of a language model at a usual load; nothing of others, and of short ones."""
    from whichdevice.apps.questions.serving import ServingQuestion, ask_serving
    from whichdevice.decide.words import lines, title
    from whichdevice.forecast.serving.forecast import Load
    from whichdevice.models.hugging_face import PREFIX, known_models
    from whichdevice.models.served import served_model

    known = known_models().get(name)
    if known is None or known.task != "CausalLM" or known.longest < PROMPT + ANSWER:
        return ()
    load = Load(RPS, PROMPT, ANSWER, seconds_of("--ttft", TTFT), seconds_of("--tpot", TPOT))
    answer = ask_serving(ServingQuestion(served_model(f"{PREFIX}{name}"), load, here=False))
    return [title(answer), *lines(answer)]


def run(args: argparse.Namespace) -> int:
    """Write the page."""
    from whichdevice.apps.explorer.answers import write_page
    from whichdevice.apps.explorer.steps import known_models

    models = known_models()
    for name in args.model:
        if name not in models:
            nearest = ", ".join(get_close_matches(name, models, 3, cutoff=0.0))
            raise StudyError(f"explorer: no model {name!r}; nearest: {nearest}")
    if not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    write_page(args.html, args.model, _served)
    print(f"{args.html}: {args.html.stat().st_size / 1e6:.2f} MB")
    return 0

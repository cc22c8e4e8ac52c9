"""Which device for this model? Measured here and forecast elsewhere: one decision, with hours and dollars.

examples:
  whichdevice ask docs/examples/my_model.py --examples 60000 --epochs 10
  whichdevice ask resnet50 --examples 1281167 --epochs 90 --deadline 3d --budget 50
  whichdevice ask decoder --tokens 1e9 --devices "RTX 4090",A100,H100 --by time
  whichdevice ask train.py -- --lr 0.1 --epochs 5
  whichdevice ask decoder --mode generate --batch 8 --no-measuring
"""

import argparse
import json
import os
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from whichdevice.config.load import parse_yaml
from whichdevice.config.model import FORECAST_DEVICES
from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.answer import Answer, Row, Wants
    from whichdevice.config.hardware import Software
    from whichdevice.forecast.targets import Target
    from whichdevice.planning.one_model import OneModel

MODES = ("train", "predict", "generate")
UNITS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
FORMATS = ("mixed", "single", "float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("model", metavar="FILE", help="a model's or training script's .py file, hf:NAME, or a built-in workload")
    size = parser.add_argument_group("size of the training; default: the data's and the file's, else a million")
    for name in ("examples", "epochs", "steps", "tokens"):
        size.add_argument(f"--{name}", type=float, metavar="N")
    wants = parser.add_argument_group("what you want")
    wants.add_argument("--by", choices=("cost", "time"), default="cost", help="cost: the cheapest within the deadline")
    wants.add_argument("--deadline", default="24h", metavar="TIME", help="e.g. 8h, 30min, 3d; default: 24h")
    wants.add_argument("--budget", type=float, metavar="USD", help="at most so much for the whole")
    wants.add_argument("--only", choices=("free",), help="only this machine and machines that cost nothing")
    wants.add_argument("--spot", action="store_true", help="also machines that the cloud may take away")
    wants.add_argument("--hour-usd", type=float, default=0.0, metavar="USD", help="what an hour of waiting costs you")
    wants.add_argument("--here-usd", type=float, metavar="USD", help="an hour of this machine; default: electricity")
    add("--devices", help=DEVICES_HELP)
    add("--gpus", metavar="N", help=GPUS_HELP)
    add("--mode", choices=MODES, default="train", help="training steps, forward passes, or tokens after a prompt")
    add("--batch", type=int, metavar="N", help="examples per step; default: the model's own; generate: also 1")
    add("--sequence-length", type=int, metavar="N", help="where the model has sequences")
    add("--precision", choices=FORMATS, help="of the forecasts; default: the script's, else mixed: as people use each")
    add("--option", action="append", default=[], metavar="KEY=VALUE", help="as the config's `options`; may be repeated")
    add("--backend", choices=("tensorflow", "jax", "torch"), help="that measures here")
    add("--here", action="store_true", help="only try the model here: shapes, a few steps, memory, what is wrong")
    add("--no-measuring", action="store_true", help="answer from forecasts alone")
    add("--again", action="store_true", help="measure here anew, in place of an earlier call's records")
    add("--largest", action="store_true", help="also find the largest batch that fits; takes longer")
    add("--all", action="store_true", help="show devices that are dearer and slower, too")
    add("--json", action="store_true", help="print the answer as JSON")
    add("--python", type=Path, metavar="PATH", help="run with this interpreter: an environment with your packages")
    add("--html", type=Path, metavar="PAGE", help="also write the answer as a page")
    parser.set_defaults(passed_on=[])


GPUS_HELP = "GPUs that share the batch: 1, 2, 4, 8; of nodes of eight up to 512; several: 1,2,4,8; auto: every number; "
GPUS_HELP += "default: 1, and in PyTorch more where half of the devices are too small or none is in time"
DEVICES_HELP = 'names with commas, e.g. L4,T4,"A100 SXM 80GB", or all; default: ten common ones'


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises StudyError where the question is at fault or nothing has an answer."""
    from whichdevice.machine.cpu import thread_environment, usable_cores
    from whichdevice.planning.requirements import run_in

    if args.python is not None:
        return run_in(args.python, without_option(args.given, "--python"))
    os.environ.update(thread_environment(usable_cores()))  # before NumPy is imported: its calibration uses every core
    if args.here:
        return try_here(args)
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    screen = Screen(args.all)
    asked, found = answered(args, screen if screen.live and not args.json else None)
    if args.html:
        write_page(found, args.html, args.all)
    if args.json:
        plain = [answer.to_dict() for answer in found]
        print(json.dumps(plain[0] if len(plain) == 1 else plain, indent=1))
        return 0
    kept = f"This machine's time is of {asked.kept_from}; --again measures anew." if asked.kept_from else None
    screen.show(found, list(filter(None, [kept, args.html and f"Page: {args.html}"])), asked.left.rows)
    return 0


def try_here(args: argparse.Namespace) -> int:
    """Print what a few steps on this machine show; return 1 where they fail."""
    from whichdevice.planning.requirements import require
    from whichdevice.trying.trial import show_trial

    require(args.model, args.devices)
    args.model = looked_at(args.model, args.passed_on)
    [workload] = one_model(args, [], (1,)).study.workloads.values()
    return show_trial(args.model, workload.backend[0], workload.options)


def answered(args: argparse.Namespace, screen: "Screen | None" = None) -> "tuple[OneModel, list[Answer]]":
    """The question and its answers; a screen shows the first one, from forecasts alone. Raises StudyError as `run`."""
    from whichdevice.forecast.study import usual_precision
    from whichdevice.forecast.targets import software_of
    from whichdevice.planning.requirements import require

    require(args.model, args.devices)
    software, counts = software_of(args.model), gpu_counts(args.gpus)
    wants, targets = wants_of(args), targets_of(args.devices, counts, software)
    args.model = looked_at(args.model, args.passed_on)
    asked = one_model(args, targets, counts)
    for target in targets:
        if refusal := target.refusal(usual_precision(target, asked.precision or "mixed"), software):
            print(refusal, file=sys.stderr)

    def first(paths: Sequence[Path]) -> None:
        found = asked.answers(wants, [], paths)
        if screen is not None and found:
            screen.show(found, [FIRST], asked.left.rows)

    compiled = asked.forecast(first if screen is not None else None, waits=not args.no_measuring)
    if args.gpus is None and software == "eager" and args.mode == "train":
        found = asked.answers(wants, [], compiled)
        if several := gpus_needed(args, found):
            left, small = asked.left, {row.device for each in found for row in too_small(each)}
            # A card without bfloat16 needs traces in another number format: where it is too small, leave it out.
            usual = [each for each in targets if each.device not in small or not each.refusal("bfloat16", software)]
            names = [each.device for each in usual or targets]
            clusters = [each for each in targets_of(",".join(names), several, software) if each.rented_together]
            asked = one_model(args, clusters, several)
            asked.left = left
            compiled = asked.forecast(waits=not args.no_measuring)
    records: list[Path] = []
    if not args.no_measuring:
        if screen is not None:
            first(compiled)
        records = asked.measure(args.again, compiled)
    found = asked.answers(wants, records, compiled)
    if all(answer.pick is None and not answer.fits_nowhere for answer in found):
        raise StudyError(found[0].words[0] if found else f"{args.model}: no device has an answer")
    return asked, found


def gpus_needed(args: argparse.Namespace, found: "Sequence[Answer]") -> list[int]:
    """Numbers of GPUs to choose from where a PyTorch model is too large for half of the cards, or ends too late on all.

    Empty otherwise. The GPUs share the batch evenly. An `hf:` model without --batch has one that grows with the GPUs.
    """
    from whichdevice.forecast.targets import GPU_COUNTS, NODES
    from whichdevice.models.hugging_face import PREFIX

    late = [each for each in found if each.by != each.wants.by]
    large = [each for each in found if 2 * len(too_small(each)) >= sum(row.rented for row in each.work.rows)]
    known = any(row.fits is not None for each in found for row in each.work.rows if row.rented)
    if not known or (not large and not late) or args.only == "free":
        return []
    if args.batch is None and args.steps is None and args.model.startswith(PREFIX):
        return [*GPU_COUNTS, *(count for count in NODES if count <= MOST_GPUS)]
    shared = [count for count in GPU_COUNTS if all(each.work.batch % count == 0 for each in found)]
    return shared if len(shared) > 1 else []


def too_small(answer: "Answer") -> "list[Row]":
    """Rows of devices elsewhere that do not hold the model."""
    return [row for row in answer.work.rows if row.rented and row.fits is False]


MOST_GPUS = 64  # that are tried without being asked for
FIRST = "A first answer, from forecasts alone."


def without_option(arguments: Sequence[str], name: str) -> list[str]:
    """The command line without one option and its value, whichever way it is written."""
    kept: list[str] = []
    skip = False
    for number, each in enumerate(arguments):
        if each == "--":
            return kept + list(arguments[number:])
        if not skip and each != name and not each.startswith(f"{name}="):
            kept.append(each)
        skip = each == name
    return kept


def one_model(args: argparse.Namespace, targets: "Sequence[Target]", counts: Sequence[int]) -> "OneModel":
    """The question; raises StudyError on a wrong file, batch, option or mode."""
    from whichdevice.planning.one_model import OneModel

    for name in ("batch", "sequence_length"):
        if (value := getattr(args, name)) is not None and value < 1:
            raise StudyError(f"--{name.replace('_', '-')} {value}: a number of at least 1 is needed")
    asked = OneModel(
        args.model, targets, args.mode, args.batch, args.sequence_length, args.precision, given_options(args.option),
        args.backend, counts, args.largest,
    )  # fmt: skip
    assert asked.study
    return asked


def looked_at(model: str, arguments: Sequence[str] = ()) -> str:
    """The address of a model; a script becomes known, which runs it until its training starts unless it is known."""
    from whichdevice.models.address import ARGUMENTS, read_address
    from whichdevice.models.scripts import known, probe, trains

    if not trains(read_address(model)):
        if arguments:
            raise StudyError(f"{model}: takes nothing after --: it is no training script")
        return model
    model += (ARGUMENTS + shlex.join(arguments)) * bool(arguments)
    address = read_address(model)
    if known(address) is None:
        print(
            f"{address.label} runs until its training starts: it may write and download until then. Nothing trains.",
            file=sys.stderr,
        )
        probe(address)
    return model


def write_page(found: "Sequence[Answer]", page: Path, everything: bool) -> None:
    """Write the same answer as a page."""
    from whichdevice.report.page import render
    from whichdevice.report.verdict import answer_parts

    render("ask.html", page, answers=[answer_parts(answer, everything) for answer in found])


class Screen:
    """The answer on standard output; on a terminal the next one is drawn over the last."""

    def __init__(self, everything: bool) -> None:
        self.live = sys.stdout.isatty()
        self._everything, self._drawn, self._rows = everything, 0, 0

    def show(self, found: "Sequence[Answer]", more: Sequence[str], rows: int = 0) -> None:
        """Print answers, and lines that go below them; `rows` of the terminal have other lines since the first."""
        from whichdevice.answer.table import text

        size = get_terminal_size((100, 40))
        parts = [line for answer in found for line in [*text(answer, size.columns, self._everything), ""]]
        lines = [*parts[:-1], *more]
        up = self._drawn + rows - self._rows
        if self._drawn and up < size.lines:
            sys.stdout.write(f"\033[{up}A\033[J")
        print("\n".join(lines), flush=True)
        self._drawn, self._rows = len(lines), rows


def wants_of(args: argparse.Namespace) -> "Wants":
    """What the user wants; raises StudyError on a number that is none of its kind."""
    from whichdevice.answer import Wants

    for name in ("examples", "epochs", "steps", "tokens", "budget"):
        if (value := getattr(args, name)) is not None and not 0 < value < 1e18:
            raise StudyError(f"--{name} {value:g}: a number above 0 is needed")
    for name, price in (("here-usd", args.here_usd), ("hour-usd", args.hour_usd)):
        if price is not None and not 0 <= price < 1e6:
            raise StudyError(f"--{name} {price:g}: a price of 0 or more is needed")
    found = re.fullmatch(r"([\d.]+)\s*(d|h|min|m|s)?", args.deadline.strip())
    if found is None or found[1].count(".") > 1 or not 0 < float(found[1]) < 1e9:
        raise StudyError(f"--deadline {args.deadline}: a time is needed, e.g. 8h, 30min or 3d")
    return Wants(
        examples=args.examples, epochs=args.epochs, steps=args.steps, tokens=args.tokens, by=args.by,
        deadline=float(found[1]) * UNITS[found[2] or "h"], budget=args.budget, only_free=args.only == "free",
        spot=args.spot, hour_usd=args.hour_usd, here_usd=args.here_usd,
    )  # fmt: skip


def gpu_counts(text: str | None) -> list[int]:
    """The numbers of GPUs that `--gpus` asks for; raises StudyError."""
    from whichdevice.forecast.targets import GPU_COUNTS, NODES

    if text is None:
        return [1]
    known = [*GPU_COUNTS, *NODES]
    counts = known if text == "auto" else [int(each) for each in text.split(",") if each.strip().isdigit()]
    if not counts or not set(counts) <= set(known):
        raise StudyError(f"--gpus {text}: {', '.join(map(str, known))} are possible, several with commas, or auto")
    return counts


def targets_of(names: str | None, counts: Sequence[int] = (1,), software: "Software" = "xla") -> "list[Target]":
    """The devices that a person lists: names with commas, or `all` that have this software; None: ten common ones.

    Each in these numbers.
    """
    from whichdevice.forecast.study import targets_in
    from whichdevice.forecast.targets import all_targets, find_target, other_targets

    asked = list(FORECAST_DEVICES) if names is None else [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        raise StudyError("--devices: names of devices are needed, e.g. --devices L4,T4")
    if [name.casefold() for name in asked] == ["all"]:
        return [target for count in counts for target in all_targets(count, software)]
    for name in asked:
        if others := other_targets(name):
            print(f"{name}: the {find_target(name).device} is taken; also: {', '.join(others)}", file=sys.stderr)
    return targets_in(asked, counts)


def given_options(given: list[str]) -> dict[str, Any]:
    """KEY=VALUE of the command line as the config's `options`; raises StudyError."""
    options = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise StudyError(f"--option {each}: needs KEY=VALUE, e.g. layers=2")
        options[key] = parse_yaml(text, f"--option {each}")
    return options

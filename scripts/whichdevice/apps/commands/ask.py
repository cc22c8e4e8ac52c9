"""Which device for a model? One decision with hours and dollars, measured here, forecast elsewhere.

examples:
  whichdevice ask docs/examples/my_model.py --examples 60000 --epochs 10
  whichdevice ask resnet50 --examples 1281167 --epochs 90 --deadline 3d
  whichdevice ask decoder --tokens 1e9 --devices "RTX 4090",A100,H100 --by time
  whichdevice ask train.py -- --lr 0.1 --epochs 5
  whichdevice ask decoder --mode generate --batch 8 --no-measuring
"""

import argparse
import json
import os
import re
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from whichdevice.apps.commands.serve import language_model
from whichdevice.apps.commands.values import (
    LARGEST_TIME,
    NUMBER,
    at_least_one,
    given_options,
    gpu_counts,
    positive,
    prices_of,
)
from whichdevice.base.errors import StudyError
from whichdevice.decide.decide import DEADLINE_HOURS
from whichdevice.forecast.targets import FORECAST_DEVICES

if TYPE_CHECKING:
    from whichdevice.apps.questions.one_model import OneModel
    from whichdevice.apps.questions.question import Question
    from whichdevice.base.sheets.hardware import Software
    from whichdevice.decide import Answer, Wants
    from whichdevice.forecast.targets import Target
    from whichdevice.models.loading import Model

MODES = ("train", "predict", "generate")
TIME_UNITS = {"d": 86400.0, "h": 3600.0, "min": 60.0, "m": 60.0, "s": 1.0}
ASK_FORMATS = ("mixed", "single", "float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.usage = "whichdevice ask FILE [options] [-- ARGUMENTS OF THE SCRIPT]"
    add = parser.add_argument
    add("model", metavar="FILE", help=MODEL_HELP)
    size = parser.add_argument_group("size of the training; default: the data's and the file's, else a million")
    for name in ("examples", "epochs", "steps", "tokens"):
        size.add_argument(f"--{name}", type=float, metavar="N")
    wants = parser.add_argument_group("what you want")
    wants.add_argument("--by", choices=("cost", "time"), default="cost", help="cost: the cheapest within the deadline")
    usual = f"{DEADLINE_HOURS:g}h"
    wants.add_argument("--deadline", default=usual, metavar="TIME", help=f"e.g. 8h, 30min, 3d; default: {usual}")
    wants.add_argument("--only", choices=("free",), help="only this machine and machines that cost nothing")
    wants.add_argument("--spot", action="store_true", help="also machines that the cloud may take away")
    wants.add_argument("--price", action="append", default=[], metavar="DEVICE=USD", help="an hour of it; repeatable")
    add("--devices", metavar="NAMES", help=DEVICES_HELP)
    add("--gpus", metavar="N", help=GPUS_HELP)
    add_step_arguments(parser)
    add("--no-measuring", action="store_true", help="answer from forecasts alone")
    add("--largest", action="store_true", help="also find the largest and the cheapest batch that fit; takes longer")
    add("--longest", action="store_true", help="also find the longest context that fits, of a language model")
    add("--why", action="store_true", help="also how it is known: every device, memory, prices, kWh")
    add("--json", action="store_true", help="print the answer as JSON")
    add("--html", type=Path, metavar="PAGE", help="also write the answer as a page")


def add_step_arguments(parser: argparse.ArgumentParser) -> None:
    """Options that say which step of a model is meant."""
    add = parser.add_argument
    add("--mode", choices=MODES, default="train", type=mode_of, help="training steps, forward passes, generated tokens")
    add("--batch", type=int, metavar="N", help="examples per step; default: the model's own; generate: also 1")
    add("--sequence-length", type=int, metavar="N", help="where the model has sequences")
    add("--precision", choices=ASK_FORMATS, metavar="FORMAT", help=PRECISION_HELP)
    add("--option", action="append", default=[], metavar="KEY=VALUE", help=OPTION_HELP)
    parser.set_defaults(passed_on=[])


def mode_of(text: str) -> str:
    """Return the mode; raises StudyError where it was one earlier, before any of its options is looked at."""
    if text == "serve":
        raise StudyError("--mode serve: is now a command: whichdevice serve MODEL --rps 5 --ttft 1s")
    return text


MODEL_HELP = "a model's or training script's .py file, hf:NAME, a folder with config.json, or a built-in workload"
OPTION_HELP = "of the model's file or name, e.g. method=lora, objective=dpo; repeatable"
PRECISION_HELP = "float32, tf32, mixed_bfloat16, ...; default: the script's, else mixed"
GPUS_HELP = "numbers up to 512, with commas: 1,4,8; auto: every one; default: as needed"
DEVICES_HELP = "L4,T4; groups: tpu, gpu, mac, free, desktop, cloud, all; default: common ones"


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises StudyError where the question is at fault or nothing has an answer."""
    from whichdevice.base.cpu import thread_environment, usable_cores

    os.environ.update(thread_environment(usable_cores()))  # before NumPy is imported: its calibration uses every core
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    if args.longest and (args.mode != "train" or language_model(args.model) is None):
        raise StudyError("--longest: is for a language model of Hugging Face (hf:NAME) that is trained")
    return show(question_of(args), args.html, args.json, Screen(args.why))


def question_of(args: argparse.Namespace) -> "Question":
    """Return the question of a command line; raises StudyError on a value that does not suit its option."""
    from whichdevice.apps.questions.question import Question
    from whichdevice.models.loading import Model

    return Question(
        model=Model.read(args.model),
        wants=wants_of(args),
        devices=None if args.devices is None else tuple(filter(None, map(str.strip, args.devices.split(",")))),
        gpus=None if args.gpus is None else gpu_counts(args.gpus),
        mode=args.mode,
        batch=at_least_one("--batch", args.batch),
        sequence_length=at_least_one("--sequence-length", args.sequence_length),
        precision=args.precision,
        options=given_options(args.option),
        largest=args.largest,
        longest=args.longest,
        measuring=not args.no_measuring,
        script_arguments=tuple(args.passed_on),
    )


def show(question: "Question", page: Path | None, as_json: bool, screen: "Screen") -> int:
    """Print the answer of a question, and write it as a page."""
    from whichdevice.decide import words

    asked, answers = answered(question, screen if screen.live and not as_json else None)
    if page is not None:
        from whichdevice.study.report.page import render
        from whichdevice.study.report.verdict import answer_parts

        render("ask.html", page, answers=[answer_parts(answer) for answer in answers])
    if as_json:
        plain = [words.as_json(answer) for answer in answers]
        print(json.dumps(plain[0] if len(plain) == 1 else plain, indent=1))
        return 0
    below = [f"This machine's time is of {asked.here.kept_from}."] * bool(asked.here.kept_from)
    screen.show(answers, below + [f"Page: {page}"] * bool(page), asked.left.rows)
    return 0


def answered(question: "Question", screen: "Screen | None" = None) -> "tuple[OneModel, list[Answer]]":
    """Return what was asked and its answers; a screen shows the first one, from forecasts alone.

    Raises StudyError as `run`.
    """
    from whichdevice.apps.questions.one_model import OneModel
    from whichdevice.apps.questions.requirements import require
    from whichdevice.decide.words import lines
    from whichdevice.forecast.known import known_steps
    from whichdevice.forecast.targets import software_of

    software = software_of(question.model.text)
    targets = targets_of(question.devices, question.gpus or (1,), software)
    if not any(known_steps(question.model.text)):
        require(question.model.address)
    question = replace(question, model=looked_at(question.model, question.script_arguments))
    counts = question.counts
    if question.gpus is None and counts != (1,):
        several = targets_of(question.devices, counts, software, tells=False)
        targets = [target for target in several if target.rented_together]
    asked = OneModel(question, targets, counts)

    def first() -> None:
        if screen is not None and (early := asked.answers()):
            screen.show(early, ["A first answer, from forecasts alone."], asked.left.rows)

    asked.forecast(None if screen is None else first)
    if question.gpus is None and counts == (1,) and software == "eager" and question.mode == "train":
        asked = with_more_gpus(asked, software)
    if question.measuring:
        first()
        asked.measure()
    answers = asked.answers()
    if all(answer.pick is None and not answer.fits_nowhere for answer in answers):
        raise StudyError(lines(answers[0])[0] if answers else f"{question.model}: no device has an answer")
    return asked, answers


def with_more_gpus(asked: "OneModel", software: "Software") -> "OneModel":
    """Return the question about several GPUs, forecast, where one is too small or too late; else the same."""
    from whichdevice.apps.questions.one_model import OneModel

    answers = asked.answers()
    several = gpus_needed(asked.question, answers)
    if not several:
        return asked
    small = {card for answer in answers for card in too_small(answer)}
    # A card without bfloat16 needs traces in another number format: where it is too small, leave it out.
    usual = [one for one in asked.targets if one.device not in small or not one.refusal("bfloat16", software)]
    names = [one.device for one in usual or asked.targets]
    clusters = [target for target in targets_of(names, several, software) if target.rented_together]
    asked = OneModel(asked.question, clusters, several, asked.left, known=asked.known)
    asked.forecast()
    return asked


def gpus_needed(question: "Question", answers: "Sequence[Answer]") -> list[int]:
    """Return numbers of GPUs to choose from where a PyTorch model is too large for half of the cards, or too late.

    Empty otherwise. The GPUs share the batch evenly. An `hf:` model without --batch has one that grows with the GPUs;
    so has a script with a batch on each. Where each makes as many steps, more of them end no earlier, and hold more.
    """
    from whichdevice.forecast.targets import GPU_COUNTS, NODES

    late = any(answer.late for answer in answers)
    rented = [[row for row in answer.work.rows if row.rented] for answer in answers]
    cards = [{row.card for row in rows} for rows in rented]
    large = any(2 * len(too_small(answer)) >= len(of_it) for answer, of_it in zip(answers, cards, strict=True))
    known = any(row.fits is not None for rows in rented for row in rows)
    if not known or not (large or late) or question.wants.only_free:
        return []
    if question.batch is None and question.wants.steps is None and question.model.address.kind == "hub":
        return [*GPU_COUNTS, *(count for count in NODES if count <= MAX_GPUS)]
    fixed = {answer.work.fixed for answer in answers}
    if fixed == {"steps"}:
        return [max(GPU_COUNTS)] if large else []
    if fixed == {"examples"}:
        return list(GPU_COUNTS)
    shared = [count for count in GPU_COUNTS if all(answer.work.batch % count == 0 for answer in answers)]
    return shared if len(shared) > 1 else []


def too_small(answer: "Answer") -> set[str]:
    """Return the devices elsewhere that do not hold the model, each once however it is offered."""
    return {row.card for row in answer.work.rows if row.rented and row.fits is False}


MAX_GPUS = 64  # that are tried without being asked for


def looked_at(model: "Model", arguments: Sequence[str] = ()) -> "Model":
    """Return the model, a script with these arguments.

    A script that is not known yet runs until its training starts, which makes it known.
    """
    from whichdevice.base.files import can_be_written
    from whichdevice.models.script.look import FOLDER, known, probe, trains

    if not trains(model.address):
        if arguments:
            raise StudyError(f"{model}: takes nothing after --: it is no training script")
        return model
    model = model.with_arguments(arguments) if arguments else model
    if known(model.address) is None:
        if not can_be_written(FOLDER):
            where = f"{model.label}: {Path.cwd()} cannot be written, and what the script does is kept there"
            raise StudyError(f"{where}: go to another folder and name it by its path")
        print(
            f"{model.label} runs until its training starts: it may write and download until then. Nothing trains.",
            file=sys.stderr,
        )
        probe(model.address)
    return model


class Screen:
    """The answer on standard output; on a terminal the next one is drawn over the last."""

    def __init__(self, why: bool) -> None:
        self.live = sys.stdout.isatty()
        self.why, self._drawn, self._rows = why, 0, 0

    def show(self, answers: "Sequence[Answer]", below: Sequence[str], rows: int = 0) -> None:
        """Print answers, and lines that go below them; `rows` of the terminal have other lines since the first."""
        from whichdevice.decide.words import text

        size = get_terminal_size((100, 40))
        texts = [text(answer, size.columns, self.why, len(below)) for answer in answers]
        parts = [line for lines in texts for line in [*lines, ""]]
        lines = [*parts[:-1], *below]
        up = self._drawn + rows - self._rows
        if self._drawn and up < size.lines:
            sys.stdout.write(f"\033[{up}A\033[J")
        print("\n".join(lines), flush=True)
        self._drawn, self._rows = len(lines), rows


def wants_of(args: argparse.Namespace) -> "Wants":
    """Return what the user wants; raises StudyError on a number that does not suit its option."""
    from whichdevice.decide import Wants

    sizes = ("examples", "epochs", "steps", "tokens")
    size: dict[str, Any] = {name: positive(f"--{name}", getattr(args, name)) for name in sizes}
    return Wants(
        **size, by=args.by, deadline=seconds_of(args.deadline), only_free=args.only == "free", spot=args.spot,
        prices=prices_of(args.price), port=names_tpus(args.devices),
    )  # fmt: skip


def names_tpus(devices: str | None) -> bool:
    """Return whether TPUs are named, which makes them choices for a PyTorch model: it has to be ported to them."""
    from whichdevice.forecast.targets import names_tpu

    return devices is not None and any(map(names_tpu, devices.split(",")))


TIME = re.compile(rf"({NUMBER})\s*(d|h|min|m|s)?")


def seconds_of(text: str) -> float:
    """Return the seconds of a time such as 8h, 30min or 3d; raises StudyError."""
    time = TIME.fullmatch(text.strip())
    if time is None or not 0 < float(time[1]) < LARGEST_TIME:
        raise StudyError(f"--deadline {text}: a time is needed, e.g. 8h, 30min or 3d")
    return float(time[1]) * TIME_UNITS[time[2] or "h"]


def targets_of(
    names: Sequence[str] | None, counts: Sequence[int] = (1,), software: "Software" = "xla", tells: bool = True
) -> "list[Target]":
    """Return the devices that a person lists, by names and groups, in these numbers; None stands for common ones.

    It tells which device a short name means, where several have it.
    """
    from whichdevice.forecast.targets import GROUPS, NO_XLA, devices_in, find_target, other_targets, targets_in

    asked = FORECAST_DEVICES if names is None else names
    if not asked:
        raise StudyError("--devices: names of devices are needed, e.g. --devices L4,T4")
    for name in asked:
        if tells and name.casefold() not in GROUPS and (others := other_targets(name)):
            print(f"{name}: the {find_target(name).device} is taken; also: {', '.join(others)}", file=sys.stderr)
    if not (devices := devices_in(asked, software)):
        raise StudyError(f"--devices {','.join(asked)}: {NO_XLA}")
    return targets_in(devices, counts)

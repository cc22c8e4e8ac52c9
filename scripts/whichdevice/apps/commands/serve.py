"""Which machine answers requests in time, and for how much? Language models; images and videos.

examples:
  whichdevice serve hf:meta-llama/Llama-3.1-8B-Instruct --rps 5 --ttft 1s --tpot 50ms
  whichdevice serve hf:meta-llama/Llama-3.1-70B-Instruct --weights awq --devices "L40S,mac"
  whichdevice serve hf:black-forest-labs/FLUX.1-dev --latency 30s
"""

import argparse
import json
import os
import re
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING

from whichdevice.apps.commands.values import gpu_counts, positive, prices_of
from whichdevice.base.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.decide.serving import Serving
    from whichdevice.models.diffusion import Diffusion

PROMPT, ANSWER = 1000, 300  # tokens, where nobody says: a chat with some text to look at
TTFT, TPOT = "2s", "100ms"  # a person waits that long, and reads that fast
LATENCY = {"image": "1min", "video": "30min"}
TIME = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|min)?")
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
MIN_UNIT = 20.0  # seconds from which on a time needs its unit: milliseconds are likely meant
MAX_SECONDS, MAX_TOKENS = 3600.0, 10_000_000
FORMATS = ("bf16", "fp8", "int8", "awq", "gptq", "nvfp4", "mxfp4", "q4_k_m", "q5_k_m", "q6_k", "q8_0")
OF_LANGUAGE_MODELS = ("tokens", "ttft", "tpot", "weights", "gpus")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("model", metavar="MODEL", help="hf:NAME, a model of Hugging Face")
    add("--rps", type=float, metavar="N", help="requests a second; default: one user")
    add("--devices", metavar="NAMES", help="names and groups with commas: L40S,RTX 4090,tpu,mac; default: common ones")
    add("--price", action="append", default=[], metavar="DEVICE=USD", help="what an hour of it costs you; repeatable")
    text = parser.add_argument_group("language models").add_argument
    text("--tokens", metavar="IN,OUT", help=f"of a prompt and of its answer; default: {PROMPT},{ANSWER}")
    text("--ttft", metavar="TIME", help=f"to the first token, for nine in ten requests; default: {TTFT}")
    text("--tpot", metavar="TIME", help=f"from token to token, for nine in ten requests; default: {TPOT}")
    text("--weights", metavar="FORMAT", help=f"of {', '.join(FORMATS)}; default: as published")
    text("--gpus", metavar="N", help="GPUs that share a model, with commas; default: 1,2,4,8")
    made = parser.add_argument_group("images and videos").add_argument
    usual = "; ".join(f"{time} ({makes})" for makes, time in LATENCY.items())
    made("--latency", metavar="TIME", help=f"of a whole one, for nine in ten; default: {usual}")
    add("--why", action="store_true", help="also how it is known: every device, its memory, prices, what columns mean")
    add("--json", action="store_true", help="print the answer as JSON, with all devices")
    add("--html", type=Path, metavar="PAGE", help="also write the answer as a page")


def run(args: argparse.Namespace) -> int:
    """Print the answer, or write it as JSON or a page; raises StudyError where nothing holds the targets."""
    from whichdevice.base.cpu import thread_environment, usable_cores

    os.environ.update(thread_environment(usable_cores()))  # before NumPy is imported: its calibration uses every core
    from whichdevice.decide import words

    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    answer = served(args)
    if answer.pick is None:
        raise StudyError(words.lines(answer)[0])
    if args.html is not None:
        from whichdevice.study.report.page import render
        from whichdevice.study.report.serving_pictures import pictures

        render("ask.html", args.html, answers=[words.page_parts(answer, pictures(answer))])
    if args.json:
        print(json.dumps(words.as_json(answer), indent=1))
    else:
        print("\n".join(words.text(answer, get_terminal_size((100, 40)).columns, args.why)))
    return 0


def served(args: argparse.Namespace) -> "Serving":
    """Return the answer of a command line; raises StudyError on a value that does not suit its option."""
    from whichdevice.models.address import full_name
    from whichdevice.models.diffusion import generator

    if (makes := generator(full_name(args.model))) is not None:
        return _generated(args, makes)
    if language_model(args.model) is None:
        raise StudyError(
            f"{args.model}: is no language, image or video model of Hugging Face (hf:NAME); for its latency and "
            f"throughput: whichdevice ask {args.model} --mode predict"
        )
    return _written(args)


def language_model(text: str) -> str | None:
    """Return the name of a model of Hugging Face that writes text word by word; None for every other model."""
    from whichdevice.models.address import full_name
    from whichdevice.models.hugging_face import PREFIX, configuration
    from whichdevice.models.served import without_format

    name = full_name(text)
    if not name.startswith(PREFIX):
        return None
    plain = name.removeprefix(PREFIX)
    return plain if configuration(without_format(plain)).task == "CausalLM" else None


def _written(args: argparse.Namespace) -> "Serving":
    """The answer for a language model."""
    from whichdevice.apps.questions.serving import GPU_COUNTS, ServingQuestion, ask_serving, device_named
    from whichdevice.forecast.serving.forecast import Load
    from whichdevice.models.address import full_name
    from whichdevice.models.served import served_model, weight_format

    if args.latency is not None:
        raise StudyError("--latency: is for images and videos; a language model has --ttft and --tpot")
    counts = GPU_COUNTS if args.gpus is None else gpu_counts(args.gpus)
    if max(counts) > max(GPU_COUNTS):
        raise StudyError(f"--gpus {args.gpus}: a server is one machine; {', '.join(map(str, GPU_COUNTS))} are possible")
    prompt, answer = (PROMPT, ANSWER) if args.tokens is None else tokens_of(args.tokens)
    ttft, tpot = seconds_of("--ttft", args.ttft or TTFT), seconds_of("--tpot", args.tpot or TPOT)
    return ask_serving(
        ServingQuestion(
            model=served_model(full_name(args.model)),
            load=Load(positive("--rps", args.rps), prompt, answer, ttft, tpot),
            devices=devices_of(args.devices),
            counts=counts,
            weights=None if args.weights is None else weight_format(args.weights),
            prices=prices_of(args.price, device_named),
        )
    )


def _generated(args: argparse.Namespace, model: "Diffusion") -> "Serving":
    """The answer for a model that makes images or videos."""
    from whichdevice.apps.questions.serving import ask_generation, device_named
    from whichdevice.forecast.serving.forecast import Load

    if given := [name for name in OF_LANGUAGE_MODELS if getattr(args, name)]:
        raise StudyError(f"--{given[0]}: is for language models; {args.model} takes --rps and --latency")
    seconds = seconds_of("--latency", args.latency or LATENCY[model.makes])
    load = Load(positive("--rps", args.rps), 0, 1, seconds, seconds, model.makes)
    return ask_generation(model, load, devices_of(args.devices), prices_of(args.price, device_named))


def devices_of(text: str | None) -> tuple[str, ...] | None:
    """Return the names of --devices."""
    return None if text is None else tuple(filter(None, map(str.strip, text.split(","))))


def tokens_of(text: str) -> tuple[int, int]:
    """Return the tokens of a prompt and of its answer; raises StudyError."""
    numbers = re.fullmatch(r"([0-9]{1,8}),([0-9]{1,8})", text.replace(" ", ""))
    prompt, answer = map(int, numbers.groups()) if numbers else (0, 0)
    if not (0 < prompt <= MAX_TOKENS and 0 < answer <= MAX_TOKENS):
        raise StudyError(f"--tokens {text}: write the tokens of a prompt and of its answer, e.g. {PROMPT},{ANSWER}")
    return prompt, answer


def seconds_of(option: str, text: str) -> float:
    """Return the seconds of a time such as 50ms or 1s; raises StudyError."""
    time = TIME.fullmatch(text.strip())
    seconds = float(time[1]) * UNITS[time[2] or "s"] if time else 0.0
    if time and not time[2] and seconds >= MIN_UNIT:
        raise StudyError(f"{option} {text}: without a unit these are seconds; write {text}ms or {text}s")
    if not 0 < seconds <= MAX_SECONDS:
        raise StudyError(f"{option} {text}: a time is needed, e.g. 50ms or 1s")
    return seconds

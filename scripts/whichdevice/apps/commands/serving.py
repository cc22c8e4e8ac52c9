"""Options and output of `ask --mode serve`: which machine answers so many requests a second in time."""

import argparse
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import get_terminal_size
from typing import TYPE_CHECKING, Any

from whichdevice.apps.commands.values import given_options, gpu_counts, prices_of, providers_of, usd
from whichdevice.base.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.apps.questions.request_log import RequestLog
    from whichdevice.apps.questions.serving import Machines, ServingQuestion
    from whichdevice.decide import Answer
    from whichdevice.decide.serving import Load, Serving
    from whichdevice.models.generators import Generator
    from whichdevice.models.loading import Model

    Predicted = Callable[[int], Sequence[Answer]]
    Served = tuple[Serving, tuple[ServingQuestion, Machines] | None]

PROMPT, ANSWER = 1000, 300  # tokens, where nobody says: a chat with some text to look at
LATENCY = "100ms"
MADE_IN, MAX_SIDE = {"image": "1min", "video": "30min"}, 8192  # of images and videos
TTFT, TPOT = "2s", "100ms"  # a person waits that long, and reads that fast
CACHE_BITS = (16, 8)
TIME = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)\s*(ms|s|min)?")
UNITS = {"ms": 1e-3, "s": 1.0, "min": 60.0}
MIN_UNIT = 20.0  # seconds from which on a time needs its unit: milliseconds are likely meant
MAX_SECONDS, MAX_TOKENS, MAX_RPS, MAX_USD = 3600.0, 10_000_000, 1e6, 1e6
# Options of other modes with their defaults: those of a training, and those of a step, which predictions have.
OF_TRAINING: dict[str, object] = {
    **dict.fromkeys(("examples", "epochs", "steps", "tokens", "batch", "only")),
    "spot": False, "largest": False,
}  # fmt: skip
OF_A_STEP: dict[str, object] = {"sequence_length": None, "precision": None, "option": []}
OF_SERVING = ("rps", "prompt", "answer", "ttft", "tpot", "weights", "cache_bits", "engine", "api_usd", "requests")


def add_serving_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of --mode serve."""
    serve = parser.add_argument_group("serving (--mode serve)")
    add = serve.add_argument
    add("--rps", type=float, metavar="N", help="requests a second; default: one user")
    add("--prompt", type=int, metavar="TOKENS", help=f"of a request; default: {PROMPT}")
    add("--answer", type=int, metavar="TOKENS", help=f"that it writes; default: {ANSWER}")
    add("--ttft", metavar="TIME", help=f"to the first token, for nine in ten requests; default: {TTFT}")
    add("--tpot", metavar="TIME", help=f"from token to token, for nine in ten requests; default: {TPOT}")
    add("--weights", metavar="FORMAT", help="bf16, fp8, int8, awq, gptq, nvfp4, mxfp4, q4_k_m, q5_k_m, q6_k, q8_0")
    add("--cache-bits", type=int, choices=CACHE_BITS, help="of keys and values in the cache; default: 16")
    add("--engine", choices=("vllm", "sglang", "trtllm", "llama.cpp"), help="default: vllm; on computers llama.cpp")
    add("--api-usd", metavar="IN,OUT", help="what an API asks for a million tokens: from which load own is cheaper")
    add("--latency", metavar="TIME", help=f"of other models: to the answer, for nine in ten; default: {LATENCY}")
    add("--providers", metavar="NAMES", help="that you rent from: RunPod,Lambda; default: any")
    add("--here-usd", type=float, metavar="USD", help="an hour of this machine; default: electricity")
    add("--requests", type=Path, metavar="FILE", help="your log as the load: CSV or JSON lines: arrival,prompt,answer")


def refuse_serving_options(args: argparse.Namespace) -> None:
    """Raise StudyError on an option of serving in another mode."""
    _refuse(args, dict.fromkeys((*OF_SERVING, "latency")), "belongs to --mode serve")


def serving_question(args: argparse.Namespace) -> "ServingQuestion":
    """Return the question of a command line; raises StudyError on a value that is none of its kind."""
    from whichdevice.apps.questions.request_log import read_requests
    from whichdevice.apps.questions.serving import GPU_COUNTS, ServingQuestion, device_named
    from whichdevice.models.address import full_name
    from whichdevice.models.served import served_model, weight_format

    if args.latency is not None:
        raise StudyError("--latency: is for models that predict; a language model has --ttft and --tpot")
    _refuse(args, OF_TRAINING | OF_A_STEP, "is no part of serving; use --rps, --prompt, --answer")
    log = None if args.requests is None else read_requests(args.requests)
    counts = GPU_COUNTS if args.gpus in (None, "auto") else gpu_counts(args.gpus)
    if max(counts) > max(GPU_COUNTS):
        raise StudyError(f"--gpus {args.gpus}: a server is one machine; {', '.join(map(str, GPU_COUNTS))} are possible")
    return ServingQuestion(
        model=served_model(full_name(args.model)),
        load=load_of(args, log),
        devices=devices_of(args),
        counts=counts,
        weights=None if args.weights is None else weight_format(args.weights),
        cache_bits=args.cache_bits or 16,
        engine=args.engine,
        log=log,
        api=None if args.api_usd is None else api_of(args.api_usd),
        prices=prices_of(args.price, device_named),
        providers=providers_of(args.providers),
        here=not args.no_measuring,
        here_usd=usd("--here-usd", args.here_usd),
    )


def _refuse(args: argparse.Namespace, defaults: Mapping[str, object], why: str) -> None:
    """Raise StudyError on an option that is given and means nothing here."""
    for name, default in defaults.items():
        if getattr(args, name) != default:
            raise StudyError(f"--{name.replace('_', '-')}: {why}")


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


def _predictions(args: argparse.Namespace, predicted: "Predicted") -> "Serving":
    """The answer for a model that predicts, from its steps at several batches."""
    from whichdevice.apps.questions.predictions import TIMED_BATCHES, serve_predictions
    from whichdevice.decide.serving import Load
    from whichdevice.models.loading import Model

    refused = dict.fromkeys(name for name in OF_SERVING if name != "rps") | {"longest": False}
    _refuse(args, refused, f"is for language models; {args.model} takes --rps and --latency")
    _refuse(args, OF_TRAINING, "is no part of serving; use --rps and --latency")
    seconds = seconds_of("--latency", args.latency or LATENCY)
    load, model = Load(rps_of(args), 0, 1, seconds, seconds, "request"), Model.read(args.model)
    answers = [answer for batch in TIMED_BATCHES for answer in predicted(batch)]
    return serve_predictions(str(model), load, answers, {} if args.no_measuring else _exported(args, model))


def _exported(args: argparse.Namespace, model: "Model") -> Mapping[int, float]:
    """Seconds of a call of the exported model here by its batch; none where it cannot be exported, which is said."""
    from whichdevice.apps.questions.predictions import TIMED_BATCHES
    from whichdevice.base.terminal import LiveLine
    from whichdevice.measure.trying.exported import can_export, exported_steps

    if not can_export(model):
        return {}
    phases = ["starting"]
    try:
        with LiveLine(lambda: f"{model} on ONNX Runtime here: {phases[-1]}"):
            return exported_steps(model, TIMED_BATCHES, given_options(args.option), args.sequence_length, phases.append)
    except StudyError as error:
        print(f"{model}: not measured on ONNX Runtime: {error}", file=sys.stderr)
        return {}


def _generated(args: argparse.Namespace, model: "Generator") -> "Serving":
    """The answer for a model that makes images or videos."""
    from whichdevice.apps.questions.generation import GenerationQuestion, ask_generation
    from whichdevice.apps.questions.serving import device_named
    from whichdevice.decide.serving import Load

    refused = dict.fromkeys(name for name in OF_SERVING if name != "rps") | {"longest": False}
    _refuse(args, refused, f"is for language models; {args.model} takes --rps, --latency and --option")
    _refuse(args, OF_TRAINING | OF_A_STEP | {"option": args.option}, "is no part of making images; use --option")
    options = given_options(args.option)
    if wrong := [name for name in options if name not in ("steps", "size", "height", "width")]:
        raise StudyError(f"--option {wrong[0]}: there are steps, size, height and width")
    if wrong := [name for name, value in options.items() if not isinstance(value, int) or not 0 < value <= MAX_SIDE]:
        raise StudyError(f"--option {wrong[0]}={options[wrong[0]]}: a whole number from 1 to {MAX_SIDE:,} is needed")
    size = options.get("size")
    sides = options.get("height", size or model.height), options.get("width", size or model.width)
    seconds = seconds_of("--latency", args.latency or MADE_IN[model.makes])
    load = Load(rps_of(args), 0, 1, seconds, seconds, model.makes)
    return ask_generation(
        GenerationQuestion(
            model, load, devices_of(args), options.get("steps"), sides,
            prices_of(args.price, device_named), providers_of(args.providers),
        )
    )  # fmt: skip


def devices_of(args: argparse.Namespace) -> tuple[str, ...] | None:
    """Return the names of --devices."""
    return None if args.devices is None else tuple(filter(None, map(str.strip, args.devices.split(","))))


def load_of(args: argparse.Namespace, log: "RequestLog | None") -> "Load":
    """Return the load of a command line, or of a log with its mean lengths."""
    from whichdevice.decide.serving import Load

    if log is not None:
        for name in ("rps", "prompt", "answer"):
            if getattr(args, name) is not None:
                raise StudyError(f"--{name}: --requests says it; leave one of the two out")
    rps = rps_of(args) if log is None else log.rps
    prompts: Sequence[int] = (args.prompt or PROMPT,) if log is None else log.prompts
    answers: Sequence[int] = (args.answer or ANSWER,) if log is None else log.answers
    for name in ("prompt", "answer"):
        value = getattr(args, name)
        if value is not None and not 0 < value <= MAX_TOKENS:
            raise StudyError(f"--{name} {value}: a number of at least 1 is needed")
    return Load(
        rps, sum(prompts) / len(prompts), sum(answers) / len(answers), seconds_of("--ttft", args.ttft or TTFT),
        seconds_of("--tpot", args.tpot or TPOT),
    )  # fmt: skip


def rps_of(args: argparse.Namespace) -> float | None:
    """Return the requests a second of --rps; raises StudyError."""
    rps: float | None = args.rps
    if rps is not None and not 0 < rps < MAX_RPS:
        raise StudyError(f"--rps {rps:g}: a number above 0 is needed")
    return rps


def seconds_of(option: str, text: str) -> float:
    """Return the seconds of a time such as 50ms or 1s; raises StudyError."""
    time = TIME.fullmatch(text.strip())
    seconds = float(time[1]) * UNITS[time[2] or "s"] if time else 0.0
    if time and not time[2] and seconds >= MIN_UNIT:
        raise StudyError(f"{option} {text}: without a unit these are seconds; write {text}ms or {text}s")
    if not 0 < seconds <= MAX_SECONDS:
        raise StudyError(f"{option} {text}: a time is needed, e.g. 50ms or 1s")
    return seconds


def api_of(text: str) -> tuple[float, float]:
    """Return USD a million tokens in and out; raises StudyError."""
    parts = text.split(",")
    try:
        first, last = (float(part) for part in parts)
    except ValueError:
        first = last = -1.0
    if not (0 <= first < MAX_USD and 0 < last < MAX_USD):
        raise StudyError(f"--api-usd {text}: two prices of a million tokens are needed, in and out: --api-usd 0.15,0.6")
    return first, last


def served(args: argparse.Namespace, predicted: "Predicted") -> "Served":
    """Return the answer for a language model, a model that makes images or videos, or one that predicts.

    `predicted` returns the answers of --mode predict at a batch.
    """
    from whichdevice.apps.questions.serving import ask_serving, machines
    from whichdevice.models.address import full_name
    from whichdevice.models.generators import generator

    if (makes := generator(full_name(args.model))) is not None:
        return _generated(args, makes), None
    if language_model(args.model) is None:
        return _predictions(args, predicted), None
    question = serving_question(args)
    known = machines(question)
    return ask_serving(question, known), (question, known)


def run_serving(args: argparse.Namespace, predicted: "Predicted") -> int:
    """Print the answer, or write it as JSON or a page; raises StudyError where nothing holds the targets."""
    from whichdevice.decide import serving_words as words

    answer, asked = served(args, predicted)
    if answer.pick is None:
        raise StudyError(words.nothing(answer))
    if args.html is not None:
        from whichdevice.study.report.page import render
        from whichdevice.study.report.serving_pictures import pictures

        live = None if asked is None else _live(answer, *asked, args.all)
        render("ask.html", args.html, answers=[words.page_parts(answer, pictures(answer), args.all, live)])
    if args.json:
        print(words.as_json(answer))
        return 0
    print("\n".join(words.text(answer, get_terminal_size((100, 40)).columns, args.all, args.longest)))
    return 0


def _live(answer: "Serving", question: "ServingQuestion", known: "Machines", everything: bool) -> dict[str, Any] | None:
    """Return the facts of a page whose reader types another load; None where the load is a log."""
    from whichdevice.apps.questions.serving import over_lengths
    from whichdevice.study.report.serving_live import lengths, live_data

    if question.log is not None:
        return None
    return live_data(answer, over_lengths(question, known, lengths(answer)), everything)

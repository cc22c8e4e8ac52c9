"""Forecast a model's step time, memory and throughput on GPUs and TPUs that are not here.

examples:
  whichdevice forecast resnet50 --devices T4 --devices "A100 SXM 80GB" --batch 64
  whichdevice forecast decoder --mode generate --precision mixed
"""

import argparse
import json
import sys
from typing import Any

from whichdevice.config.load import parse_yaml
from whichdevice.config.model import FORECAST_DEVICES
from whichdevice.errors import StudyError
from whichdevice.numbers import seconds
from whichdevice.records.products import GENERATING

MODES = ("train", "predict", "generate")
MODE_HELP = "a training step, a forward pass, or tokens generated after a prompt of half the sequence length"
STEPS = {
    "train": "one training step of {:,}",
    "predict": "one forward pass of {:,}",
    "prefill": "the prompts of {:,} sequences (prefill)",
    "decode": "one token of each of {:,} sequences (decode)",
}
PROGRAMS = {"generate": GENERATING}  # of a mode that has several


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("workload", help="path to a .py file, or a built-in workload, e.g. resnet50")
    parser.add_argument(
        "--device",
        "--devices",
        action="append",
        metavar="NAME",
        help='e.g. "V100 SXM2", T4 or v5e-2x2; may be given again; `all`: every one; default: ten common ones',
    )
    parser.add_argument(
        "--precision",
        default="float32",
        choices=("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16", "mixed"),
        help="number format; mixed: bfloat16 where the device has it, else float16",
    )
    parser.add_argument("--batch", type=int, help="examples per step over all devices; default: the workload's own")
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="as the config's `options`; may be repeated"
    )
    parser.add_argument("--mode", choices=MODES, default="train", help=MODE_HELP)
    parser.add_argument("--sequence-length", type=int, help="steps per sequence, where the workload has sequences")
    parser.add_argument("--gpus", type=int, help="GPUs of one machine (1, 2, 4, 8), or devices of a TPU slice")
    parser.add_argument("--largest", action="store_true", help="also find the largest batch that fits; takes longer")
    parser.add_argument("--timeout", type=float, default=900.0, help="seconds after which a compile is given up")
    parser.add_argument("--json", action="store_true", help="one object for one device, a list for several")


def run(args: argparse.Namespace) -> int:
    """Print a row for each device; 1 where not one has a forecast."""
    from whichdevice.forecast.answer import answer
    from whichdevice.forecast.targets import all_targets, find_target, other_targets, software_of
    from whichdevice.forecast.xla.compile import compile_programs
    from whichdevice.models.loading import read_address, workload_class
    from whichdevice.records.products import ProgramRequest

    chosen = workload_class(args.workload)
    batch = chosen.recipe.batch_size if args.batch is None else args.batch
    for name, number in (("--batch", batch), ("--sequence-length", args.sequence_length), ("--gpus", args.gpus)):
        if number is not None and number < 1:
            raise StudyError(f"{name} {number}: a number of at least 1 is needed")
    check_mode(args.workload, args.mode)
    names = args.device or list(FORECAST_DEVICES)
    if any(name.casefold() == "all" for name in names):
        names = [target.device for target in all_targets(args.gpus or 1, software_of(args.workload))]
    options = given_options(args.option)
    rows: list[dict[str, Any]] = []
    requests: list[ProgramRequest] = []
    for name in names:
        try:
            target = find_target(name, args.gpus)
        except StudyError as error:
            rows.append({"device": name, "status": "unknown_device", "reason": str(error), "step_seconds": None})
            continue
        if others := other_targets(name):
            print(f"{name}: the {target.device} is taken; also: {', '.join(others)}", file=sys.stderr)
        requests += [
            ProgramRequest(
                device=target.device,
                devices=target.devices,
                workload=read_address(args.workload).name,
                module=args.workload,
                precision=target.mixed if args.precision == "mixed" else args.precision,
                batch_size=batch,
                mode=mode,
                sequence_length=args.sequence_length,
                options=options,
                largest_batch=args.largest,
                timeout=args.timeout,
            )
            for mode in PROGRAMS.get(args.mode, (args.mode,))
        ]

    def report(number: int, record: Any) -> None:
        if len(requests) > 1:
            print(f"{record.asked.path}: {record.status}", file=sys.stderr)

    found = rows + [answer(record) for record in compile_programs(requests, on_record=report)]
    if args.json:
        print(json.dumps(found[0] if len(found) == 1 else found, indent=1))
    else:
        for line in forecast_lines(args.workload, found):
            print(line)
    return 0 if any(row["step_seconds"] is not None for row in found) else 1


def check_mode(module: str, mode: str) -> None:
    """Raise StudyError where a workload has no such mode, as far as that shows without its model."""
    from whichdevice.models.loading import workload_class
    from whichdevice.workloads.base import NO_GENERATION, TrainingWorkload

    chosen = workload_class(module)
    if mode != "train" and not issubclass(chosen, TrainingWorkload):
        raise StudyError(f"--mode {mode}: {module} is a single operation")
    if mode == "generate" and issubclass(chosen, TrainingWorkload) and not chosen.generates:
        raise StudyError(f"{module}: {NO_GENERATION}")


def given_options(given: list[str]) -> dict[str, Any]:
    """KEY=VALUE of the command line as the config's `options`; raises StudyError."""
    options = {}
    for each in given:
        key, equals, text = each.partition("=")
        if not equals or not key:
            raise StudyError(f"--option {each}: needs KEY=VALUE, e.g. layers=2")
        options[key] = parse_yaml(text, f"--option {each}")
    return options


def forecast_lines(workload: str, rows: list[dict[str, Any]]) -> list[str]:
    """The rows for a person, and what they mean."""
    known = [row for row in rows if row["step_seconds"] is not None]
    lines = []
    for mode in dict.fromkeys(row["mode"] for row in known):
        own = [row for row in known if row["mode"] == mode]
        lines += [
            f"{workload}: {STEPS[mode].format(own[0]['batch'])}. Nobody ran it: times are forecasts from the compiled "
            "program, and 80 % of true times should be in the interval.",
            f"{'device':26} {'precision':15} {'step':>10} {'80 % interval':>20} {'throughput':>18} {'memory, GB':>18}",
            *map(_line, own),
        ]
    reasons = (
        row["reason"] if row["status"] == "unknown_device" else f"{row['device']}: {row['reason']}"
        for row in rows
        if row["reason"]
    )
    lines += dict.fromkeys(reasons)
    notes: dict[str, list[str]] = {}
    for row in known:
        if row["case"]["note"]:
            notes.setdefault(row["case"]["note"], []).append(row["device"])
    return lines + [f"{', '.join(dict.fromkeys(devices))}: {note}" for note, devices in notes.items()]


def _line(row: dict[str, Any]) -> str:
    name = row["device"] if row["gpus"] == 1 else f"{row['gpus']} × {row['device']}"
    name = f"{row['device']} {row['slice']}" if row["slice"] else name
    interval = f"{seconds(row['low_seconds'])} to {seconds(row['high_seconds'])}"
    rate = f"{row['throughput']:,.4g} {row['unit']}/s" if row["throughput"] else ""
    if row["fits"] is False:
        interval = rate = ""
    least = "> " if row["memory_is_lower_bound"] else ""
    memory = f"{least}{row['memory_bytes'] / 1e9:.3g} of {row['memory_available_bytes'] / 1e9:.3g}"
    fits = "  does not fit" if row["fits"] is False else ""
    if fits and not row["largest_batch"]:
        fits += ": try --largest"
    if row["largest_batch"]:
        fits += f"  largest batch {row['largest_batch']:,}"
    step = "" if row["fits"] is False else seconds(row["step_seconds"])
    return f"{name:26} {row['precision']:15} {step:>10} {interval:>20} {rate:>18} {memory:>18}{fits}"

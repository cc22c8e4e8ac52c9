"""Rent a machine with a GPU or TPU: one SkyPilot task measures the study there, and its records come back.

The task is shown, with its price, before anything is rented; the machine is taken down whatever happens.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from whichdevice.apps.commands.ask import add_step_arguments, looked_at
from whichdevice.apps.commands.plan import add_arguments as add_config
from whichdevice.apps.commands.plan import merged
from whichdevice.apps.commands.values import at_least_one, given_options
from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.base.sheets.tpus import CHIPS
from whichdevice.base.terminal import agree
from whichdevice.decide.prices import hour_of
from whichdevice.forecast.targets import GPU_COUNTS, Target, find_target, usual_precision
from whichdevice.models.framework import KERAS
from whichdevice.study.config.load import check_yaml
from whichdevice.study.planning.study_plan import StudyPlan, plan_study

ENVIRONMENTS = {"tpu": {"tensorflow": "tpu", "jax": "jax-tpu"}, "gpu": dict(tensorflow="gpu", jax="gpu", torch="torch")}
ON_THE_MACHINE = "envs/rented.sh"  # of the checkout: it installs and measures there
NOT_SENT = ("run_on", "records", "rename", "retry")  # keys that concern this machine alone
COPY = ["rsync", "-rmtz", "-e", "ssh -o BatchMode=yes -o ConnectTimeout=30", "--include=*/"]
COPY += ["--include=record.json", "--include=config.yaml", "--include=keys.json", "--exclude=*"]
RENTED = Path("results/rented")  # where they are copied to
LEAST_HOURS = 0.3  # to start, install and measure for some minutes
EVERY, PATIENCE = 180.0, 900.0  # seconds between two copies of the records; that one copy or taking down may last
TRIES, PAUSE = 5, 20.0  # for the last copy and taking down; seconds between two tries of the latter
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    add = parser.add_argument
    add("model", nargs="?", metavar="FILE", help="measure this model on the device; else the study's runs of its kind")
    add("--on", metavar="DEVICE", help='e.g. "RTX 4090" or v5e-2x2; as many as the study\'s device has replicas')
    add("--max-usd", type=float, metavar="USD", help="what it may cost at most; ends the machine earlier")
    add("--infra", help="cloud or cloud/region, e.g. gcp/us-central1 (default for a TPU: gcp)")
    add("--spot", action="store_true", help="cheaper, and taken away at any moment")
    add("--max-hours", type=int, default=4, metavar="N", help="its longest life; default: 4")
    add_step_arguments(parser)
    add_config(parser)
    add("--dry-run", action="store_true", help="print SkyPilot's task, and the price; rent nothing")
    add("--yes", action="store_true", help="do not ask")


def run(args: argparse.Namespace) -> int:
    """Print task and price, ask, rent, measure, bring back, take down; the exit status."""
    if not Path(ON_THE_MACHINE).is_file():
        raise StudyError("rent: a rented machine gets this folder, which is no checkout of whichdevice; rent from one")
    if not args.on:
        raise StudyError('rent: on which device? --on "RTX 4090"')
    values = merged(model_study(args) if args.model else check_yaml(args.configfile), args.config)
    plan = plan_study({**values, "run_on": "all"})
    target = machine_for(plan, args.on)
    cost = set_price(args, target)
    task = json.dumps(make_task(plan, values, target, args), indent=1) + "\n"  # JSON is YAML
    machine_words = f"{'spot ' * args.spot}machine with {target.label} for {len(plan.wanted(target.kind))} runs"
    _say(f"One {machine_words} of study {plan.study.study}; it ends after {args.max_hours:.3g} h.\nPrice: {cost}.")
    print(task, end="", flush=True)
    if args.dry_run:
        return 0
    sky = shutil.which("sky") or shutil.which("sky", path=".venv-sky/bin")
    if sky is None or shutil.which("rsync") is None:
        raise StudyError("rent: needs rsync and SkyPilot: sh envs/extra.sh sky; then .venv-sky/bin/sky check")
    agree("Rent it?", args.yes)
    folder = RENTED / plan.study.study
    write_atomically(task, folder / "task.yaml")
    name = re.sub(r"[^a-z0-9]+", "-", f"whichdevice-{plan.study.study}".lower())[:30].strip("-")
    try:
        rent(sky, f"{name}-{os.urandom(3).hex()}", plan.call.root, folder)
    finally:
        if (folder / "config.yaml").is_file():
            config = folder / "config.yaml" if args.model else args.configfile
            _say(f"In a report: whichdevice study report --configfile {config} --records {folder}")
    return 0


def model_study(args: argparse.Namespace) -> dict[str, Any]:
    """Return the config that measures one model's step on a rented device, unless asked in the usual number format."""
    from whichdevice.apps.questions.question import Question, check_mode, config_name, script_precision
    from whichdevice.models.loading import Model

    target, model = find_target(args.on), looked_at(Model.read(args.model), args.passed_on)
    batch, length = at_least_one("--batch", args.batch), at_least_one("--sequence-length", args.sequence_length)
    question = Question(model, mode=args.mode, batch=batch, sequence_length=length, options=given_options(args.option))
    check_mode(model, args.mode)
    precision = usual_precision(target, args.precision or script_precision(model))
    name = config_name(model)
    workload = {
        "module": model.text, "batch_size": question.batch_size(), "mode": question.mode,
        "options": dict(question.options), "sequence_length": question.length, "precision": [precision],
        **({"backend": "jax"} if question.mode == "generate" and model.framework == KERAS else {}),
    }  # fmt: skip
    return {
        "study": f"rent_{name}",
        "devices": {target.kind: {"kind": target.kind, "replicas": target.devices, "hardware": target.device}},
        "train": {"epochs": 0},
        "data": {"source": "standin"},
        "forecast": {"devices": []},
        "workloads": {name: workload},
    }


def machine_for(plan: StudyPlan, name: str) -> Target:
    """The device, as many as the study asks for; raises StudyError where it has no such runs, or nobody rents so."""
    kind = find_target(name).kind
    runs = [run for run in plan.wanted(kind) if run.cell.backend in ENVIRONMENTS[kind]]
    if not runs:
        raise StudyError(f"rent: the study has no runs that a {kind} can measure; add a device of kind {kind}")
    target = find_target(name, max(plan.study.devices[run.cell.device].replicas for run in runs))
    if target.kind == "gpu" and not target.row.skypilot:
        raise StudyError(f"rent: SkyPilot has no name for a {target.device}: rent it yourself, or take another --on")
    chip = CHIPS.get(target.device)
    if target.chips not in (chip.machines if chip else GPU_COUNTS) or (chip and not chip.runtime):
        raise StudyError(f"rent: {target.label} are no single machine; take another --on, or fewer replicas")
    return target


def set_price(args: argparse.Namespace, target: Target) -> str:
    """The price by the sheet, in words; shortens the machine's life to what `--max-usd` pays for.

    Raises StudyError where that is too short to measure, or no price is known.
    """
    at_least_one("--max-hours", args.max_hours)
    markets: list[Literal["spot", "on_demand"]] = ["spot", "on_demand"] if args.spot else ["on_demand"]
    prices = [hour_of(target.row, target.devices, market).price for market in markets]
    price = next((one for one in prices if one.lowest is not None), None)
    if price is None or price.lowest is None:
        if args.max_usd is not None:
            raise StudyError("rent: --max-usd needs a price, and none is known: use --max-hours")
        return f"unknown (config/prices.csv has none for {target.device})"
    usd = price.lowest
    if args.max_usd is not None:
        hours = args.max_usd / usd
        if hours < LEAST_HOURS:
            least = f"{usd * LEAST_HOURS:.2f} USD are the least"
            raise StudyError(f"rent: --max-usd {args.max_usd:g} is {60 * hours:.0f} min; {least}")
        args.max_hours = min(args.max_hours, hours)
    cost = f"about {usd:.2f} USD an hour, at most {usd * args.max_hours:.2f} USD in all"
    source = f"{price.kind.replace('_', ' ')}, config/prices.csv: {price.source}"
    return f"{cost} ({source}; an estimate, disk and traffic come on top)"


def make_task(plan: StudyPlan, values: dict[str, Any], target: Target, args: argparse.Namespace) -> dict[str, Any]:
    """SkyPilot's task for the study's runs on the device; raises StudyError on what would only cost money."""
    from whichdevice.models.script.look import trains
    from whichdevice.study.cells import model_of

    study, of_backend = plan.study, ENVIRONMENTS[target.kind]
    backends = [run.cell.backend for run in plan.wanted(target.kind)]
    environments = dict.fromkeys(of_backend[backend] for backend in backends if backend in of_backend)
    if "files" in study.data.sources.values() and plan.call.storage.bucket is None:
        raise StudyError("rent: a dataset is read from files of this machine: set storage.bucket, or data.source: tfds")
    data = {**(values.get("data") or {}), "sources": dict(study.data.sources), "dir": None}
    sent = {**{key: value for key, value in values.items() if key not in NOT_SENT}, "data": data}
    # A longest life, which holds where this process is killed; jobs and logins do not lengthen it. `sky launch --down`
    # would replace it by an end right after the study, before its records are copied. It begins after `setup`, so
    # `run` installs.
    life = {"idle_minutes": round(args.max_hours * 60), "down": True, "wait_for": "none"}
    resources = {"infra": args.infra, "use_spot": args.spot, "autostop": life}
    if target.slice is None:
        resources["accelerators"] = f"{target.row.skypilot}:{target.devices}"
    else:
        resources["infra"] = args.infra or "gcp"
        resources["accelerators"] = f"tpu-{target.slice.accelerator}"
        resources["accelerator_args"] = {"runtime_version": CHIPS[target.device].runtime}
    send = f'printf %s {shlex.quote(json.dumps(sent))} >"$HOME/study.json"'
    models = [model_of(study, name) for name in study.workloads]
    looks = [f"SCRIPT={shlex.quote(model.text)} " for model in models if trains(model.address)]  # there it runs again
    script = f"{send}\n{''.join(looks[:1])}sh {ON_THE_MACHINE} {target.kind} {' '.join(environments)}"
    return {"workdir": ".", "resources": {key: value for key, value in resources.items() if value}, "run": script}


def rent(sky: str, name: str, root: str, folder: Path) -> None:
    """Run the task of `folder`, copy its records there and, whatever happens, take the machine down.

    The first signal ends the measuring, later ones are ignored. Raises StudyError on what went wrong.
    """
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
            signal.signal(number, _interrupt)
    copy = [*COPY, f"{name}:sky_workdir/{root}/", f"{folder}/"]
    try:
        try:
            _launch(sky, name, folder, copy)
        finally:
            _ignore_signals()
            copied = any(_printed(*copy) is not None for _ in range(TRIES))
    finally:
        _ignore_signals()
        _take_down(sky, name)
    if not copied:
        raise StudyError(f"rent: the last records could not be copied; what came earlier is in {folder}")


def _interrupt(number: int, frame: Any) -> None:
    _ignore_signals()
    _say("Ending: records come back, then the machine goes down.")
    raise KeyboardInterrupt


def _ignore_signals() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


def _say(text: str) -> None:
    """Print; a terminal that is gone must not keep a machine from being taken down."""
    with suppress(OSError, ValueError, RuntimeError):  # the last: within another print, as a signal came
        print(text, file=sys.stderr, flush=True)


def _launch(sky: str, name: str, folder: Path, copy: list[str]) -> None:
    """Launch the machine and follow the study to its end; its records are copied meanwhile."""
    command = [sky, "launch", "-y", "-c", name, str(folder / "task.yaml")]
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, start_new_session=True)
    try:
        while process.poll() is None:
            try:
                process.wait(EVERY)
            except subprocess.TimeoutExpired:
                _printed(*copy)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        raise StudyError("rent: the machine could not be launched, or the study failed on it; see above")


def _take_down(sky: str, name: str) -> None:
    """End the machine and make sure: `sky down` exits 0 where it fails, and where the launch is still queued."""
    for attempt in range(TRIES):
        time.sleep(PAUSE if attempt else 0)
        _say(f"Taking {name} down ...")
        for request in _json(_printed(sky, "api", "status", "--cluster", name, "-o", "json")) or []:
            if "launch" in request["name"]:
                _printed(sky, "api", "cancel", request["request_id"])
        _printed(sky, "down", "-y", name)
        left = _json(_printed(sky, "status", "-o", "json"))
        if left is not None and name not in [cluster["name"] for cluster in left]:
            return _say("The machine is down.")
    raise StudyError(f"rent: {name} COULD NOT BE TAKEN DOWN and costs money; run: {sky} down -y {name}")


def _printed(*command: str) -> bytes | None:
    """Return what a command prints; None where it fails. In its own session a terminal's signals do not reach it."""
    try:
        done = subprocess.run(
            command, stdin=subprocess.DEVNULL, capture_output=True, timeout=PATIENCE, start_new_session=True
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout if done.returncode == 0 else None


def _json(printed: bytes | None) -> Any:
    """The JSON in what a command printed, after what it may say before; None without one."""
    start = re.search(rb"^[\[{]", printed or b"", re.MULTILINE)
    with suppress(ValueError):
        return json.loads(printed[start.start() :]) if printed and start else None

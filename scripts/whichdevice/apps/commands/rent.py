"""Rent a machine with a GPU or TPU by SkyPilot, measure the study there, bring its records back and end the machine."""

import argparse
import json
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

from whichdevice.apps.commands.ask import add_step_arguments, looked_at
from whichdevice.apps.commands.plan import add_arguments as add_config
from whichdevice.apps.commands.plan import merged
from whichdevice.apps.commands.values import at_least_one, given_options
from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.base.sheets.tpus import CHIPS, TOPOLOGIES
from whichdevice.base.terminal import agree
from whichdevice.study.config.load import check_yaml
from whichdevice.study.planning.study_plan import plan_study
from whichdevice.study.records.store import read_record
from whichdevice.study.remote.merge import merge_folder

# TPUs of one machine: the sheet's row, chips, replicas that a framework finds, runtime.
TPUS = {
    f"tpu-{topology.accelerator}": (chip.device, topology.chips, topology.devices, chip.runtime)
    for topology in TOPOLOGIES.values()
    for chip in [CHIPS[topology.chip]]
    if chip.runtime and topology.chips in chip.machines
}
ENVIRONMENTS = {"tpu": {"tensorflow": "tpu", "jax": "jax-tpu"}, "gpu": dict(tensorflow="gpu", jax="gpu", torch="torch")}
ON_THE_MACHINE = "envs/rented.sh"  # of the checkout: it installs and measures there
NOT_SENT = ("run_on", "against", "retry")  # keys that concern this machine alone
COPY = ["rsync", "-rmtz", "-e", "ssh -o BatchMode=yes -o ConnectTimeout=30", "--include=/results/"]
LEAST_HOURS = 0.3  # START_UP_MINUTES and some minutes of measuring
EVERY, PATIENCE = 180.0, 900.0  # seconds between two copies of the records; that one copy or taking down may last
TRIES, RECONNECTS, PAUSE = 5, 100, 20.0  # for the last copy and taking down; for the log; seconds between two tries


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "model", nargs="?", metavar="FILE", help="measure this model on the device of --on; else a study"
    )
    parser.add_argument("--on", metavar="DEVICE", help='e.g. "RTX 4090", in place of --device and --accelerator')
    parser.add_argument(
        "--max-usd", type=float, metavar="USD", help="what it may cost at most; ends the machine earlier"
    )
    parser.add_argument("--device", choices=("gpu", "tpu"), help="which of the study's devices")
    parser.add_argument("--accelerator", help="e.g. L4:1, A100:8, tpu-v6e-1 (default: L4:1 or tpu-v2-8)")
    parser.add_argument("--infra", help="cloud or cloud/region, e.g. gcp/us-central1 (default for a TPU: gcp)")
    parser.add_argument("--spot", action="store_true", help="cheaper, and taken away at any moment")
    parser.add_argument(
        "--max-hours", type=_hours, default=4, metavar="N", help="its longest life, 1 to 72; default: 4"
    )
    add_step_arguments(parser)
    add_config(parser)
    parser.add_argument("--dry-run", action="store_true", help="print SkyPilot's task, and the price; rent nothing")
    parser.add_argument("--yes", action="store_true", help="do not ask")


def _hours(text: str) -> int:
    if not text.isdecimal() or not 1 <= int(text) <= 72:
        raise argparse.ArgumentTypeError("whole hours, 1 to 72")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Print the price, ask, rent, measure, bring back, take down; the exit status."""
    if not Path(ON_THE_MACHINE).is_file():
        raise StudyError("rent: a rented machine gets this folder, which is no checkout of whichdevice; rent from one")
    values = merged(model_study(args) if args.model else check_yaml(args.configfile), args.config)
    if args.on:
        args.device, args.accelerator = accelerator_of(args.on)
    if args.device is None:
        raise StudyError('rent: name the device: --on "RTX 4090", or --device gpu or tpu')
    plan = plan_study({**values, "run_on": "all"})
    args.accelerator = args.accelerator or {"gpu": "L4:1", "tpu": "tpu-v2-8"}[args.device]
    args.infra = args.infra or ("gcp" if args.device == "tpu" else None)
    sky = shutil.which("sky") or shutil.which("sky", path=".venv-sky/bin")
    usd, source = price(sky, args)
    args.max_hours = within_budget(args.max_hours, usd, args.max_usd)
    task = json.dumps(make_task(plan, values, args), indent=1) + "\n"  # JSON is YAML
    cost = f"about {usd:.2f} USD an hour, at most {usd * args.max_hours:.2f} USD in all" if usd else "unknown"
    what = f"{'spot ' * args.spot}machine with {args.accelerator} for {len(plan.wanted(args.device))} runs"
    print(f"One {what} of study {plan.study.study}; it ends after {args.max_hours:.3g} h.", file=sys.stderr)
    print(f"Price: {cost} ({source}; an estimate, disk and traffic come on top).", file=sys.stderr, flush=True)
    if args.dry_run:
        print(task, end="")
        return 0
    if sky is None or shutil.which("rsync") is None:
        raise StudyError("rent: needs rsync and SkyPilot: sh envs/extra.sh sky; then .venv-sky/bin/sky check")
    agree("Rent it?", args.yes)
    folder = Path(tempfile.mkdtemp(prefix="whichdevice-rent-"))
    (folder / "task.yaml").write_text(task, encoding="utf-8")
    name = re.sub(r"[^a-z0-9]+", "-", f"whichdevice-{plan.study.study}".lower())[:30].strip("-")
    status = Rental(sky, f"{name}-{os.urandom(3).hex()}", plan.call, folder).rent()
    shutil.rmtree(folder)
    return status


def model_study(args: argparse.Namespace) -> dict[str, Any]:
    """Return the config that measures one model's step on a rented device, unless asked in the usual number format."""
    from whichdevice.apps.questions.one_model import Question, check_mode, config_name, script_precision, step_settings
    from whichdevice.forecast.targets import find_target
    from whichdevice.models.loading import Model
    from whichdevice.study.programs import usual_precision

    if not args.on:
        raise StudyError(f'rent: {args.model} on which device? --on "RTX 4090"')
    target = find_target(args.on)
    question = Question(
        model=looked_at(Model.read(args.model), args.passed_on),
        mode=args.mode,
        batch=at_least_one("--batch", args.batch),
        sequence_length=at_least_one("--sequence-length", args.sequence_length),
        options=given_options(args.option),
    )
    check_mode(question.model, question.mode)
    precision = usual_precision(target, args.precision or script_precision(question.model))
    name = config_name(question.model)
    return {
        "study": f"rent_{name}",
        "devices": {target.kind: {"kind": target.kind, "replicas": target.devices, "hardware": target.device}},
        "train": {"epochs": 0},
        "data": {"source": "standin"},
        "forecast": {"devices": []},
        "workloads": {name: step_settings(question) | {"precision": [precision]}},
    }


def accelerator_of(name: str) -> tuple[str, str]:
    """Kind of a device and SkyPilot's name for one of it; raises StudyError where SkyPilot rents none."""
    from whichdevice.forecast.targets import find_target

    target = find_target(name)
    if target.slice is not None:
        return target.kind, f"tpu-{target.slice.accelerator}"
    if not target.row.skypilot:
        raise StudyError(f"rent: SkyPilot has no name for a {target.device}: rent it yourself, or take another --on")
    return target.kind, f"{target.row.skypilot}:{target.devices}"


def within_budget(hours: float, usd: float | None, most: float | None) -> float:
    """Hours that a machine may live for at most so many USD; raises StudyError where that is too short to measure."""
    if most is None:
        return hours
    if usd is None:
        raise StudyError("rent: --max-usd needs a price, and none is known: use --max-hours")
    if most / usd < LEAST_HOURS:
        raise StudyError(
            f"rent: --max-usd {most:g} is {60 * most / usd:.0f} min; {usd * LEAST_HOURS:.2f} USD are the least"
        )
    return min(hours, most / usd)


def make_task(plan: Any, values: dict[str, Any], args: argparse.Namespace) -> dict[str, Any]:
    """SkyPilot's task for the study's runs on a kind of device; raises StudyError on what would only cost money."""
    from whichdevice.models.script.look import trains
    from whichdevice.study.study_cells import model_of

    kind, study, runs = args.device, plan.study, plan.wanted(args.device)
    environments = dict.fromkeys(name for run in runs if (name := ENVIRONMENTS[kind].get(run.cell.backend)))
    if not environments:
        raise StudyError(f"rent: the study has no runs that a {kind} can measure; add a device of kind {kind}")
    _, _, replicas, runtime = described(args.accelerator, kind)
    for device in dict.fromkeys(run.cell.device for run in runs):
        if (needed := study.devices[device].replicas) > replicas:
            raise StudyError(f"rent: devices.{device} has {needed} replicas, {args.accelerator} {replicas}: change one")
    if "files" in study.data.sources.values() and plan.call.storage.bucket is None:
        raise StudyError("rent: a dataset is read from files of this machine: set storage.bucket, or data.source: tfds")
    data = {**(values.get("data") or {}), "sources": dict(study.data.sources), "dir": None}
    sent = {**{key: value for key, value in values.items() if key not in NOT_SENT}, "data": data}
    # A longest life: jobs and logins do not lengthen it. SkyPilot sets it after `setup`, so `run` installs.
    life = {"idle_minutes": round(args.max_hours * 60), "down": True, "wait_for": "none"}
    resources = {"infra": args.infra, "accelerators": args.accelerator, "use_spot": args.spot, "autostop": life}
    resources["accelerator_args"] = runtime and {"runtime_version": runtime}
    send = f'printf %s {shlex.quote(json.dumps(sent))} >"$HOME/study.json"'
    models = [model_of(study, name) for name in study.workloads]
    looks = [f"SCRIPT={shlex.quote(model.text)} " for model in models if trains(model.address)]  # there it runs again
    script = f"{send}\n{''.join(looks[:1])}sh {ON_THE_MACHINE} {kind} {' '.join(environments)}"
    return {"workdir": ".", "resources": {key: value for key, value in resources.items() if value}, "run": script}


def described(accelerator: str, kind: str) -> tuple[str, int, int, str | None]:
    """Row of the hardware sheet, chips, replicas and runtime of an accelerator; raises StudyError on another kind."""
    if kind == "tpu" and accelerator in TPUS:
        return TPUS[accelerator]
    if kind == "gpu" and (match := re.fullmatch(r"((?!tpu)[A-Za-z][\w-]*)(?::([1-9]\d?))?", accelerator)):
        return match[1], int(match[2] or 1), int(match[2] or 1), None
    known = f"one of {', '.join(TPUS)}" if kind == "tpu" else "a name and a number, e.g. L4:1"
    raise StudyError(f"rent: --accelerator {accelerator} is no {kind} of one machine; it needs {known}")


def price(sky: str | None, args: argparse.Namespace) -> tuple[float | None, str]:
    """US dollars an hour of the machine, None where unknown, and the source: SkyPilot's catalogue, else the sheet."""
    row, chips, _, _ = described(args.accelerator, args.device)
    place = ["--infra", args.infra] if args.infra else []
    asked = answer(sky, "gpus", "list", args.accelerator, *place, "-o", "json") if sky else None
    offers = [offer["spot_price" if args.spot else "price"] for several in (asked or {}).values() for offer in several]
    if known := [usd for usd in offers if usd and usd > 0]:
        return min(known), f"lowest in SkyPilot's catalogue, {time.strftime('%Y-%m-%d')}"
    rows = hardware_rows()
    named = [sheet_row for sheet_row in rows.values() if row in sheet_row.names] or [
        sheet_row for sheet_row in rows.values() if row == sheet_row.skypilot
    ]
    offer = next((sheet_row.cheapest for sheet_row in named), None)
    if offer is None:
        return None, f"neither SkyPilot nor config/prices.csv has one for {row}"
    return chips * offer.usd_per_hour, f"on demand, config/prices.csv: {offer.words}"


def answer(*command: str) -> Any:
    """The JSON that a command prints, after what it may say before; None where it fails or prints none."""
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=120, process_group=0)
        start = re.search(rb"^[\[{]", done.stdout, re.MULTILINE)
        return json.loads(done.stdout[start.start() :]) if start and done.returncode == 0 else None
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def announce(line: str | bytes) -> None:
    """Print a line; a terminal that is gone must not keep a machine from being taken down."""
    try:
        print(line.decode(errors="replace").rstrip() if isinstance(line, bytes) else line, flush=True)
    except (OSError, ValueError):
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123  # for the rest of this process


class Rental:
    """One machine from launch to end. Signals are counted and raise nothing, so that none can skip the end."""

    def __init__(self, sky: str, name: str, call: Any, folder: Path) -> None:
        self.sky, self.name, self.call, self.folder = sky, name, call, folder
        self.signals, self.up, self.due, self.problems = 0, False, math.inf, list[str]()  # due: the next copy

    def rent(self) -> int:
        """Launch, measure, bring back and, whatever happens, take down; raises StudyError on what went wrong."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # as under nohup
                signal.signal(number, self.note)
        for step in (self.measure, self.bring_last, self.take_down):
            try:
                step()
            except KeyboardInterrupt:
                announce("Stopped.")
            except Exception as error:  # whatever it is, the next step comes
                self.problems.append(str(error))
        if self.problems:
            raise StudyError(f"rent: {'; '.join(self.problems)}. What was copied is in {self.folder}")
        return 130 if self.signals else 0

    def note(self, number: int, frame: Any) -> None:
        """Count a signal."""
        self.signals += 1
        with suppress(OSError):  # not print: the signal may have come in the middle of one
            os.write(2, b"Ending: records come back, then the machine goes down. Once more gives the records up.\n")

    def do(self, *command: str, after: float = 0, patience: float = math.inf) -> int:
        """Run a command, print its output, return its exit status; more than `after` signals: KeyboardInterrupt."""
        none, pipe = subprocess.DEVNULL, subprocess.PIPE  # a new session, as a terminal's signals are for us alone
        process = subprocess.Popen(command, stdin=none, stdout=pipe, stderr=subprocess.STDOUT, start_new_session=True)
        (reader := threading.Thread(target=lambda: deque(map(announce, process.stdout or ()), 0), daemon=True)).start()
        end = time.monotonic() + patience
        try:
            while process.poll() is None and self.signals <= after and time.monotonic() < end:
                if time.monotonic() > self.due:
                    wrong, self.due = self.bring(after=0), time.monotonic() + EVERY
                    announce(f"{wrong}; trying again later." if wrong else "The study goes on.")
                time.sleep(0.05)
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
            reader.join(5)
        if self.signals > after:
            raise KeyboardInterrupt
        return process.wait()

    def measure(self) -> None:
        """Launch and follow the log to the end of the study; a lost connection is made again."""
        if self.do(self.sky, "launch", "-y", "-d", "-c", self.name, str(self.folder / "task.yaml")):
            raise StudyError("the machine could not be launched, see above")
        self.up, self.due = True, time.monotonic() + EVERY
        for attempt in range(RECONNECTS):
            self.do(self.sky, "logs", self.name, *(["--tail", "20"] if attempt else []))
            status = self.do(self.sky, "logs", self.name, "--status")  # the log may end before the study does
            if status == 0:
                return
            if status in (100, 103):  # failed, cancelled; others: it goes on, or no answer
                raise StudyError("the study failed on the machine, see above")
            self.do("sleep", str(PAUSE))
        raise StudyError("the connection to the machine was lost")

    def bring_last(self) -> None:
        """Bring records back at the end; the second signal gives them up."""
        for left in range(TRIES if self.up else 0, 0, -1):
            if (wrong := self.bring(after=1)) is None:
                return
            if left == 1:
                raise StudyError(wrong)
            self.do("sleep", str(PAUSE), after=1)

    def bring(self, after: int) -> str | None:
        """Copy the records and merge what came; what went wrong, None if nothing."""
        root, self.due = self.call.root, math.inf
        only = [f"--include=/{root}/", f"--include=/{root}/config.yaml", f"--include=/{root}/runs/***", "--exclude=*"]
        if self.do(*COPY, *only, f"{self.name}:sky_workdir/", f"{self.folder}/", after=after, patience=PATIENCE):
            return "records could not be copied"
        records = [*self.folder.rglob("record.json")]
        try:
            for line in merge_folder(Path(root), self.folder / root, {}, self.call) if records else []:
                announce(line)  # a damaged record is left out, the others are merged
            for path in records:
                read_record(path)
        except StudyError as error:
            return f"a record is damaged or of another device: {error}"
        return None

    def take_down(self) -> None:
        """End the machine and make sure: `sky down` exits 0 where it fails, and where the launch is still queued."""
        for attempt in range(TRIES):
            time.sleep(PAUSE if attempt else 0)
            announce(f"Taking {self.name} down ...")
            for request in answer(self.sky, "api", "status", "--cluster", self.name, "-o", "json") or []:
                if "launch" in request["name"]:
                    self.do(self.sky, "api", "cancel", request["request_id"], after=math.inf, patience=PATIENCE)
            self.do(self.sky, "down", "-y", self.name, after=math.inf, patience=PATIENCE)
            left = answer(self.sky, "status", "-o", "json")
            if left is not None and self.name not in [cluster["name"] for cluster in left]:
                return announce("The machine is down.")
        raise StudyError(f"{self.name} COULD NOT BE TAKEN DOWN and costs money; run: {self.sky} down -y {self.name}")

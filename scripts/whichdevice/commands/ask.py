"""Which device for this model? Its step is measured here and forecast for GPUs and TPUs, with prices.

examples:
  whichdevice ask docs/examples/my_model.py
  whichdevice ask resnet50 --batch 64 --precision mixed --devices L4,T4,A100 --by cost
  whichdevice ask my_model.py --option layers=4 --devices all --largest --html answer.html
"""

import argparse
import io
import json
import math
import os
import shlex
import tempfile
from collections.abc import Sequence
from contextlib import redirect_stderr
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichdevice.commands.check import config_name
from whichdevice.commands.forecast import given_options
from whichdevice.config.model import FORECAST_DEVICES, Study
from whichdevice.errors import StudyError
from whichdevice.terminal import Countdown, LiveLine, duration

if TYPE_CHECKING:
    from whichdevice.forecast.targets import Target

Row = dict[str, Any]

PROCESSES = 3  # that measure the step here
PROCESS_SECONDS, PROGRAM_SECONDS = 15.0, 6.0  # guesses until the first one is finished
LONG_SECONDS = 120.0  # of one process, after which two are enough
MILLION = 1e6
BY = {"time": "step_seconds", "cost": "usd_per_million"}
THIS = "this machine"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", metavar="FILE", help="path to a .py file, or a built-in workload, e.g. resnet50")
    parser.add_argument("--batch", type=int, help="examples per step; default: the model's own")
    parser.add_argument(
        "--precision",
        default="float32",
        choices=("float32", "tf32", "mixed_bfloat16", "mixed_float16", "bfloat16", "mixed"),
        help="number format of the forecasts; mixed: each device's own 16-bit format. A CPU is measured in float32",
    )
    parser.add_argument(
        "--option", action="append", default=[], metavar="KEY=VALUE", help="as the config's `options`; may be repeated"
    )
    parser.add_argument("--devices", help='comma-separated, e.g. L4,T4,"A100 SXM 80GB"; all; default: ten common ones')
    parser.add_argument("--backend", choices=("tensorflow", "jax", "torch"), help="that measures here")
    parser.add_argument(
        "--by", choices=tuple(BY), default="time", help="what rows are sorted by and the answer is about"
    )
    parser.add_argument("--largest", action="store_true", help="also find the largest batch that fits; takes longer")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the answer as a page")


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises StudyError where the question is at fault or nothing has an answer."""
    from whichdevice.machine.cpu import thread_environment, usable_cores

    os.environ.update(thread_environment(usable_cores()))  # before NumPy is imported: its calibration uses every core
    targets = _targets(args.devices)
    study = question(args)
    here = _measured(study, args.model)
    rows = _forecast(study, args, targets)
    answer = make_answer(study, here, rows, args.by, _rent_command(study))
    if args.html:
        from whichdevice.report.page import render

        render("ask.html", args.html, answer=answer, table=table_cells(answer), head=table_head(answer))
    if args.json:
        print(json.dumps(answer, indent=1))
    else:
        print("\n".join(answer_lines(answer)))
        if args.html:
            print(f"Page: {args.html}")
    return 0


def question(args: argparse.Namespace) -> Study:
    """The study of one cell that measures the model here; raises StudyError on a wrong file, batch or option."""
    from whichdevice.checking.check import first_backend
    from whichdevice.config.load import load_study, resolved
    from whichdevice.planning.checks import check_cells, check_study, wrong_backend
    from whichdevice.study_runs import study_runs, with_model_settings
    from whichdevice.workloads import workload_class
    from whichdevice.workloads.base import TrainingWorkload
    from whichdevice.workloads.framework import BACKENDS, TORCH
    from whichdevice.workloads.model_file import ModelFile
    from whichdevice.workloads.shapes import check_declared

    if args.batch is not None and args.batch < 1:
        raise StudyError(f"--batch {args.batch}: a number of at least 1 is needed")
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    chosen = workload_class(args.model)
    if issubclass(chosen, ModelFile):
        check_declared(chosen.declared, chosen.address.label)
    possible = BACKENDS[chosen.framework]
    if args.backend and args.backend not in possible:
        raise StudyError(f"--backend: {wrong_backend(args.model, chosen.framework, args.backend)}")
    backend = args.backend or first_backend(args.model)
    loops = chosen.loops if issubclass(chosen, TrainingWorkload) else ("epoch",)
    workload = {
        "module": args.model,
        "batch_size": args.batch or chosen.recipe.batch_size,
        "backend": backend,
        "options": given_options(args.option),
        # PyTorch users mostly run operation by operation; `torch.compile` would take a minute in each process.
        "loop": "fit" if chosen.framework == TORCH else loops[0],
    }
    measure = {"seconds": 1.0, "min_steps": 2, "repeats": PROCESSES, "retry_disturbed": False, "breakdown": False}
    values: dict[str, Any] = {
        "study": "ask",
        "devices": {"cpu": {"kind": "cpu"}},
        "measure": measure,
        "train": {"epochs": 0, "repeats": 0},
        "forecast": {"devices": []},
        "data": {"source": "standin", "sources": {chosen.dataset: "standin"} if chosen.dataset else {}},
        "workloads": {config_name(args.model): workload},
    }
    study = resolved(with_model_settings(load_study(values, "ask")))
    check_study(study)
    check_cells(study, study_runs(study), {})
    return study


def _targets(names: str | None) -> "list[Target]":
    from whichdevice.forecast.targets import all_targets, find_target

    asked = list(FORECAST_DEVICES) if names is None else [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        raise StudyError("--devices: names of devices are needed, e.g. --devices L4,T4")
    if [name.casefold() for name in asked] == ["all"]:
        return all_targets()
    return list({target.label: target for target in map(find_target, asked)}.values())


def _measured(study: Study, model: str) -> Row:
    """The row of this machine, from records of three processes; those that exist are read.

    Raises StudyError where the model fails; one that does not fit is a row without a time.
    """
    from whichdevice.cells import Run
    from whichdevice.config.load import write_study
    from whichdevice.datasets.prepare import STANDIN_SEED, prepare_dataset
    from whichdevice.measuring.measure import WAITING, measure
    from whichdevice.measuring.request import dataset_folder, dataset_of, planned_record
    from whichdevice.study_runs import study_runs

    runs: list[Run] = study_runs(study)
    paths = [Path(planned_record(study, run)) for run in runs]
    records = [_kept(path) for path in paths]
    missing = [number for number, record in enumerate(records) if record is None]
    count = Countdown(len(missing), PROCESS_SECONDS)
    phase = io.StringIO()  # what the run would print

    def text() -> str:
        if phase.getvalue().rstrip().endswith(WAITING):
            return WAITING
        return f"measuring {model} here: process {count.done + 1} of {count.pieces} · about {duration(count.left)} left"

    if missing:
        with LiveLine(text) as line, tempfile.TemporaryDirectory() as folder:
            if not line.live:
                line.line(f"measuring {model} here, in {len(missing)} processes")
            dataset = dataset_of(study, runs[0].cell.workload)
            if dataset is not None and not (data := dataset_folder(study, dataset)).joinpath("dataset.json").is_file():
                prepare_dataset(dataset, "standin", None, STANDIN_SEED, data)
            config = Path(folder) / "config.yaml"
            write_study(study, config)
            for number in missing:
                record = measure(config, paths[number], Path(folder) / "run.log", phase)
                records[number] = record
                count.finish()
                long = (record.ended - record.started).total_seconds() > LONG_SECONDS
                if record.status != "ok" or (long and sum(each is not None for each in records) > 1):
                    break
    found = [record for record in records if record is not None]
    if failed := [record for record in found if record.status == "failed"]:
        raise StudyError(f"{model}: {failed[0].reason}")
    return measured_row(found)


def _kept(path: Path) -> Any:
    """The record of an earlier call on this machine, or None."""
    from whichdevice.machine.facts import this_machine
    from whichdevice.records.store import read_record, same_machine

    try:
        record = read_record(path)
    except StudyError:
        return None
    return record if record.status == "ok" and same_machine(record.machine, this_machine()) else None


def measured_row(records: Sequence[Any]) -> Row:
    """Geometric mean and 95 % interval over processes, as a row; without a time where the model did not run here."""
    first = records[0]
    asked = first.asked
    row: Row = {
        "device": THIS,
        "evidence": "measured",
        "name": first.machine.device_name or first.machine.cpu,
        "precision": asked.precision,
        "backend": asked.backend,
        "batch": asked.batch_size,
        "status": first.status,
        "reason": first.reason,
        "step_seconds": None,
        "low_seconds": None,
        "high_seconds": None,
        "interval": 0.95,
        "processes": len(records),
        "cold_seconds": None,
        "memory_bytes": first.memory.peak_host,
        "memory_available_bytes": first.machine.memory,
        "fits": first.status == "ok",
        "disturbed": any(record.noise.disturbed for record in records),
        "usd_per_hour": None,
        "epoch_examples": None,
    }
    times = [record.steady.step_time for record in records if record.status == "ok" and record.steady.step_time]
    if not times:
        worst = next((record for record in records if record.status != "ok"), first)
        return row | {"status": worst.status, "reason": worst.reason, "fits": False}
    logs = [math.log(time) for time in times]
    middle = sum(logs) / len(logs)
    if len(logs) > 1:
        from whichdevice.tables.statistics import t_quantile

        spread = math.sqrt(sum((each - middle) ** 2 for each in logs) / (len(logs) - 1))
        half = t_quantile(len(logs)) * spread / math.sqrt(len(logs))
        row |= {"low_seconds": math.exp(middle - half), "high_seconds": math.exp(middle + half)}
    cold = [record.cold for record in records]
    parts = [[part.start, part.initialise, part.load, part.build, part.first_step] for part in cold]
    row["cold_seconds"] = sum(sum(each or 0.0 for each in part) for part in parts) / len(parts)
    if first.workload is not None and asked.dataset is not None:
        row["epoch_examples"] = first.workload.steps_per_epoch * asked.batch_size
    return row | {"step_seconds": math.exp(middle)}


def _forecast(study: Study, args: argparse.Namespace, targets: "list[Target]") -> list[Row]:
    """A row for each target. What was compiled before, by any command, is read."""
    from whichdevice.forecast.answer import answer
    from whichdevice.forecast.compile import compile_programs
    from whichdevice.records.products import ProgramRequest

    name, workload = next(iter(study.workloads.items()))
    assert workload.batch_size is not None
    requests = [
        ProgramRequest(
            device=target.device,
            devices=target.devices,
            workload=name,
            module=args.model,
            precision=target.mixed if args.precision == "mixed" else args.precision,
            batch_size=workload.batch_size[0],
            options=workload.options,
            largest_batch=args.largest,
        )
        for target in targets
    ]
    count = Countdown(len(requests), PROGRAM_SECONDS)

    def text() -> str:
        return f"forecasting: {count.done} of {count.pieces} devices · about {duration(count.left)} left"

    with LiveLine(text) as line:
        if not line.live:
            line.line(f"forecasting for {len(requests)} devices")
        with redirect_stderr(io.StringIO()):  # phases of each compile: the line says enough
            records = compile_programs(requests, on_record=lambda *_: count.finish())
    return [_priced(answer(record), target) for record, target in zip(records, targets, strict=True)]


def _priced(row: Row, target: "Target") -> Row:
    """With what the whole target costs an hour on demand, by the price sheet; TPU cores share a chip."""
    from whichdevice.forecast.targets import CORES_AS_DEVICES

    offer = target.row.cheapest
    usd = None
    if offer is not None and offer.on_demand is not None:
        usd = offer.on_demand * target.devices / CORES_AS_DEVICES.get(target.device, 1)
    accelerator = f"tpu-{target.slice.accelerator}" if target.slice is not None else _accelerator(target.device)
    return row | {
        "device": target.label,
        "kind": target.kind,
        "accelerator": accelerator,
        "usd_per_hour": usd,
        "price": None if offer is None else offer.words,
        "name": None,
        "disturbed": False,
    }


def _accelerator(device: str) -> str:
    """What SkyPilot calls a GPU."""
    first, *rest = device.split()
    name = f"{first}{rest[0]}" if first == "RTX" else f"{first}-80GB" if first == "A100" and "80GB" in rest else first
    return f"{name}:1"


def make_answer(study: Study, here: Row, rows: list[Row], by: str, rent: str) -> Row:
    """The answer as plain data: rows sorted, each with its costs and ratio, candidates, and the words about them.

    Raises StudyError where no row has a time, or the batch fits nowhere.
    """
    name, workload = next(iter(study.workloads.items()))
    rows = [_completed(row, here) for row in (here, *rows)]
    timed = [row for row in rows if row["step_seconds"] is not None and row["fits"] is not False]
    if not timed:
        _refuse(name, rows)
    key = BY[by]
    sortable = sorted(rows, key=lambda row: (row["fits"] is False, row[key] is None, row[key] or 0.0))
    found = candidates(timed, by)
    return {
        "model": name,
        "module": workload.module,
        "batch": here["batch"],
        "options": workload.options,
        "by": by,
        "rows": sortable,
        "candidates": [row["device"] for row in found],
        "words": _words(rows, timed, found, by, rent),
    }


def _completed(row: Row, here: Row) -> Row:
    step, examples = row["step_seconds"], here.get("epoch_examples")
    known: Row = {"usd_per_million": None, "usd_per_epoch": None, "ratio": None, "ratio_low": None, "ratio_high": None}
    if step is not None and row["usd_per_hour"] is not None:
        known["usd_per_million"] = row["usd_per_hour"] * step / here["batch"] * MILLION / 3600
        known["usd_per_epoch"] = None if not examples else known["usd_per_million"] * examples / MILLION
    if step is not None and here["step_seconds"] is not None and row is not here:
        known["ratio"] = here["step_seconds"] / step
        if row["low_seconds"] and row["high_seconds"]:
            own = math.log((here["high_seconds"] or here["step_seconds"]) / here["step_seconds"])
            up, down = math.log(step / row["low_seconds"]), math.log(row["high_seconds"] / step)
            known["ratio_high"] = known["ratio"] * math.exp(math.hypot(up, own))
            known["ratio_low"] = known["ratio"] * math.exp(-math.hypot(down, own))
    return row | known


def _refuse(name: str, rows: list[Row]) -> None:
    """Raise StudyError that says why no row has a time."""
    batch = rows[0]["batch"]
    needs = [row["memory_bytes"] for row in rows[1:] if row["fits"] is False and row["memory_bytes"]]
    if needs:
        largest = max(row["memory_available_bytes"] or 0 for row in rows[1:])
        raise StudyError(
            f"{name} at batch {batch:,} fits on none of these {len(rows) - 1} devices, nor here: it needs "
            f"{min(needs) / 1e9:.3g} GB, and the largest has {largest / 1e9:.3g} GB; try a smaller --batch"
        )
    reasons = [row["reason"] for row in reversed(rows) if row["reason"]]
    raise StudyError(f"{name}: no device has an answer: {reasons[0] if reasons else 'no time is known'}")


def interval_of(row: Row, by: str) -> tuple[float, float]:
    """Ends of the interval of a row's time (seconds) or cost (USD a million examples); one process alone has none."""
    step = row["step_seconds"]
    low, high = row["low_seconds"] or step, row["high_seconds"] or step
    scale = 1.0 if by == "time" else row["usd_per_million"] / step
    return low * scale, high * scale


def candidates(timed: Sequence[Row], by: str) -> list[Row]:
    """Rows whose interval is not wholly above another row's, best first; by cost, only rows with a price."""
    known = [row for row in timed if row[BY[by]] is not None]
    if not known:
        return []
    bound = min(interval_of(row, by)[1] for row in known)
    return sorted((row for row in known if interval_of(row, by)[0] <= bound), key=lambda row: row[BY[by]])


def _words(rows: list[Row], timed: list[Row], found: list[Row], by: str, rent: str) -> list[str]:
    """The last lines: the candidates, how sure that is, and what would settle it."""
    most = "cheapest" if by == "cost" else "fastest"
    known = [row for row in timed if row[BY[by]] is not None]
    names = _joined([row["device"] for row in found])
    lines = []
    if not found:
        return ["No device here has a price: which one is cheapest cannot be said."]
    if len(known) == 1:
        lines.append(f"Only {names} has a {'price and a time' if by == 'cost' else 'time'}: nothing to choose from.")
    elif len(found) == len(known):
        lines.append(f"Every interval overlaps: which of {names} is the {most} is not decided.")
    elif len(found) == 1:
        lines.append(f"Candidate: {names}, {most} of {len(known)}; no other interval reaches its own.")
    else:
        lines.append(f"Candidates: {names}. Which of them is the {most} is not decided; none of the others is.")
    if by == "cost" and len(known) < len(timed):
        lines.append(f"Without a price: {_joined([row['device'] for row in timed if row[BY[by]] is None])}.")
    if away := [row for row in found if row["evidence"] == "forecast"]:
        unknown = [row["device"] for row in away if "unknown" in (row["case"]["device"], row["case"]["family"])]
        outside = f" {_joined(unknown)}: unlike what was tested, so with a wider interval." if unknown else ""
        lines.append(
            f"How sure: forecasts from compiled programs; an interval should hold 80 % of true times.{outside}"
        )
        best = away[0]
        lines.append(f"What would settle it: a measurement on {best['device']}, {rent.format(**best)}")
    elif len(timed) > 1:
        lines.append("How sure: this machine was measured; the others are forecasts with 80 % intervals.")
    if rows[0]["disturbed"]:
        lines.append("Other programs disturbed the measurement here: ask again on a quiet machine.")
    return lines


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def _rent_command(study: Study) -> str:
    """How to measure this model on a device of another machine; `{kind}` and `{accelerator}` are the device's."""
    name, workload = next(iter(study.workloads.items()))
    known = {key: value for key, value in workload.model_dump(exclude_defaults=True).items() if key != "backend"}
    text = json.dumps({name: known}).replace("{", "{{").replace("}", "}}")
    config = shlex.join(["--config", f"study={name}", f"only={{{{workload: {name}}}}}", f"workloads={text}"])
    if find_spec("whichdevice.commands.rent"):
        return f"whichdevice rent --device {{kind}} --accelerator {{accelerator}} {config}"
    return f"on a machine that has one: whichdevice study {{kind}} {config}"


def table_head(answer: Row) -> list[str]:
    """Names of the table's columns."""
    cost = "USD/epoch" if _has_epochs(answer) else "USD/million"
    largest = ["largest batch"] if any(row.get("largest_batch") for row in answer["rows"]) else []
    return ["device", "evidence", "step", "interval", "memory, GB", *largest, "USD/h", cost, "against here"]


def table_cells(answer: Row) -> list[list[str]]:
    """A row of texts for each device, in the columns of `table_head`."""
    return [_cells(row, _has_epochs(answer), "largest batch" in table_head(answer)) for row in answer["rows"]]


def _has_epochs(answer: Row) -> bool:
    return any(row["usd_per_epoch"] is not None for row in answer["rows"])


def _cells(row: Row, epochs: bool, largest: bool) -> list[str]:
    from whichdevice.tables.base import number

    step = "" if row["step_seconds"] is None else _seconds(row["step_seconds"])
    between = ""
    if row["low_seconds"] is not None:
        between = f"{_seconds(row['low_seconds'])} to {_seconds(row['high_seconds'])}"
    memory = "" if row["memory_bytes"] is None else f"{row['memory_bytes'] / 1e9:.3g}"
    if memory and row["memory_available_bytes"]:
        memory += f" of {row['memory_available_bytes'] / 1e9:.3g}"
    if row["fits"] is False:
        memory = f"{memory}, does not fit".lstrip(", ")
    usd = row["usd_per_epoch"] if epochs else row["usd_per_million"]
    ratio = ""
    if row["ratio"] is not None:
        ratio = f"× {number(row['ratio'])}"
        if row["ratio_low"] is not None:
            ratio += f" [{number(row['ratio_low'])}, {number(row['ratio_high'])}]"
    price = "" if row["usd_per_hour"] is None else f"{row['usd_per_hour']:.2f}"
    batch = [f"{row['largest_batch']:,}" if row.get("largest_batch") else ""] if largest else []
    evidence = f"{row['evidence']}, {row['precision']}"
    return [row["device"], evidence, step, between, memory, *batch, price, "" if usd is None else number(usd), ratio]


def answer_lines(answer: Row) -> list[str]:
    """The answer for a terminal."""
    here = next(row for row in answer["rows"] if row["evidence"] == "measured")
    title = f"{answer['model']}: one training step of {answer['batch']:,} examples"
    if here["step_seconds"] is not None:
        title += f"; here: {here['name']}, {here['backend']}, {here['processes']} processes"
        title += f", cold start {here['cold_seconds']:.0f} s"
    cells = [table_head(answer), *table_cells(answer)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))]
    table = [
        "  ".join(
            text.ljust(width) if place < 2 else text.rjust(width)
            for place, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]
    reasons: dict[str, list[str]] = {}
    for row in answer["rows"]:
        if row["reason"] and row["step_seconds"] is None:
            reasons.setdefault(row["reason"], []).append(row["device"])
    return [
        title,
        *(line.rstrip() for line in table),
        *(f"{_joined(names)}: {why}" for why, names in reasons.items()),
        "",
        *answer["words"],
    ]


def _seconds(value: float) -> str:
    return f"{value:.3g} s" if value >= 1 else f"{value * 1e3:.3g} ms"

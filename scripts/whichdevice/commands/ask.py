"""Which device for this model? Its step is measured here and forecast for GPUs and TPUs, with prices.

examples:
  whichdevice ask docs/examples/my_model.py
  whichdevice ask resnet50 --batch 64 --precision mixed --devices L4,T4,A100 --by cost
  whichdevice ask decoder --mode generate --batch 8 --precision mixed
  whichdevice ask my_model.py --option layers=4 --devices all --largest --html answer.html
"""

import argparse
import io
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichdevice.commands.check import config_name
from whichdevice.commands.forecast import MODE_HELP, MODES, PROGRAMS, check_mode, given_options
from whichdevice.config.model import FORECAST_DEVICES, Study
from whichdevice.errors import StudyError
from whichdevice.numbers import counted, duration, number, price, seconds
from whichdevice.terminal import Countdown, LiveLine

if TYPE_CHECKING:
    from whichdevice.forecast.targets import Target

Row = dict[str, Any]

LEAST_BATCHES = 10  # of an epoch that is shown
SHORT_SECONDS = 5e-3  # a step below it is mostly launches and the host's work
PROCESSES = 3  # that measure the step here
PROCESS_SECONDS, PROGRAM_SECONDS = 15.0, 6.0  # guesses until the first one is finished
LONG_SECONDS = 120.0  # of one process, after which two are enough: the interval of two is wide
MILLION = 1e6
BY = {"time": "step_seconds", "cost": "usd_per_million"}
THIS = "this machine"
SECONDS = ("step_seconds", "low_seconds", "high_seconds")
STEPS = {
    "train": "one training step of {batch:,} {unit}s",
    "predict": "one forward pass of {batch:,} {unit}s",
    "generate": "tokens at batch {batch:,}",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("model", metavar="FILE", help="path to a .py file, or a built-in workload, e.g. resnet50")
    parser.add_argument("--mode", choices=MODES, default="train", help=MODE_HELP)
    parser.add_argument("--batch", type=int, help="examples per step; default: the model's own; generate: also 1")
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
    parser.add_argument(
        "--here-usd", type=float, metavar="USD", help="what an hour of this machine costs, for --by cost"
    )
    parser.add_argument("--again", action="store_true", help="measure here anew, in place of an earlier call's records")
    parser.add_argument("--json", action="store_true", help="print the answer as JSON")
    parser.add_argument("--html", type=Path, metavar="FILE", help="also write the answer as a page")


def run(args: argparse.Namespace) -> int:
    """Print the answer; raises StudyError where the question is at fault or nothing has an answer."""
    from whichdevice.machine.cpu import thread_environment, usable_cores

    os.environ.update(thread_environment(usable_cores()))  # before NumPy is imported: its calibration uses every core
    targets = _targets(args.devices)
    study = question(args)
    here = {
        size: row | {"usd_per_hour": args.here_usd} for size, row in _measured(study, args.model, args.again).items()
    }
    rows = _forecast(study, args, targets)
    there = partial(measure_there, study)
    answers = [make_answer(study, here[batch], rows[batch], args.by, there) for batch in here]
    if args.html:
        from whichdevice.report.page import render

        parts = [(answer, step_words(answer), table_head(answer), table_cells(answer)) for answer in answers]
        render("ask.html", args.html, answers=parts)
    if args.json:
        print(json.dumps(answers if len(answers) > 1 else answers[0], indent=1))
    else:
        print("\n\n".join("\n".join(answer_lines(answer)) for answer in answers))
        if args.html:
            print(f"Page: {args.html}")
    return 0


def question(args: argparse.Namespace) -> Study:
    """The study that measures the model here: one cell, or of mode generate one for a single sequence as well.

    Raises StudyError on a wrong file, batch, option or mode.
    """
    from whichdevice.checking.check import first_backend
    from whichdevice.config.load import load_study, resolved
    from whichdevice.models.consistency import check_declared
    from whichdevice.models.framework import BACKENDS, KERAS, TORCH
    from whichdevice.models.loading import workload_class
    from whichdevice.models.model_file import ModelFile
    from whichdevice.planning.checks import check_cells, check_study, wrong_backend
    from whichdevice.study_cells import study_runs, with_model_settings
    from whichdevice.workloads.base import TrainingWorkload

    if args.batch is not None and args.batch < 1:
        raise StudyError(f"--batch {args.batch}: a number of at least 1 is needed")
    if args.here_usd is not None and args.here_usd <= 0:
        raise StudyError(f"--here-usd {args.here_usd:g}: a price above 0 is needed")
    if args.html is not None and not args.html.absolute().parent.is_dir():
        raise StudyError(f"--html {args.html}: no folder {args.html.absolute().parent}")
    chosen = workload_class(args.model)
    if issubclass(chosen, ModelFile):
        check_declared(chosen.declared, chosen.address.label)
    check_mode(args.model, args.mode)
    possible = BACKENDS[chosen.framework]
    if args.backend and args.backend not in possible:
        raise StudyError(f"--backend: {wrong_backend(args.model, chosen.framework, args.backend)}")
    generates = args.mode == "generate"
    backend = args.backend or ("jax" if generates and chosen.framework == KERAS else first_backend(args.model))
    batch = args.batch or chosen.recipe.batch_size
    loops = chosen.loops if issubclass(chosen, TrainingWorkload) else ("epoch",)
    workload = {
        "module": args.model,
        "batch_size": sorted({1, batch}) if generates else batch,
        "mode": args.mode,
        "backend": backend,
        "options": given_options(args.option),
        # PyTorch users mostly run operation by operation; `torch.compile` would take a minute in each process.
        "loop": "fit" if chosen.framework == TORCH else loops[0],
    }
    measure = {"seconds": 1.0, "min_steps": 1, "repeats": PROCESSES, "retry_disturbed": False, "breakdown": False}
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
    from whichdevice.forecast.targets import all_targets, find_target, other_targets

    asked = list(FORECAST_DEVICES) if names is None else [name.strip() for name in names.split(",") if name.strip()]
    if not asked:
        raise StudyError("--devices: names of devices are needed, e.g. --devices L4,T4")
    if [name.casefold() for name in asked] == ["all"]:
        return all_targets()
    for name in asked:
        if others := other_targets(name):
            print(f"{name}: the {find_target(name).device} is taken; also: {', '.join(others)}", file=sys.stderr)
    return list({target.label: target for target in map(find_target, asked)}.values())


def _measured(study: Study, model: str, again: bool) -> dict[int, Row]:
    """The row of this machine for each batch size, from records of three processes; of long ones, two.

    Those that exist are read, unless `again` is set. Raises StudyError where the model fails; one that does not fit is
    a row without a time.
    """
    from whichdevice.cells import Run
    from whichdevice.config.load import write_study
    from whichdevice.datasets.prepare import STANDIN_SEED, prepare_dataset
    from whichdevice.measuring.measure import measure
    from whichdevice.measuring.request import dataset_folder, dataset_of, planned_record
    from whichdevice.models.loading import workload_class
    from whichdevice.study_cells import study_runs

    runs: list[Run] = study_runs(study)
    paths = [Path(planned_record(study, run)) for run in runs]
    records = [None if again else _kept(path) for path in paths]

    def text() -> str:
        return f"measuring {model} here: process {count.done + 1} of {count.pieces} · about {duration(count.left)} left"

    def enough(number: int) -> bool:
        """Whether the records of that run's cell say all: it does not run here, or takes so long that two will do."""
        cell = runs[number].cell
        own = [record for record, run in zip(records, runs, strict=True) if record is not None and run.cell == cell]
        long = any((record.ended - record.started).total_seconds() > LONG_SECONDS for record in own)
        return any(record.status != "ok" for record in own) or (long and len(own) > 1)

    missing = [number for number, record in enumerate(records) if record is None and not enough(number)]
    count = Countdown(len(missing), PROCESS_SECONDS)
    if missing:
        with LiveLine(text) as line, tempfile.TemporaryDirectory() as folder:
            if not line.live:
                line.line(f"measuring {model} here, in {counted(len(missing), 'process')}")
            dataset = dataset_of(study, runs[0].cell.workload)
            if dataset is not None and not (data := dataset_folder(study, dataset)).joinpath("dataset.json").is_file():
                prepare_dataset(dataset, "standin", None, STANDIN_SEED, data)
            config = Path(folder) / "config.yaml"
            write_study(study, config)
            for number in missing:
                if enough(number):
                    continue
                record = measure(config, paths[number], Path(folder) / "run.log", io.StringIO(), line.line)
                records[number] = record
                count.finish()
                if record.status == "failed":
                    break
    found = [record for record in records if record is not None]
    if failed := [record for record in found if record.status == "failed"]:
        raise StudyError(f"{model}: {failed[0].reason}")
    kept_from = max(record.ended for record in found).astimezone().strftime("%d %B %Y, %H:%M")
    rows = {}
    for size in sorted({record.asked.batch_size for record in found}):
        own = [record for record in found if record.asked.batch_size == size]
        row = rows[size] = measured_row(own)
        row["kept_from"] = None if missing else kept_from
        if row["mode"] == "train" and own[0].workload is not None and _has_epoch(workload_class(model)):
            row["epoch_examples"] = own[0].workload.training_examples
    return rows


def _has_epoch(chosen: Any) -> bool:
    """Whether somebody chose the size of the data, rather than this program."""
    own = getattr(chosen, "declared", None)
    return bool(chosen.dataset or getattr(chosen, "data_source", "") == "own" or (own and own.examples is not None))


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
        "mode": asked.mode,
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
        "kept_from": None,
        "unit": "example" if first.workload is None else first.workload.unit,
    }
    times = [record.steady.step_time for record in records if record.status == "ok" and record.steady.step_time]
    if not times:
        worst = next((record for record in records if record.status != "ok"), first)
        fits = False if worst.status in ("refused", "out_of_memory") else None
        return row | {"status": worst.status, "reason": worst.reason, "fits": fits}
    row |= dict(zip(SECONDS, _mean(times), strict=True))
    cold = [record.cold for record in records]
    parts = [[part.start, part.initialise, part.load, part.build, part.first_step] for part in cold]
    row["cold_seconds"] = sum(sum(each or 0.0 for each in part) for part in parts) / len(parts)
    if prompts := [record.generated for record in records if record.generated is not None]:
        row |= {"prompt": prompts[0].prompt, "length": prompts[0].length}
        prompt_seconds = _mean([each.prefill.step_time for each in prompts])
        row |= {f"prefill_{name}": value for name, value in zip(SECONDS, prompt_seconds, strict=True)}
        row["cold_seconds"] += sum(each.first_prefill for each in prompts) / len(prompts)
    return row


def _mean(times: Sequence[float]) -> tuple[float, float | None, float | None]:
    """Geometric mean and the ends of its 95 % interval, which one number alone does not have."""
    import pandas as pd

    from whichdevice.tables.decision_rule import geometric

    found = geometric(pd.Series(times), pd.Series(0, range(len(times)))).iloc[0]
    low, high = (None if pd.isna(found[end]) else float(found[end]) for end in ("low", "high"))
    return float(found["mean"]), low, high


def _forecast(study: Study, args: argparse.Namespace, targets: "list[Target]") -> dict[int, list[Row]]:
    """A row for each target, by batch size. What was compiled before, by any command, is read."""
    from whichdevice.forecast.answer import answer
    from whichdevice.forecast.xla.compile import compile_programs
    from whichdevice.records.products import ProgramRequest

    name, workload = next(iter(study.workloads.items()))
    assert workload.batch_size is not None
    modes = PROGRAMS.get(args.mode, (args.mode,))
    asked = list(product(workload.batch_size, targets, modes))
    requests = [
        ProgramRequest(
            device=target.device,
            devices=target.devices,
            workload=name,
            module=args.model,
            precision=target.mixed if args.precision == "mixed" else args.precision,
            batch_size=size,
            mode=mode,
            options=workload.options,
            largest_batch=args.largest and mode != "prefill",
        )
        for size, target, mode in asked
    ]
    count = Countdown(len(requests), PROGRAM_SECONDS)

    def text() -> str:
        programs = counted(count.pieces, "program")
        return f"forecasting: {count.done} of {programs} · about {duration(count.left)} left"

    with LiveLine(text) as line:
        if not line.live:
            line.line(f"forecasting for {counted(len(targets), 'device')}")
        with redirect_stderr(io.StringIO()):  # phases of each compile: the line says enough
            records = compile_programs(requests, on_record=lambda *_: count.finish())
    found: dict[int, list[Row]] = {size: [] for size in workload.batch_size}
    for (size, target, mode), record in zip(asked, records, strict=True):
        row = answer(record)
        if mode == "decode":
            row = _with_prompt(row, found[size].pop())
        found[size].append(row if mode == "prefill" else _priced(row, target))
    return found


def _with_prompt(decode: Row, prefill: Row) -> Row:
    """The row of a decoding step with the time of the prompt; what both need has to fit."""
    row = decode | {f"prefill_{name}": prefill[name] for name in SECONDS}
    if (prefill["memory_bytes"] or 0) > (decode["memory_bytes"] or 0):
        row["memory_bytes"] = prefill["memory_bytes"]
    if prefill["fits"] is False:
        row["fits"] = False
    return row | {"mode": "generate", "reason": decode["reason"] or prefill["reason"]}


def _priced(row: Row, target: "Target") -> Row:
    """With what the whole target costs an hour on demand, by the price sheet; TPU cores share a chip."""
    from whichdevice.forecast.targets import CORES_AS_DEVICES

    offer = target.row.cheapest
    usd = None
    if offer is not None and offer.on_demand is not None:
        usd = offer.on_demand * target.devices / CORES_AS_DEVICES.get(target.device, 1)
    accelerator = (
        f"tpu-{target.slice.accelerator}"
        if target.slice is not None
        else target.row.skypilot and f"{target.row.skypilot}:1"
    )
    return row | {
        "device": target.label,
        "kind": target.kind,
        "accelerator": accelerator,
        "usd_per_hour": usd,
        "price": None if offer is None else offer.words,
        "provider": None if offer is None else offer.provider,
        "name": None,
        "disturbed": False,
    }


def make_answer(study: Study, here: Row, rows: list[Row], by: str, measure_there: Callable[[Row], str]) -> Row:
    """The answer as plain data: rows sorted, each with its costs and ratio, candidates, and the words about them.

    `measure_there` gives, for a row, the words on how its device can be measured.

    Raises StudyError where no row has a time, or the batch fits nowhere.
    """
    name, workload = next(iter(study.workloads.items()))
    if (here["epoch_examples"] or 0) < LEAST_BATCHES * here["batch"]:
        here = here | {"epoch_examples": None}  # data to try a model with are no epoch that anybody pays for
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
        "mode": here.get("mode") or "train",
        "batch": here["batch"],
        "unit": here["unit"],
        "options": workload.options,
        "by": by,
        "rows": sortable,
        "candidates": [row["device"] for row in found],
        "words": _words(rows, timed, found, by, measure_there),
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
    if needs and len(needs) == len(rows) - 1:
        largest = max(row["memory_available_bytes"] or 0 for row in rows[1:])
        devices = counted(len(rows) - 1, "device")
        raise StudyError(
            f"{name} at batch {batch:,} fits neither here nor on {devices} asked for: it needs "
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


def _words(
    rows: list[Row], timed: list[Row], found: list[Row], by: str, measure_there: Callable[[Row], str]
) -> list[str]:
    """The last lines: the candidates, how sure that is, and what would settle it."""
    most, less = ("cheapest", "Dearer") if by == "cost" else ("fastest", "Slower")
    here = rows[0]
    known = [row for row in timed if row[BY[by]] is not None]
    names = _joined([row["device"] for row in found])
    lines = []
    if not found:
        return ["No device here has a price: which one is cheapest cannot be said."]
    if len(known) == 1:
        lines.append(f"Only {names} has a {'price and a time' if by == 'cost' else 'time'}: nothing to choose from.")
        if by == "cost" and here["step_seconds"] is not None and here["usd_per_hour"] is None:
            lines.append("To compare costs with this machine, name its price: --here-usd 0.10")
        return [*lines, *_marks(here, found)]
    elif len(found) == len(known):
        lines.append(f"Every interval overlaps: which of {names} is the {most} is not decided.")
    elif len(found) == 1:
        lines.append(f"Candidate: {names}, {most} of {len(known)}; no other interval reaches its own.")
    else:
        rest = _joined([row["device"] for row in known if row not in found])
        lines.append(f"Candidates: {names}. Which of them is the {most} is not decided. {less}: {rest}.")
    if by == "cost" and len(known) < len(timed):
        lines.append(f"Without a price: {_joined([row['device'] for row in timed if row[BY[by]] is None])}.")
    if away := [row for row in found if row["evidence"] == "forecast"]:
        unknown = [row["device"] for row in away if "unknown" in (row["case"]["device"], row["case"]["family"])]
        outside = f" {_joined(unknown)}: unlike what was tested, so with a wider interval." if unknown else ""
        lines.append(
            f"How sure: forecasts from compiled programs; an interval should hold 80 % of true times.{outside}"
        )
        lines.append(f"What would settle it: a measurement on {away[0]['device']}, {measure_there(away[0])}")
    elif len(timed) > 1:
        lines.append("How sure: this machine was measured; the others are forecasts with 80 % intervals.")
    return lines + _marks(here, found)


def _marks(here: Row, found: list[Row]) -> list[str]:
    """What an epoch takes on the best device, and what to know of these numbers."""
    lines = []
    best = found[0]
    if (examples := here["epoch_examples"]) and best["step_seconds"] is not None:
        low, high = (end * examples / here["batch"] for end in interval_of(best, "time"))
        usd = "" if best["usd_per_epoch"] is None else f" and {best['usd_per_epoch']:.2g} USD"
        lines.append(
            f"One epoch ({examples:,} {here['unit']}s) on {best['device']}: "
            f"{duration(best['step_seconds'] * examples / here['batch'])}{usd}, "
            f"{best['evidence']} [{duration(low)}, {duration(high)}]; data loading and validation are not in it."
        )
    short = [row["device"] for row in found if row["evidence"] == "forecast" and row["step_seconds"] < SHORT_SECONDS]
    if short:
        whose = "" if len(short) == len(found) else f" ({_joined(short)})"
        lines.append(
            f"Steps below 5 ms{whose}: there the host's own work often takes longer than the device. "
            "Expect less of a difference between them, unless many steps run as one program."
        )
    if here["kept_from"]:
        lines.append(f"This machine's time is of {here['kept_from']}; --again measures anew.")
    if here["disturbed"]:
        lines.append("Other programs disturbed the measurement here: use --again when the machine is quiet.")
    return lines


def _joined(names: list[str]) -> str:
    return " and ".join([", ".join(names[:-1]), names[-1]]) if len(names) > 1 else names[0]


def measure_there(study: Study, row: Row) -> str:
    """How to measure this model, in the row's number format, on the row's device."""
    name, workload = next(iter(study.workloads.items()))
    known = {key: value for key, value in workload.model_dump(exclude_defaults=True).items() if key != "backend"}
    if row["precision"] != "float32":
        known["precision"] = [row["precision"]]
    settings = [f"study={name}", f"only={{workload: {name}}}", f"workloads={json.dumps({name: known})}"]
    config = shlex.join(["--config", *settings])
    free = " (Colab has one for nothing: docs/how-to/colab.md)" if row["device"] == "T4" else ""
    return f"whichdevice rent --device {row['kind']} --accelerator {row['accelerator']} {config}{free}"


def step_words(answer: Row) -> str:
    """What the times are of."""
    words = STEPS[answer["mode"]].format(batch=answer["batch"], unit=answer["unit"])
    here = next(row for row in answer["rows"] if row["evidence"] == "measured")
    if here.get("prompt"):
        words += f" after a prompt of {here['prompt']:,}, with a cache for {here['length']:,}"
    return words


def table_head(answer: Row) -> list[str]:
    """Names of the table's columns."""
    generates = answer["mode"] == "generate"
    cost = "USD/epoch" if _has_epochs(answer) else f"USD/million {answer['unit']}s"
    largest = ["largest batch"] if any(row.get("largest_batch") for row in answer["rows"]) else []
    step = ["prefill", "a token", "interval", "tokens/s"] if generates else ["step", "interval"]
    return ["device", "evidence", *step, "memory, GB", *largest, "USD/h", cost, "against here"]


def table_cells(answer: Row) -> list[list[str]]:
    """A row of texts for each device, in the columns of `table_head`."""
    return [_cells(row, answer, "largest batch" in table_head(answer)) for row in answer["rows"]]


def _has_epochs(answer: Row) -> bool:
    return any(row["usd_per_epoch"] is not None for row in answer["rows"])


def _cells(row: Row, answer: Row, largest: bool) -> list[str]:
    epochs = _has_epochs(answer)
    step = "" if row["step_seconds"] is None else seconds(row["step_seconds"])
    prompt: list[str] = []
    rate: list[str] = []
    if answer["mode"] == "generate":
        prompt = ["" if row.get("prefill_step_seconds") is None else seconds(row["prefill_step_seconds"])]
        rate = ["" if row["step_seconds"] is None else number(answer["batch"] / row["step_seconds"])]
    between = ""
    if row["low_seconds"] is not None:
        between = f"{seconds(row['low_seconds'])} to {seconds(row['high_seconds'])}"
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
    hourly = "" if row["usd_per_hour"] is None else f"{price(row['usd_per_hour'])} {row.get('provider') or ''}".rstrip()
    batch = [f"{row['largest_batch']:,}" if row.get("largest_batch") else ""] if largest else []
    evidence = f"{row['evidence']}, {row['precision']}"
    cost = "" if usd is None else number(usd)
    return [row["device"], evidence, *prompt, step, between, *rate, memory, *batch, hourly, cost, ratio]


def answer_lines(answer: Row) -> list[str]:
    """The answer for a terminal."""
    here = next(row for row in answer["rows"] if row["evidence"] == "measured")
    title = f"{answer['model']}: {step_words(answer)}"
    if here["step_seconds"] is not None:
        title += f"; here: {here['name']}, {here['backend']}, {counted(here['processes'], 'process')}"
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

"""Print how many runs and minutes, and how much disk, a study takes before anything runs, and what is left out and why.

example: whichdevice plan --configfile my.yaml
"""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import OWN_DEFAULT, SHIPPED_DEFAULT, check_yaml, default_config, parse_yaml


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--configfile", type=Path, default=default_config(), help="the study's config")
    parser.add_argument(
        "--config", nargs="*", default=[], metavar="KEY=VALUE", help="as for Snakemake, e.g. 'data={source: standin}'"
    )


def run(args: argparse.Namespace) -> int:
    """Print the plan."""
    from whichdevice.study.planning.study_plan import plan_study

    plan = plan_study(read_config(args))
    for name in plan.datasets(plan.to_measure()):
        plan.archives(name)
    for line in plan_lines(plan, lambda target: workflow_call(args, target)):
        print(line)
    return 0


def read_config(args: argparse.Namespace) -> dict[str, Any]:
    """The config that a call names, with what it overrides; raises StudyError with file and line."""
    return merged(check_yaml(args.configfile), args.config)


def configfile_option(args: argparse.Namespace) -> list[str]:
    """`--configfile` for Snakemake, where it would not take that file itself."""
    return [] if args.configfile in (OWN_DEFAULT, SHIPPED_DEFAULT) else ["--configfile", str(args.configfile)]


def workflow_call(args: argparse.Namespace, target: str) -> str:
    """The call that makes a target with the config that this command was given."""
    options = configfile_option(args)
    return shlex.join(["whichdevice", "study", target, *options, *(["--config", *args.config] if args.config else [])])


def merged(values: dict[str, Any], overrides: list[str]) -> dict[str, Any]:
    """The config with KEY=VALUE overrides merged in, nested as Snakemake nests them; raises StudyError."""
    for override in overrides:
        key, equals, text = override.partition("=")
        if not equals or not key:
            if Path(override).suffix in (".yaml", ".yml", ".json"):
                raise StudyError(f"--config {override}: takes KEY=VALUE; a file goes after --configfile")
            raise StudyError(f"--config {override}: needs KEY=VALUE, e.g. study=try or 'data={{source: standin}}'")
        values = _nested(values, {key: parse_yaml(text, f"--config {override}")})
    return values


def _nested(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    replaced = {
        key: _nested(old[key], value) if isinstance(value, dict) and isinstance(old.get(key), dict) else value
        for key, value in new.items()
    }
    return {**old, **replaced}


def plan_lines(plan: Any, call: Callable[[str], str]) -> list[str]:
    """The plan as lines for a person."""
    from whichdevice.models.datasets.base import get_dataset
    from whichdevice.study.planning.estimate import COUNT_SECONDS, REDRAW_SECONDS, RUN_BYTES, estimate_run
    from whichdevice.study.planning.products import compiled_records

    study, wanted, datasets = plan.study, plan.wanted(), plan.datasets()
    estimates = {run: estimate_run(study, run) for run in plan.to_measure()}
    programs = compiled_records(plan)
    done = sum(Path(record).is_file() for record in programs)
    forecast_seconds = (len(programs) - done) * COUNT_SECONDS + REDRAW_SECONDS
    minutes = (sum(one.seconds for one in estimates.values()) + forecast_seconds) / 60
    disk = len(estimates) * RUN_BYTES + sum(get_dataset(name).nbytes for name in datasets)
    least = any(one.at_least for one in estimates.values())
    again = study.measure.retry_seconds if estimates else 0.0
    repeating = f"; up to {again:g} s more where other programs disturb runs" if again else ""
    how_long = f"{'At least' if least else 'About'} {minutes:.0f} min{repeating}"
    sources = ", ".join(f"{name} from {study.data.sources[name]}" for name in datasets)
    lines = [
        f"Study {study.study}: {len(plan.runs)} runs configured, {len(wanted)} on this host, "
        f"{len(wanted) - len(estimates)} measured already, {len(estimates)} to measure.",
        f"{how_long}. {disk / 1e9:.1f} GB of disk.",
        f"Data: {sources or 'none needed'}.",
        *plan.notes(),
        *_learning(study),
        f"Forecasts: {len(programs)}, {done} counted already; a count takes seconds and serves all devices.",
        "",
        f"{'device':10} {'workload':20} {'runs':>5} {'minutes':>8}",
    ]
    places: dict[tuple[str, str], list[float]] = {}
    for run, one in estimates.items():
        places.setdefault((run.cell.device, run.cell.workload), []).append(one.seconds)
    for (device, workload), seconds in places.items():
        lines.append(f"{device:10} {workload:20} {len(seconds):5} {sum(seconds) / 60:8.1f}")
    left_out = _left_out(plan, call)
    return [*lines, "", *left_out] if left_out else lines


def _learning(study: Any) -> list[str]:
    seconds, epochs = study.train.seconds, study.train.epochs
    if not (seconds and study.train.repeats and (epochs is None or epochs > 0)):
        return []
    return [f"Learning stops after about {seconds:g} s a run, whatever its epochs (train.seconds)."]


def _left_out(plan: Any, call: Callable[[str], str]) -> list[str]:
    lines = [
        f"Left out: {name} ({sum(run.cell.device == name for run in plan.runs)} runs): {reason}; "
        f"to measure them on a machine that has one: {call(plan.study.devices[name].kind)}"
        for name, reason in plan.absent.items()
    ]
    lines += [f"Left out: the {backend} runs on {kind}: {reason}" for (kind, backend), reason in plan.missing.items()]
    return lines + [f"Left out: {count} runs {which}." for which, count in _not_wanted(plan).items() if count]


def _not_wanted(plan: Any) -> dict[str, int]:
    """How many of the runs that this host could measure are left out, and which these are."""
    here = [run for run in plan.runs if run.cell.device not in plan.absent and plan.platform(run) not in plan.missing]
    runs_here = [run for run in here if run not in plan.merged_records]
    reach = len(plan.in_reach())
    return {
        "that `only` does not select": len(runs_here) - reach,
        "that did not fail (retry=failed)": reach - len(plan.wanted()),
        "whose records are merged": len(here) - len(runs_here),
    }

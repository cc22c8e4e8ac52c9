"""Print how many runs, minutes, disk and memory a study takes before anything runs, and what is left out and why.

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
    both = {
        key: _nested(old[key], value) if isinstance(value, dict) and isinstance(old.get(key), dict) else value
        for key, value in new.items()
    }
    return {**old, **both}


def plan_lines(plan: Any, call: Callable[[str], str]) -> list[str]:
    """The plan as lines for a person."""
    from whichdevice.base.memory import available_memory
    from whichdevice.study.planning.estimate import REDRAW_SECONDS, datasets_bytes, estimate_run
    from whichdevice.study.planning.products import compiled_records

    study, wanted = plan.study, plan.wanted()
    needs = {run: estimate_run(study, run) for run in plan.to_measure()}
    available = available_memory()
    refused = [run for run, need in needs.items() if need.memory > available]
    going = {run: need for run, need in needs.items() if run not in refused}
    minutes = (sum(need.seconds for need in going.values() if need.unknown is None) + REDRAW_SECONDS) / 60
    unknown = any(need.unknown is not None for need in going.values())
    disk = sum(need.disk for need in going.values()) + datasets_bytes(plan.datasets())
    peak = max((need.memory for need in going.values()), default=0.0)
    lines = [
        f"Study {study.study}: {len(plan.runs)} runs configured, {len(wanted)} on this host, "
        f"{len(wanted) - len(needs)} measured already, {len(going)} to measure.",
        f"{'At least' if unknown else 'About'} {minutes:.0f} min, {disk / 1e9:.1f} GB of disk, "
        f"at most {peak / 1e9:.1f} GB of memory (estimates).",
        "Data: "
        + (", ".join(f"{name} from {study.data.sources[name]}" for name in plan.datasets()) or "none needed")
        + ".",
        *plan.notes(),
        *_learning(study),
        _compiles(compiled_records(plan)),
        "",
        f"{'device':10} {'workload':20} {'runs':>5} {'minutes':>8}",
    ]
    for place in dict.fromkeys(map(_place, going)):
        times = [need for run, need in going.items() if _place(run) == place]
        lines.append(f"{place[0]:10} {place[1]:20} {len(times):5} {_minutes(times):>8}")
    return lines + _left_out(plan, refused, needs, available, call)


def _learning(study: Any) -> list[str]:
    seconds = study.train.seconds
    learns = study.train.repeats and (study.train.epochs is None or study.train.epochs > 0)
    return (
        [f"Learning stops after {seconds:g} s a run, whatever its epochs (train.seconds)."]
        if seconds and learns
        else []
    )


def _place(run: Any) -> tuple[str, str]:
    """Device and workload."""
    return run.cell.device, run.cell.workload


def _minutes(needs: list[Any]) -> str:
    known = [need.seconds for need in needs if need.unknown is None]
    return f"{sum(known) / 60:.1f}" if known else "unknown"


def _compiles(records: list[str]) -> str:
    done = sum(Path(record).is_file() for record in records)
    return f"Forecasts: {len(records)} programs, {done} compiled already; each takes seconds, for a TPU minutes."


def _left_out(
    plan: Any, refused: list[Any], needs: dict[Any, Any], available: float, call: Callable[[str], str]
) -> list[str]:
    lines = [
        f"Left out: {name} ({sum(run.cell.device == name for run in plan.runs)} runs): {reason}; "
        f"to measure them on a machine that has one: {call(plan.study.devices[name].kind)}"
        for name, reason in plan.absent.items()
    ]
    lines += [f"Left out: the {backend} runs on {kind}: {reason}" for (kind, backend), reason in plan.missing.items()]
    lines += [
        f"Will be refused: {run.path}: needs about {needs[run].memory / 1e9:.1f} GB of memory, "
        f"{available / 1e9:.1f} GB are available"
        for run in refused
    ]
    unknown = {(_place(run), need.unknown) for run, need in needs.items() if need.unknown is not None}
    lines += [f"Not in the minutes: {workload} on {device}: {reason}" for (device, workload), reason in sorted(unknown)]
    lines += [f"Left out: {count} runs {which}." for which, count in _not_wanted(plan).items() if count]
    return ["", *lines] if lines else []


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

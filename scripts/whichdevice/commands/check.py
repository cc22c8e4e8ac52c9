"""Try a workload file in under a minute: shapes, a few steps on every backend, memory, FLOPs, forecasts.

example: whichdevice check docs/examples/my_model.py
"""

import argparse
import math
import re
import sys
from pathlib import Path
from typing import Any

from whichdevice.config.section import LONGEST_NAME
from whichdevice.errors import StudyError

DEVICES = ("T4", "H100 SXM")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("module", help="path to a .py file, or a built-in workload")
    parser.add_argument("--backend", action="append", help="may be given again; default: every one that is installed")
    parser.add_argument("--precision", default="float32", help="number format of the steps")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="as the config's `options`; may be given again",
    )
    parser.add_argument(
        "--device", action="append", metavar="NAME", help="to forecast for; default: T4 and H100 SXM; none: no forecast"
    )
    parser.add_argument("--seconds", type=float, default=50.0, help="time limit of each part; all run at once")


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 where a backend failed or the file says too little."""
    from whichdevice.checking.check import forecasts, installed_backends, try_everywhere
    from whichdevice.checking.findings import findings
    from whichdevice.commands.forecast import given_options
    from whichdevice.forecast.targets import find_target
    from whichdevice.planning.checks import wrong_backend
    from whichdevice.workloads import workload_class
    from whichdevice.workloads.framework import BACKENDS
    from whichdevice.workloads.model_file import ModelFile
    from whichdevice.workloads.shapes import check_declared

    devices = [find_target(name).device for name in args.device or DEVICES if name != "none"]
    chosen = workload_class(args.module)
    hints: tuple[str, ...] = ()
    if issubclass(chosen, ModelFile):
        hints = chosen.declared.hints
        try:
            check_declared(chosen.declared, Path(args.module).name)
        except StudyError as error:
            raise StudyError("; ".join([str(error), *hints])) from error
    possible = BACKENDS[chosen.framework]
    if wrong := [name for name in args.backend or () if name not in possible]:
        raise StudyError(f"--backend: {wrong_backend(args.module, chosen.framework, wrong[0])}")
    backends = args.backend or [name for name in installed_backends() if name in possible]
    if not backends:
        raise StudyError(f"{' or '.join(possible)} must be installed to try {args.module}")
    options = given_options(args.option)
    print(f"Trying {args.module} on {', '.join(backends)}: up to {args.seconds:g} s ...", file=sys.stderr)
    tried = try_everywhere(args.module, backends, args.precision, options, args.seconds)
    rows = forecasts(args.module, devices, args.precision, options, args.seconds)
    for line in findings(args.module, tried, rows, hints):
        print(line)
    worked = [name for name in backends if tried[name].status == "ok"]
    if worked:
        print(f"In a config: {config_line(args.module, worked, options)}")
    return 0 if len(worked) == len(backends) else 1


def config_line(module: str, backends: list[str], options: dict[str, Any]) -> str:
    """The workload as a config has it, under a name that the config takes."""
    import yaml

    name = config_name(module)
    settings = {"module": module, "backend": backends, **({"options": options} if options else {})}
    text = yaml.safe_dump({"workloads": {name: settings}}, default_flow_style=True, width=math.inf, sort_keys=False)
    return str(text).strip()[1:-1]


def config_name(module: str) -> str:
    """A name for the workload that a config takes, from its file."""
    stem = re.sub(r"[^A-Za-z0-9_.]", "_", Path(module).stem)
    return (stem if stem[:1].isalpha() else f"model_{stem}")[:LONGEST_NAME]

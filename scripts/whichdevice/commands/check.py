"""Try a model: shapes, a few steps, memory, FLOPs and forecasts, or one line that says what is wrong.

examples:
  whichdevice check docs/examples/my_model.py
  whichdevice check mypackage.nets:small_unet --backend all
  whichdevice check keras.applications:MobileNetV3Small --option image_size=96
"""

import argparse
import math
from typing import TYPE_CHECKING, Any

from whichdevice.commands.ask import DEVICES_HELP
from whichdevice.errors import StudyError

if TYPE_CHECKING:
    from whichdevice.models.loading import Model

DEVICES = "T4,H100 SXM"
SECONDS = 120.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument(
        "module",
        help="a .py file, package.module:function, a .keras file, keras.applications:NAME or a built-in workload",
    )
    parser.add_argument(
        "--backend",
        action="append",
        choices=("tensorflow", "jax", "torch", "all"),
        help="may be given again; all: every one that is installed; default: the one that the file imports, else one",
    )
    parser.add_argument("--precision", default="float32", help="number format of the steps")
    parser.add_argument(
        "--option",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="as the config's `options`; may be given again",
    )
    parser.add_argument(
        "--devices", default=DEVICES, help=f"{DEVICES_HELP.partition(';')[0]}; default: {DEVICES}; none: no forecast"
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=SECONDS,
        help="time limit of each step, such as building the model",
    )
    parser.set_defaults(passed_on=[])


def run(args: argparse.Namespace) -> int:
    """Print what was found; 1 where a backend failed or the file says too little."""
    from whichdevice.checking.check import findings, first_backend, forecasts, installed_backends, try_everywhere
    from whichdevice.commands.ask import given_options, looked_at, targets_of
    from whichdevice.models.consistency import check_declared
    from whichdevice.models.framework import BACKENDS
    from whichdevice.models.loading import Model
    from whichdevice.planning.checks import wrong_backend
    from whichdevice.terminal import LiveLine

    devices = [] if args.devices == "none" else [target.device for target in targets_of(args.devices.split(","))]
    model = looked_at(Model.read(args.module), args.passed_on)
    hints: tuple[str, ...] = ()
    if model.declared is not None:
        hints = model.declared.hints
        try:
            check_declared(model.declared, model.label)
        except StudyError as error:
            raise StudyError("; ".join([str(error), *hints])) from error
    possible = BACKENDS[model.framework]
    asked = args.backend or [first_backend(model)]
    if wrong := [name for name in asked if name not in (*possible, "all")]:
        raise StudyError(f"--backend: {wrong_backend(model, wrong[0])}")
    every = [name for name in installed_backends() if name in possible]
    backends = every if "all" in asked else list(dict.fromkeys(asked))
    options = given_options(args.option)
    doing = [f"trying {model}"]
    with LiveLine(lambda: doing[-1]) as line:

        def on_step(backend: str, phase: str) -> None:
            doing.append(f"{model} on {backend}: {phase}")
            if not line.live:
                line.line(doing[-1])

        tried = try_everywhere(model, backends, args.precision, options, args.seconds, on_step)
        worked = [name for name in backends if tried[name].status == "ok"]
        if devices and worked:
            on_step(" and ".join(devices), "forecasting")
        rows = forecasts(model, devices, args.precision, options, args.seconds) if worked else []
    for text in findings(model.text, tried, rows, hints):
        print(text)
    if worked:
        print(f"In a config: {config_line(model, worked, options)}")
    return 0 if len(worked) == len(backends) else 1


def config_line(model: "Model", backends: list[str], options: dict[str, Any]) -> str:
    """The workload as a config has it, under a name that the config takes."""
    import yaml

    from whichdevice.planning.one_model import config_name

    name = config_name(model)
    settings = {"module": model.text, "backend": backends, **({"options": options} if options else {})}
    text = yaml.safe_dump({"workloads": {name: settings}}, default_flow_style=True, width=math.inf, sort_keys=False)
    return str(text).strip()[1:-1]

"""Run a study, or one target of it, to a finished report: the workflow, with its progress on one line.

example:
  whichdevice study                                    config/config.yaml of this folder, else the default study
  whichdevice study cpu --configfile my.yaml           the runs of one kind of device
  whichdevice study --config study=try 'only={workload: mnist_cnn}'
  whichdevice study --records results/reference        beside the CPUs whose records ship with the project
  whichdevice study -- --forcerun measure              what follows -- goes to Snakemake
"""

import argparse
import json
import os
import re
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import NoReturn

from whichdevice.apps.commands.plan import add_arguments as add_config
from whichdevice.apps.commands.plan import configfile_option, read_config
from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.files import WORKFLOW
from whichdevice.measure.machine.devices import KINDS
from whichdevice.study.config.load import load_study

# Until work begins, an interrupt ends Snakemake at once; then it ends its jobs first (rules/study.smk, onstart).
START_CODE = r"""
import os, signal

def leave(*_):
    os.write(2, b"\nInterrupted; what is finished is kept.\n")
    os._exit(130)

signal.signal(signal.SIGINT, leave)
from snakemake.cli import main
main()
"""
WITHOUT_SNAKEMAKE = (
    "study: Snakemake, TensorFlow and more are not installed in this environment: in the project's folder, make study, "
    "or pip install '.[study]'"
)
NO_TARGETS = ("measure", "export", "dataset", "upload_dataset", "compile", "unknown_target")  # rules with wildcards
RULE = re.compile(r"^rule (\w+):", re.MULTILINE)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("target", nargs="*", default=["all"], help="all (default), cpu, gpu, tpu, runs, report ...")
    add_config(parser)
    parser.add_argument(
        "--records", action="append", default=[], metavar="SOURCE",
        help="bring records of another machine into the study: its results/<study>, a .zip of it or its address",
    )  # fmt: skip
    parser.add_argument(
        "--rename", action="append", default=[], metavar="THERE=HERE", help="a device's name there and here: gpu=a100"
    )
    parser.add_argument("-n", "--dry-run", action="store_true", help="print what would run, and run nothing")
    parser.set_defaults(passed_on=[])


def run(args: argparse.Namespace) -> int:
    """Replace this process by Snakemake; raises StudyError on an unknown target or a config that cannot be read."""
    if find_spec("snakemake") is None:
        raise StudyError(WITHOUT_SNAKEMAKE)
    known = targets()
    for target in args.target:
        if target not in known and not Path(target).suffix and "/" not in target:
            no_such_target(target)
    args.config = overrides(args)
    load_study(read_config(args))
    command = snakemake_command(args)
    have_cache()
    sys.stdout.flush()
    os.execv(command[0], command)  # nosec B606  # signals and exit status are Snakemake's own
    return 0


def have_cache() -> None:
    """Let Snakemake keep its cache in this folder where the home folder takes none."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "snakemake"
    with suppress(OSError):
        cache.mkdir(parents=True, exist_ok=True)
    if not os.access(cache, os.W_OK):
        os.environ["XDG_CACHE_HOME"] = str(Path(".snakemake/cache").absolute())


def overrides(args: argparse.Namespace) -> list[str]:
    """Return what `--config` has, and the keys that `--records` and `--rename` stand for."""
    renamed = dict(_pair(text) for text in args.rename)
    keys = {"records": [*map(str, args.records)], "rename": renamed}
    return [*args.config, *(f"{key}={json.dumps(value)}" for key, value in keys.items() if value)]


def _pair(text: str) -> tuple[str, str]:
    name, equals, new_name = text.partition("=")
    if not (name and equals and new_name):
        raise StudyError(f"study: --rename {text}: needs THERE=HERE, a device's name there and here, e.g. cpu=laptop")
    return name, new_name


def targets() -> list[str]:
    """Kinds of device, and the rules of the workflow that need no wildcards."""
    files = [WORKFLOW / "Snakefile", *sorted((WORKFLOW / "rules").glob("*.smk"))]
    names = [name for file in files for name in RULE.findall(file.read_text(encoding="utf-8"))]
    return [*KINDS, *(name for name in names if name not in NO_TARGETS)]


def no_such_target(word: str) -> NoReturn:
    """Raise StudyError that names the nearest target."""
    raise StudyError(f"no target {word}{did_you_mean(word, targets(), kind='targets are')}")


def snakemake_command(args: argparse.Namespace) -> list[str]:
    """The call of Snakemake, with the workflow of this package and results in the current folder."""
    return [
        sys.executable, "-c", START_CODE, *args.target, "--cores", "all", "--snakefile", str(WORKFLOW / "Snakefile"),
        *configfile_option(args), *(["--config", *args.config] if args.config else []),
        *(["--dry-run"] if args.dry_run else []), *args.passed_on,
    ]  # fmt: skip

"""Run a study, or one target of it, to a finished report: the workflow, with its progress on one line.

example:
  whichdevice study                                    config/config.yaml of this folder, else the default study
  whichdevice study cpu --configfile my.yaml           the runs of one kind of device
  whichdevice study --config study=try 'only={workload: mnist_cnn}'
  whichdevice study --with results/reference           beside the CPUs whose records ship with the project
  whichdevice study -- --forcerun measure              what follows -- goes to Snakemake
"""

import argparse
import os
import re
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NoReturn

from whichdevice.apps.commands.plan import add_arguments as add_config
from whichdevice.apps.commands.plan import configfile_option, read_config
from whichdevice.base.errors import StudyError, did_you_mean
from whichdevice.base.files import WORKFLOW
from whichdevice.measure.machine.devices import KINDS

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
        "--with", action="append", default=[], dest="others", metavar="SOURCE",
        help="merge the records of another machine first: a folder such as results/reference, a .zip or an address",
    )  # fmt: skip
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
    values = read_config(args)
    if args.others:
        merge_others(values, args.others)
    command = snakemake_command(args)
    sys.stdout.flush()
    os.execv(command[0], command)  # nosec B606  # signals and exit status are Snakemake's own
    return 0


def merge_others(values: dict[str, Any], sources: Sequence[str]) -> None:
    """Merge records of other machines into the study of this config; a folder is one here, or one of the package."""
    from whichdevice.study.config.load import load_study
    from whichdevice.study.remote.merge import merge_folder

    study = load_study(values)
    for source in sources:
        shipped = WORKFLOW / source
        folder = shipped if not Path(source).exists() and shipped.is_dir() else source
        print(*merge_folder(Path(study.root), folder, {}, study), sep="\n")


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
        sys.executable, "-c", START_CODE, *args.target, "--cores", "1", "--snakefile", str(WORKFLOW / "Snakefile"),
        *configfile_option(args), *(["--config", *args.config] if args.config else []),
        *(["--dry-run"] if args.dry_run else []), *args.passed_on,
    ]  # fmt: skip

"""Print the default study as commented YAML, ready to be changed.

example: whichdevice config > my.yaml
"""

import argparse
import sys
from pathlib import Path

from whichdevice.base.errors import StudyError
from whichdevice.base.files import CONFIG
from whichdevice.study.config.schema import generated_files


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("--full", action="store_true", help="the full study instead of the quick one")
    parser.add_argument("--published", action="store_true", help="the published recipes instead of the quick study")
    parser.add_argument("--schema", action="store_true", help="the JSON schema by which editors complete and check one")
    parser.add_argument("--check", type=Path, metavar="FILE", help="check a config file instead, and print nothing")
    parser.add_argument("--write", type=Path, metavar="FOLDER", help="write default study and schema to a folder")


def run(args: argparse.Namespace) -> int:
    """Print, check or write."""
    if args.check:
        check(args.check)
    elif args.write:
        write(args.write)
    elif args.full or args.published:
        name = "published.yaml" if args.published else "full.yaml"
        sys.stdout.write((CONFIG / name).read_text(encoding="utf-8"))
    else:
        sys.stdout.write(generated_files()["study.schema.json" if args.schema else "config.yaml"])
    return 0


def check(path: Path) -> None:
    """Raise StudyError, with file and line where there is one, unless the file is a whole and right config."""
    from whichdevice.study.cells import study_runs
    from whichdevice.study.config.load import check_yaml, load_study, resolved
    from whichdevice.study.planning.checks import check_cells, check_only, check_study
    from whichdevice.study.planning.devices import absent_devices
    from whichdevice.study.planning.sources import with_merged

    call, _ = with_merged(load_study(check_yaml(path), str(path)))  # whose devices may run a workload
    study = resolved(call)
    try:
        check_study(study)
        runs = study_runs(study)
        check_only(call, runs)
        # Of what this host lacks, and whatever run_on says: another host may be meant.
        check_cells(study, runs, absent_devices(study.model_copy(update={"run_on": "auto"})))
    except StudyError as error:
        raise StudyError(f"{path}: {str(error).removeprefix('config: ')}") from error


def write(folder: Path) -> None:
    """Write every generated file to the folder, each one whole or not at all."""
    for name, text in generated_files().items():
        aside = folder / f".{name}.aside"
        try:
            aside.write_text(text, encoding="utf-8")
            aside.replace(folder / name)
        except OSError as error:
            raise StudyError(f"cannot write {folder / name}: {error.strerror or error}") from error
        finally:
            aside.unlink(missing_ok=True)

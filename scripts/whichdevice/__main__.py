"""`python -m whichdevice <command>`: what makes no file of the study, each command one module in commands/."""

import argparse
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from whichdevice import commands
from whichdevice.errors import StudyError, one_line

FOLDER = Path(commands.__file__).parent


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status. What a person can mend, such as a full disk, becomes one line and status 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(prog="python -m whichdevice", description="Which device for this work?")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    names = command_names()
    wanted = [name for name in arguments[:1] if name in names]
    for name in wanted or names:
        module = importlib.import_module(f"whichdevice.commands.{name.replace('-', '_')}")
        summary = (module.__doc__ or "").strip().partition("\n")[0]
        subparser = subparsers.add_parser(name, help=summary, description=summary)
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    try:
        parsed = parser.parse_args(arguments)
        return parsed.run(parsed)
    except StudyError as error:
        print(error, file=sys.stderr)
        return 2
    except BrokenPipeError:
        sys.stderr.close()  # the reader, such as `head`, has seen enough
        return 0
    except OSError as error:
        print(one_line(f"{error.filename or arguments[0]}: {error.strerror or error}"), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def command_names() -> list[str]:
    """Every command: the file names in commands/, with - for _."""
    return sorted(path.stem.replace("_", "-") for path in FOLDER.glob("*.py") if not path.stem.startswith("_"))


if __name__ == "__main__":
    sys.exit(main())

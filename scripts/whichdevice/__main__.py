"""The program `whichdevice`, also as `python -m whichdevice`: each command is one module in commands/."""

import argparse
import importlib
import inspect
import os
import re
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from whichdevice.apps import commands
from whichdevice.base.errors import StudyError, did_you_mean, one_line
from whichdevice.base.plugins import defining

WAYS_TO_ASK = """Which device for this work? Three ways to ask:
  whichdevice ask train.py                    a training script: it runs until its training starts
  whichdevice ask hf:Qwen/Qwen2.5-7B          a model of Hugging Face by its name; nothing is downloaded
  whichdevice ask resnet50 --no-measuring     a well-known model, from forecasts alone
All commands: whichdevice --help"""
COMMANDS_FOLDER = Path(commands.__file__).parent
INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; its exit status. What a person can fix, such as a full disk, becomes one line and status 2."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if not arguments:
        print(WAYS_TO_ASK)
        return 0
    arguments, passed_on = _split(arguments)
    try:
        parsed = _parsed(arguments)
        if passed_on and not hasattr(parsed, "passed_on"):
            raise StudyError(f"{parsed.command}: takes nothing after --")
        if passed_on:
            parsed.passed_on = passed_on
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
        return INTERRUPTED


def _parsed(arguments: list[str]) -> argparse.Namespace:
    """The command and its options; raises StudyError on a misspelt one."""
    names = command_names()
    if arguments and not arguments[0].startswith("-") and arguments[0] not in names:
        raise StudyError(f"no command {arguments[0]!r}{did_you_mean(arguments[0], names)} (whichdevice --help)")
    parser = _parser(arguments[:1])
    parsed, unknown = parser.parse_known_args(arguments)
    if unknown:
        usage = importlib.import_module(f"whichdevice.apps.commands.{parsed.command.replace('-', '_')}")
        options_parser = argparse.ArgumentParser()
        usage.add_arguments(options_parser)
        options = re.findall(r"--[a-z][a-z-]*", options_parser.format_help())
        name = unknown[0].partition("=")[0]
        raise StudyError(
            f"{parsed.command}: {unknown[0]!r} is not known{did_you_mean(name, options)} "
            f"(whichdevice {parsed.command} --help)"
        )
    return parsed


def entry() -> None:
    """The console script. An interrupt ends the process at once: no thread or pool is waited for."""
    status = main()
    if status == INTERRUPTED:
        with suppress(OSError):
            print("\nInterrupted; what is finished is kept.", file=sys.stderr, flush=True)
        os._exit(status)
    sys.exit(status)


def _split(arguments: list[str]) -> tuple[list[str], list[str]]:
    """Return what comes before and after the first `--`."""
    if "--" not in arguments:
        return arguments, []
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


class OneLineParser(argparse.ArgumentParser):
    """A parser whose complaint is one line, without all options."""

    def error(self, message: str) -> NoReturn:
        """Raise StudyError with the complaint and where all options are."""
        raise StudyError(f"{message.removeprefix('argument ')} ({self.prog} --help)")


def _parser(first: list[str]) -> argparse.ArgumentParser:
    """Return the parser of the command that is named first, or of all of them."""
    parser = OneLineParser(prog="whichdevice", description="Which device for this work?")
    subparsers = parser.add_subparsers(dest="command", metavar="command", required=True)
    names = command_names()
    for name in [name for name in first if name in names] or names:
        module = importlib.import_module(f"whichdevice.apps.commands.{name.replace('-', '_')}")
        summary, _, example = (module.__doc__ or "").strip().partition("\n")
        subparser = subparsers.add_parser(
            name,
            help=summary,
            description=summary,
            epilog=inspect.cleandoc(example),
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        module.add_arguments(subparser)
        subparser.set_defaults(run=module.run)
    return parser


def command_names() -> list[str]:
    """Every command: a file in commands/ with `add_arguments(parser)` and `run(arguments)`; its name with - for _."""
    return sorted(name.replace("_", "-") for name in defining(COMMANDS_FOLDER, "add_arguments", "run"))


if __name__ == "__main__":
    entry()

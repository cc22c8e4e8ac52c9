"""Compile one step by hand or from the rule `compile`: python scripts/compile.py CONFIG RECORD [--log FILE].

For example: python scripts/compile.py results/quick/config.yaml \\
    results/quick/compiled/v2-2x2/mnist_cnn-mixed_bfloat16-b1024.json
"""

import argparse
import signal
import sys
from pathlib import Path

from whichdevice.compiling.compile import compile_cell
from whichdevice.compiling.request import request_of
from whichdevice.config.load import read_study
from whichdevice.errors import StudyError
from whichdevice.measuring.request import dataset_folder
from whichdevice.parent import stop_with_parent


def main() -> int:
    """Exit 0 whenever a record was written, whatever its status; 2 where the study is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="resolved config of the study")
    parser.add_argument("record", type=Path, help="record to write; its path names the step")
    parser.add_argument("--log", type=Path, help="what the compiler says; default: the record's name with .log")
    parser.add_argument("--end-with-parent", action="store_true", help="stop when the process that started this ends")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.end_with_parent:
        stop_with_parent()
    try:
        study = read_study(arguments.config)
        request = request_of(study, arguments.record)
        dataset = dataset_folder(study, request.dataset) if request.dataset is not None else None
        record = compile_cell(request, dataset, arguments.record, arguments.log or arguments.record.with_suffix(".log"))
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {arguments.record}: {error.strerror or error}; the earlier record is untouched", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the earlier record is untouched", file=sys.stderr)
        return 130
    print(f"{request.path}: {record.status}{f' ({record.reason})' if record.reason else ''}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())

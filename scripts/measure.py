"""Measure one run, from the command line or the rule `measure`: python scripts/measure.py CONFIG RECORD [--log FILE].

For example: python scripts/measure.py results/quick/config.yaml \\
    again/cpu/mnist_cnn/tensorflow-float32-b1024/r1/record.json
"""

import argparse
import io
import os
import signal
import sys
from pathlib import Path

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.processes import stop_with_parent


def main() -> int:
    """Exit 0 whenever a record was written, whatever its status; 2 where the study is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="resolved config of the study")
    parser.add_argument("record", type=Path, help="record to write; its path names the run")
    parser.add_argument("--log", type=Path, help="log of the run; default: run.log beside the record")
    parser.add_argument("--study", help="the study as JSON, written to CONFIG where there is no such file")
    parser.add_argument("--starter", type=int, metavar="PID", help="stop when this process, which started it, ends")
    parser.add_argument("--quiet", action="store_true", help="print no progress: the workflow shows its own")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.starter is not None:
        stop_with_parent(arguments.starter)
    # Before NumPy is imported: Snakemake exports one thread a job, and the calibration should see every core.
    os.environ.update(thread_environment(usable_cores()))
    from whichdevice.study.config.load import write_study
    from whichdevice.study.config.model import Study
    from whichdevice.study.measure import measure

    try:
        if arguments.study and not arguments.config.is_file():
            write_study(Study.model_validate_json(arguments.study), arguments.config)
        log = arguments.log or arguments.record.with_name("run.log")
        # Quiet, it prints only the line that explains why nothing happens.
        quiet = (io.StringIO(), lambda text: print(text, file=sys.stderr)) if arguments.quiet else ()
        measure(arguments.config, arguments.record, log, *quiet)
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {arguments.record}: {error.strerror or error}; the earlier record is untouched", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the earlier record is untouched", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())

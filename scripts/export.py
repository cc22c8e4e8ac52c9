"""Export one trained model, from the command line or the rule `export`: python scripts/export.py CONFIG EXPORT_JSON.

For example: python scripts/export.py results/quick/config.yaml \\
    results/quick/models/mnist_cnn/KEY/export.json
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.processes import stop_with_parent
from whichdevice.study.config.load import read_study
from whichdevice.study.exporting.export import export_model, export_path
from whichdevice.study.planning.products import learned_records

# Keras runs on TensorFlow; an accelerator is left alone.
ENVIRONMENT = {"KERAS_BACKEND": "tensorflow", "TF_CPP_MIN_LOG_LEVEL": "2", "CUDA_VISIBLE_DEVICES": "-1"}


def main() -> int:
    """Exit 0 whenever a record was written, whatever its status; 2 where the study is at fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path, help="resolved config of the study")
    parser.add_argument("record", type=Path, help="export.json to write; its folder names the workload")
    parser.add_argument("--log", type=Path, help="log of Keras and TensorFlow; default: export.log in the study's logs")
    parser.add_argument("--starter", type=int, metavar="PID", help="stop when this process, which started it, ends")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    if arguments.starter is not None:
        stop_with_parent(arguments.starter)
    workload = arguments.record.parents[1].name
    try:
        study = read_study(arguments.config)
        if workload not in study.workloads or arguments.record != export_path(study, workload):
            raise StudyError(
                f"{arguments.record}: no export of {arguments.config}; its code or config may have been edited "
                "after this call was planned: make the same call again"
            )
        log = arguments.log or Path(study.root) / "logs" / "models" / workload / "export.log"
        os.environ.update(thread_environment(usable_cores()) | ENVIRONMENT)
        with _output_to(log):
            record = export_model(study, workload, learned_records(study, workload))
    except StudyError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"error: {arguments.record}: {error.strerror or error}; the earlier export is untouched", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("interrupted; the earlier export is untouched", file=sys.stderr)
        return 130
    print(f"{arguments.record}: {record.status}{f' ({record.reason})' if record.reason else ''}", file=sys.stderr)
    return 0


@contextmanager
def _output_to(log: Path) -> Iterator[None]:
    """Send all that this process prints, native code included, to the log."""
    log.parent.mkdir(parents=True, exist_ok=True)
    kept = [os.dup(1), os.dup(2)]
    with log.open("wb") as file:
        for number in (1, 2):
            os.dup2(file.fileno(), number)
    try:
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for number, terminal in enumerate(kept, 1):
            os.dup2(terminal, number)


if __name__ == "__main__":
    sys.exit(main())

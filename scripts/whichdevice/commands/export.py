"""Write a study's tables as Parquet, or its records as MLPerf log lines.

example: whichdevice export --parquet results/quick
"""

import argparse
from pathlib import Path

from whichdevice.errors import StudyError

MOST_TOLD = 3  # faults, in one line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Options of the command."""
    parser.add_argument("results", type=Path, help="results/<study>")
    parser.add_argument("--parquet", action="store_true", help="tables as <results>/parquet/<table>.parquet")
    parser.add_argument("--mlperf", action="store_true", help="records as <results>/mlperf/<run>.log")


def run(args: argparse.Namespace) -> int:
    """Write what was asked for, and say how much."""
    if not (args.parquet or args.mlperf):
        raise StudyError("export: as what? --parquet, --mlperf or both")
    if not args.results.is_dir():
        raise StudyError(f"export: no folder {args.results}; name a study's results, e.g. results/quick")
    if args.parquet:
        from whichdevice.tables.parquet import write_parquet

        print(f"{len(write_parquet(args.results / 'tables', args.results / 'parquet'))} tables: {args.results}/parquet")
    if args.mlperf:
        print(f"{_write_mlperf(args.results)} records: {args.results}/mlperf")
    return 0


def _write_mlperf(results: Path) -> int:
    from whichdevice.records.foreign import foreign_run
    from whichdevice.records.mlperf import mlperf_lines
    from whichdevice.records.results_folder import record_paths
    from whichdevice.records.store import read_record, write_atomically

    paths = record_paths(results)
    if not paths:
        raise StudyError(f"export: no record.json below {results}")
    faults = []
    for path in paths:
        try:
            record, run = read_record(path), foreign_run(path.absolute().as_posix())
        except StudyError as error:  # one lost record keeps no other from being written
            faults.append(str(error))
            continue
        if run is None:  # of any other, read_record has seen that the record is of that run
            faults.append(f"{path} is in the place of no run: <device>/<workload>/<cell>/r<repeat>/{path.name}")
            continue
        write_atomically("\n".join(mlperf_lines(record)) + "\n", results / "mlperf" / f"{run.path}.log")
    if faults:
        told = "; ".join(faults[:MOST_TOLD]) + ("; ..." if len(faults) > MOST_TOLD else "")
        raise StudyError(f"export: {len(faults)} of {len(paths)} records left out, the others written: {told}")
    return len(paths)

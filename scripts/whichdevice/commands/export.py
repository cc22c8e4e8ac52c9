"""Write a study's tables as Parquet, or its records as MLPerf log lines: `export --parquet results/quick`."""

import argparse
from pathlib import Path

from whichdevice.errors import StudyError


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
    from whichdevice.records.store import read_record, write_atomically
    from whichdevice.tables.comparison import record_paths

    paths = record_paths(results)
    if not paths:
        raise StudyError(f"export: no record.json below {results}")
    for path in paths:
        record, run = read_record(path), foreign_run(path.absolute().as_posix())
        if run is None:  # of any other, read_record has seen that the record is of that run
            raise StudyError(
                f"export: {path} is in the place of no run: <device>/<workload>/<cell>/r<repeat>/record.json"
            )
        write_atomically("\n".join(mlperf_lines(record)) + "\n", results / "mlperf" / f"{run.path}.log")
    return len(paths)

"""How honest the harness is on this machine: false alarms, planted slowdowns, disturbed runs.

    python benchmarks/noise_floor.py [--blocks 24] [--seconds 10] [--batch-size 128] [--fraction 0.1] [--folder FOLDER]

Each block measures, as the workflow does and in random order, one cell three times, and once beside a load on
one core: four processes of 20 seconds or so. The times of the third are made 10 % longer afterwards.
Families of comparisons are then resampled from the blocks: a
comparison takes `--repeats` blocks without replacement, each pair the same cell twice in a random order, so that by
construction nothing differs. Comparisons share blocks: the rates are those of this sitting, not of 2,000 sittings.
With --patience each process waits until a probe of all processors at once sees little taken by the hypervisor and the
speed of the fastest probe so far (a shared host); of the runs between two such probes it is told how many were flagged,
which is how often a quiet run is flagged falsely. With --folder the records are kept there, and measured ones
are not measured again.
"""

import argparse
import os
import subprocess
import sys
import tempfile
from collections.abc import Container, Sequence
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "scripts")]

from benchmarks.quiet_host import QuietHost, load_on  # noqa: E402
from benchmarks.resampled_families import alarm_rate, half_width, planted_verdicts, processes_for  # noqa: E402

from whichdevice.measure.record import Record  # noqa: E402
from whichdevice.study.cells import study_runs  # noqa: E402
from whichdevice.study.config.load import load_study, resolved, write_study  # noqa: E402
from whichdevice.study.config.model import Study  # noqa: E402
from whichdevice.study.prepare import prepare_dataset  # noqa: E402
from whichdevice.study.records.store import read_record  # noqa: E402
from whichdevice.study.request import (  # noqa: E402
    build_request,
    dataset_folder,
    dataset_of,
    measuring_order,
    planned_record,
)
from whichdevice.study.tables.decision_rule import SLOWER  # noqa: E402

FIRST, SECOND, SLOWED, LOADED = CELLS = ("first", "second", "slowed", "beside_load")
FAMILIES, PLANTINGS = 2000, 20


def main() -> None:
    """Measure what is missing, then print each rate."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocks", type=int, default=24, help="blocks of four processes")
    parser.add_argument("--repeats", type=int, default=10, help="repeats of a comparison")
    parser.add_argument("--family", type=int, default=6, help="comparisons of a family")
    parser.add_argument(
        "--seconds", type=float, default=10.0, help="steady state of each process; the published study has 10"
    )
    parser.add_argument("--workload", default="mnist_official")
    parser.add_argument("--batch-size", type=int, default=128)
    parser.add_argument("--fraction", type=float, default=0.1, help="share of the training data")
    parser.add_argument("--slowdown", type=float, default=0.10)
    parser.add_argument("--patience", type=float, default=0.0, help="minutes in all to wait for a quiet host")
    parser.add_argument("--folder", type=Path, help="where the records stay; default: nowhere")
    options = parser.parse_args()
    if options.blocks < options.repeats:
        parser.error("--blocks must be at least --repeats")
    with tempfile.TemporaryDirectory() as scratch:
        folder = (options.folder or Path(scratch)).absolute()
        folder.mkdir(parents=True, exist_ok=True)
        os.chdir(folder)
        host = QuietHost(60 * options.patience)
        records, quiet = measured(study_of(options), host)
    if options.patience:
        print(host)
    report(records, options, quiet)


def study_of(options: argparse.Namespace) -> Study:
    """A study of one cell: three times, and once beside a load; no run is repeated, so that flags can be counted."""
    cell = {"module": options.workload, "batch_size": options.batch_size, "fraction": options.fraction, "epochs": 0}
    return resolved(
        load_study(
            {
                "study": "noise_floor",
                "devices": {"cpu": {"kind": "cpu"}},
                "data": {"source": "standin", "sources": {"mnist": "standin"}},
                "measure": {"repeats": options.blocks, "seconds": options.seconds, "retry_seconds": 0},
                "train": {"epochs": 0},
                "forecast": {"devices": []},
                "workloads": {name: {**cell, "validation": False} for name in CELLS},
            }
        )
    )  # fmt: skip


def measured(study: Study, host: QuietHost) -> tuple[list[Record], set[str]]:
    """The records of all runs, measured where they are missing, one process after the other.

    With the runs before and after which a probe saw a quiet host; of earlier calls' runs that is not known.
    """
    quiet = set()
    for run in study_runs(study):
        record = Path(planned_record(study, run))
        if record.is_file() and read_record(record).asked != build_request(study, run):
            sys.exit(f"{record} was measured with other options; take another --folder")
    config = Path(study.root) / "config.yaml"
    write_study(study, config)
    name = dataset_of(study, FIRST)
    if name is not None and not (dataset_folder(study, name) / "dataset.json").is_file():
        prepare_dataset(name, "standin", None, 1, dataset_folder(study, name))
    for run in measuring_order(study, study_runs(study)):
        if not Path(planned_record(study, run)).is_file():
            before = host.wait()
            with load_on(min(os.sched_getaffinity(0))) if run.cell.workload == LOADED else nullcontext():
                _measure(config, Path(planned_record(study, run)))
            if before and host.is_quiet():
                quiet.add(run.path)
    return [read_record(Path(planned_record(study, run))) for run in study_runs(study)], quiet


def _measure(config: Path, record: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts/measure.py"), str(config), str(record)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "scripts")}
    subprocess.run(command, check=True, env=environment, stderr=sys.stderr)


def report(records: Sequence[Record], options: argparse.Namespace, between: Container[str] = ()) -> None:
    """Print every rate with what it is of."""
    speeds = speeds_of(records)
    random = np.random.default_rng(1)
    alike = speeds[[FIRST, SECOND]].to_numpy()
    slowed = speeds[[FIRST, SLOWED]].to_numpy() / [1, 1 + options.slowdown]
    n, family = options.repeats, options.family
    alarms = alarm_rate(alike, n, family, FAMILIES, random)
    halves = [half for half in np.array_split(alike, 2) if len(half) >= n]
    widths = [half_width(random.permutation(alike.ravel())[:n]) for _ in range(FAMILIES)]
    spread = float(np.log(alike).std(axis=0, ddof=1).mean())
    verdicts = planted_verdicts(slowed, alike, n, family, FAMILIES, random)
    found, elsewhere = verdicts[:, 0] == SLOWER, (verdicts[:, 1:] != "").any(axis=1)
    print(f"{len(records)} processes, {len(speeds)} whole blocks of {options.workload}, batch {options.batch_size}")
    print(f"The same cell twice: {alarms:.1%} of {FAMILIES} families of {family}, n = {n}, have a false alarm (≤ 5 %)")
    if len(halves) == 2:
        rates = ", ".join(f"{alarm_rate(half, n, family, FAMILIES, random):.1%}" for half in halves)
        print(f"    from the first and the second half of the blocks alone: {rates}")
    print(f"Half-width of intervals, n = {n}: median {np.median(widths):.1%} (≤ 5 %)")
    print(f"Standard deviation between processes {spread:.1%}: ±5 % takes n = {processes_for(0.05, spread)}")
    print(f"Planted {options.slowdown:.0%}: found in {found[:PLANTINGS].sum()} of {PLANTINGS} (≥ 80 %), "
          f"elsewhere in {elsewhere[:PLANTINGS].sum()} (0)")  # fmt: skip
    print(f"    in {FAMILIES} such families: found in {found.mean():.1%}, elsewhere in {elsewhere.mean():.1%}")
    _report_flags(records, between)


def _report_flags(records: Sequence[Record], between: Container[str]) -> None:
    quiet = [record for record in records if record.asked.workload != LOADED]
    loaded = [record for record in records if record.asked.workload == LOADED]
    flagged = [record for record in quiet if record.noise.disturbed]
    calm = [record.noise.disturbed for record in quiet if record.run in between]
    print(f"Of runs without a load between two quiet probes flagged: {rate(sum(calm), len(calm))} (below 5 %)")
    print(f"Of all runs without a load flagged: {rate(len(flagged), len(quiet))}")
    for record in flagged:
        print(f"    {record.run}: {'; '.join(record.noise.reasons)}")
    print(f"Runs beside a load on one core flagged: {rate(sum(r.noise.disturbed for r in loaded), len(loaded))} (all)")


def speeds_of(records: Sequence[Record]) -> pd.DataFrame:
    """Throughput by block and workload; blocks with a failed run are left out."""
    rows = [(record.asked.repeat, record.asked.workload, record.steady.throughput) for record in records]
    return pd.DataFrame(rows, columns=["block", "workload", "speed"]).pivot(
        index="block", columns="workload", values="speed"
    ).dropna()  # fmt: skip


def rate(count: int, of: int) -> str:
    """A share with its Clopper-Pearson interval."""
    if not of:
        return "0 of 0"
    low, high = stats.binomtest(count, of).proportion_ci(method="exact")
    return f"{count} of {of} = {count / of:.1%} [{low:.1%}, {high:.1%}]"


if __name__ == "__main__":
    main()

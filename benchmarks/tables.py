"""Seconds and peak memory of tables and figures from many records: `python benchmarks/tables.py [records]`."""

import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import synthetic  # noqa: E402

from whichdevice.config.model import Device, Measure, Study, Train, Workload  # noqa: E402
from whichdevice.figures.registry import draw, figure_names  # noqa: E402
from whichdevice.report.write import write_report  # noqa: E402
from whichdevice.tables.write import write_tables  # noqa: E402


def study_of(records: int) -> Study:
    """About so many runs: 2 devices x 5 workloads x 10 batch sizes x 2 precisions, in as many repeats as it takes."""
    sizes = [32 * factor for factor in range(1, 11)]
    return Study(
        study="many",
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        workloads={
            name: Workload(batch_size=sizes, precision=["float32", "mixed_bfloat16"]) for name in synthetic.FACTS
        },
        measure=Measure(repeats=max(1, records // 200)),
        train=Train(epochs=10, repeats=1),
    )


def main(records: int) -> None:
    """Print the seconds of each stage and the peak resident memory of all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, paths = synthetic.write_study(study_of(records), folder, artefacts=records <= 1000)
        clock = time.perf_counter()
        write_tables(config, paths, ROOT / "config/published.csv", folder / "tables")
        clock = tell(f"tables from {len(paths)} records", clock)
        for figure in figure_names():
            draw(figure, folder / "tables", config, folder / f"{figure}.svg", folder / f"{figure}.png")
            clock = tell(f"figure {figure}", clock)
        write_report(config, folder / "tables", folder, folder / "report.html")
        tell("report", clock)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"peak resident memory: {peak / (2**20 if sys.platform != 'darwin' else 2**30):.2f} GB")


def tell(stage: str, since: float) -> float:
    """Print how long a stage took; returns the clock."""
    now = time.perf_counter()
    print(f"{stage}: {now - since:.2f} s", flush=True)
    return now


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)

"""Seconds and peak memory of tables, figures and report from many records: `python benchmarks/tables.py [records]`.

Ten repeats a cell, 100 timed windows in each record, four times as many as the published study leaves. With
`--tables` nothing is drawn: `python benchmarks/tables.py 10000 --tables`.
"""

import json
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "tests")]

import synthetic  # noqa: E402

from whichdevice.study.cells import Run, study_runs  # noqa: E402
from whichdevice.study.config.load import write_study  # noqa: E402
from whichdevice.study.config.model import Device, Measure, Study, Train, Workload  # noqa: E402
from whichdevice.study.figures import draw, figure_names  # noqa: E402
from whichdevice.study.report.contents import write_report  # noqa: E402
from whichdevice.study.tables.make import write_tables  # noqa: E402

REPEATS, WINDOWS, STEPS = 10, 100, 5


def study_of(records: int) -> Study:
    """About so many runs: 80 combinations of device, workload, backend and precision, in many sizes."""
    sizes = [16 * factor for factor in range(1, 1 + max(1, records // (80 * REPEATS)))]
    settings = {"precision": ["float32", "mixed_bfloat16"], "backend": ["tensorflow", "jax"]}
    return Study(
        study="many",
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        workloads={name: Workload.model_validate({"batch_size": sizes, **settings}) for name in synthetic.FACTS},
        measure=Measure(repeats=REPEATS),
        train=Train(epochs=10, repeats=1),
    )


def write_records(study: Study, folder: Path) -> tuple[Path, list[Path]]:
    """The config and a record of every run. Repeats are copies of the first one, each at a speed of its own."""
    config, paths = folder / "config.yaml", []
    write_study(study, config)
    random = np.random.default_rng(1)
    for first in [run for run in study_runs(study) if run.repeat == 1]:
        made = json.loads(synthetic.record_of(study, first).model_dump_json())
        for repeat in range(1, REPEATS + 1):
            path = folder / "runs" / Run(first.cell, repeat).path / "record.json"
            path.parent.mkdir(parents=True)
            path.write_text(json.dumps(_repeated(made, f"{first.cell.path}/r{repeat}", repeat, random)))
            paths.append(path)
    return config, paths


def _repeated(made: dict[str, Any], run: str, repeat: int, random: np.random.Generator) -> dict[str, Any]:
    factors = np.exp(random.normal(0, 0.03) + random.normal(0, 0.05, WINDOWS))
    seconds = (made["steady"]["step_time"] * STEPS * factors).tolist()
    steady = {"windows": [[STEPS, window] for window in seconds], "steps": STEPS * WINDOWS, "seconds": sum(seconds)}
    speed = made["steady"]["step_time"] * STEPS * WINDOWS / sum(seconds)
    return {
        **made,
        "run": run,
        "asked": {**made["asked"], "repeat": repeat},
        "steady": {**made["steady"], **steady, "throughput": made["steady"]["throughput"] * speed},
        "epochs": made["epochs"] if repeat == 1 else [],
    }


def main(records: int, drawn: bool) -> None:
    """Print the seconds of each stage and the peak resident memory of all."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config, paths = write_records(study_of(records), folder)
        clock = time.perf_counter()
        write_tables(config, paths, ROOT / "config/published.csv", folder / "tables")
        clock = tell(f"tables from {len(paths)} records", clock)
        print(f"peak resident memory so far: {peak_memory():.2f} GB")
        if drawn:
            for figure in figure_names():
                draw(figure, folder / "tables", config, folder / f"{figure}.svg", folder / f"{figure}.png")
                clock = tell(f"figure {figure}", clock)
            write_report(config, folder / "tables", folder, folder / "report.html")
            tell("report", clock)
            print(f"peak resident memory: {peak_memory():.2f} GB")


def peak_memory() -> float:
    """Peak resident memory of this process so far, in GB of 2^30 bytes."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (2**20 if sys.platform != "darwin" else 2**30)


def tell(stage: str, since: float) -> float:
    """Print how long a stage took; returns the clock."""
    now = time.perf_counter()
    print(f"{stage}: {now - since:.2f} s", flush=True)
    return now


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdecimal()]
    main(numbers[0] if numbers else 10_000, drawn="--tables" not in sys.argv)

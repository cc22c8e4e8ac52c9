"""Made-up but plausible records, always the same, for tests and benchmarks of everything below the records."""

import hashlib
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml
from synthetic_parts import (
    FACTS,
    INITIALISE,
    asked_of,
    epochs_of,
    facts_of,
    generated_of,
    latency_of,
    results_of,
    step_time_of,
    surroundings_of,
    units_of,
)

from whichdevice.base.files import CONFIG
from whichdevice.base.sheets.hardware import HARDWARE, hardware_rows
from whichdevice.base.sheets.prices import price_sheet
from whichdevice.measure.record import Artefact, Cold, DataFacts, Memory, Record, Steady
from whichdevice.measure.running import run_code_hash
from whichdevice.models.loading import Model
from whichdevice.study.cells import Run
from whichdevice.study.claims import read_published
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Device, Measure, Study, Train, Workload
from whichdevice.study.records.store import write_record
from whichdevice.study.request import build_request
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.base import Sources, table, write_table
from whichdevice.study.tables.make import TABLES, collect
from whichdevice.study.tables.runs import configured_runs, run_row

# The config of a study like `small_study`, on a CPU alone.
SMALL: dict[str, Any] = {
    "study": "small",
    "devices": {"cpu": {"kind": "cpu"}},
    "workloads": {"mnist_cnn": {"batch_size": [256, 1024]}},
    "measure": {"repeats": 2},
    "forecast": {"devices": []},
}


def small_study(**changes: Any) -> Study:
    """Two devices, one workload with two batch sizes, two repeats."""
    settings: dict[str, Any] = {
        "study": "small",
        "devices": {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        "workloads": {"mnist_cnn": Workload(batch_size=[256, 1024])},
        "measure": Measure(repeats=2),
        "train": Train(epochs=3, repeats=1),
    }
    return Study(**(settings | changes))


def full_study(devices: tuple[str, ...] = ("cpu",), epochs: int = 5, repeats: int = 3) -> Study:
    """The workloads of config/full.yaml on devices named by their kinds."""
    return Study(
        study="full",
        workloads=read_study(CONFIG / "full.yaml").workloads,
        devices={name: Device(kind=name.split("_")[0]) for name in devices},
        train=Train(epochs=epochs),
        measure=Measure(repeats=repeats),
    )


def slowed(record: Record, factor: float) -> Record:
    """The record with every time of its steady state so many times as long, windows and derived numbers together."""
    steady = record.steady
    changed = {
        "windows": [(steps, seconds * factor) for steps, seconds in steady.windows],
        "seconds": steady.seconds * factor,
        "step_time": steady.step_time and steady.step_time * factor,
        "throughput": steady.throughput and steady.throughput / factor,
    }
    return record.model_copy(update={"steady": steady.model_copy(update=changed)})


def record_of(study: Study, run: Run, *, source: str = "standin", noise: float = 0.03) -> Record:
    """A run that ended well: its speed is that of its cell, with noise between processes."""
    cell, device, workload = run.cell, study.devices[run.cell.device], study.workloads[run.cell.workload]
    module = workload.module or cell.workload
    random = np.random.default_rng(int(hashlib.sha256(run.path.encode()).hexdigest()[:8], 16))
    facts = facts_of(cell, module, workload, device.replicas)
    slow = step_time_of(cell, device, facts) * float(np.exp(random.normal(0, noise)))
    windows = [(5, 5 * slow * float(np.exp(random.normal(0, noise / 3)))) for _ in range(4)]
    step_time = sum(seconds for _, seconds in windows) / 20
    trains = module in FACTS and workload.mode == "train"
    learn = run.repeat <= study.train.repeats and trains and workload.epochs != 0
    epochs = epochs_of(study, facts, slow, random) if learn else []
    return Record(
        study=study.study,
        run=run.path,
        status="ok",
        asked=asked_of(study, run, module, learn, source),
        workload=facts,
        **surroundings_of(device.kind, cell.precision),
        data=DataFacts(dataset=FACTS[module][5] or "", source=source, checksum="0" * 64)
        if module in FACTS
        else None,
        cold=Cold(
            start=float(random.uniform(4, 6)), initialise=INITIALISE[device.kind],
            load=float(random.uniform(0.1, 0.4)), build=float(random.uniform(0.2, 0.5)),
            first_step=float(random.uniform(1, 3)) + step_time, warm_up=[(5, 6 * step_time)],
        ),
        steady=Steady(
            windows=windows, steps=20, seconds=20 * step_time, step_time=step_time,
            throughput=units_of(cell, facts, device.replicas) / step_time,
        ),
        latency=latency_of(step_time) if workload.mode == "predict" else None,
        generated=generated_of(cell, step_time) if workload.mode == "generate" else None,
        epochs=epochs,
        results=results_of(module, epochs),
        memory=Memory(peak_host=int(1.5e9 + 1e6 * cell.batch_size)),
    )  # fmt: skip


def record_of_this_code(study: Study, run: Run) -> Record:
    """A run just as it would be measured now: its request and its code, where it reads no data."""
    record, request = record_of(study, run), build_request(study, run)
    code = run_code_hash(Model.read(request.module), request.backend)
    if request.mode and record.steady.step_time:  # a model of somebody's own counts examples
        throughput = request.batch_size / record.steady.step_time
        record = record.model_copy(update={"steady": record.steady.model_copy(update={"throughput": throughput})})
    return record.model_copy(
        update={"asked": request, "software": record.software.model_copy(update={"code_hash": code})}
    )


def failed_record(study: Study, run: Run, status: str = "failed", reason: str = "killed by signal 9") -> Record:
    """A run that ended badly before its first step."""
    good = record_of(study, run)
    return Record(
        study=study.study, run=run.path, status=status, reason=reason, asked=good.asked, machine=good.machine,
        software=good.software, started=good.started, ended=good.ended,
    )  # fmt: skip


def write_study(
    study: Study,
    folder: Path,
    *,
    devices: Iterable[str] | None = None,
    source: str = "standin",
    change: Callable[[Run, Record], Record | None] = lambda run, record: record,
    artefacts: bool = True,
) -> tuple[Path, list[Path]]:
    """Write the config and a record per run of `devices` below `folder`; `change` alters a record or drops it."""
    config = folder / "config.yaml"
    folder.mkdir(parents=True, exist_ok=True)
    write_config(study, config)
    chosen = set(devices or study.devices)
    paths = []
    for run in configured_runs(study):
        if run.cell.device not in chosen:
            continue
        record = change(run, record_of(study, run, source=source))
        if record is None:
            continue
        path = folder / "runs" / run.path / "record.json"
        if artefacts and record.status == "ok" and record.epochs:
            path.parent.mkdir(parents=True, exist_ok=True)
            (path.parent / "weights.npz").write_bytes(run.path.encode())
            digest = hashlib.sha256(run.path.encode()).hexdigest()
            record.artefacts["weights"] = Artefact(file="weights.npz", sha256=digest)
        write_record(record, path)
        paths.append(path)
    return config, paths


def write_config(study: Study, path: Path) -> None:
    """Write a study's resolved config."""
    path.write_text(yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False), encoding="utf-8")


class Results(StudyResults):
    """A study's results whose tables are made when first asked for, through their files as in a study.

    Making every table takes more than a second; most tests look at two or three.
    """

    def __init__(self, config: Path, record_paths: Iterable[Path], compiled_paths: Iterable[Path] = ()) -> None:
        super().__init__(config, config.parent / "tables")
        study = read_study(config)
        claims = read_published(HARDWARE.with_name("published.csv"))
        sheet = hardware_rows(HARDWARE, price_sheet(study.prices))
        self._made_of = Sources(study, *collect(study, record_paths), claims, compiled_paths, sheet)

    def __getattr__(self, name: str) -> pd.DataFrame:
        if name in TABLES:
            write_table(self._made_of.table(name), self.tables_folder / f"{name}.csv")
        return super().__getattr__(name)


def results(study: Study, folder: Path, compiled_paths: Iterable[Path] = (), **how: Any) -> Results:
    """Write a study and its records below `folder`; its results."""
    return Results(*write_study(study, folder, artefacts=False, **how), compiled_paths)


def runs_row(record: Record) -> dict[str, Any]:
    """The row of table `runs` of a record that was never written."""
    return run_row(record, f"{record.run}/record.json")


def runs_table(study: Study, throughput: Callable[[Run], float | None]) -> pd.DataFrame:
    """Table `runs` of every configured run with exactly this throughput; no row where it is None."""
    rows = []
    for run in configured_runs(study):
        if (value := throughput(run)) is not None:
            record = record_of(study, run)
            units = units_of(run.cell, record.workload, record.asked.replicas)
            record.steady = Steady(steps=1, seconds=units / value, throughput=value)
            rows.append(runs_row(record))
    return table(rows, TABLES["runs"])

"""Made-up but plausible records, always the same, for tests and benchmarks of everything below the records."""

import hashlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from synthetic_artefacts import add_artefacts

from whichdevice.cells import Cell, Run
from whichdevice.config.model import Device, Measure, Study, Train, Workload
from whichdevice.records import schema
from whichdevice.records.schema import Record
from whichdevice.records.store import write_record
from whichdevice.tables.run_row import run_row
from whichdevice.tables.runs import configured_runs

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SPEED = {"cpu": 1.0, "gpu": 14.0, "tpu": 30.0}  # times the processor
DEVICE_NAMES = {"cpu": "Example CPU 3.6 GHz", "gpu": "Example GPU 40 GB", "tpu": "Example TPU v2"}
# module: unit, floating-point operations per example, weights, training examples, validation examples, dataset, metric
FACTS: dict[str, tuple[str, float, int, int, int, str | None, str | None]] = {
    "mnist_official": ("image", 5.6e7, 1_643_370, 60_000, 10_000, "mnist", "accuracy"),
    "mnist_cnn": ("image", 4.2e7, 412_778, 60_000, 10_000, "mnist", "accuracy"),
    "fashion_cnn": ("image", 5.1e8, 1_619_470, 60_000, 10_000, "fashion_mnist", "accuracy"),
    "shakespeare_lstm": ("sequence", 1.3e9, 4_460_800, 11_000, 0, "tiny_shakespeare", "accuracy"),
    "weather_gru": ("sequence", 8.3e8, 821_763, 5_000, 500, "weather_denmark", None),
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
    """The default workloads on devices named by their kinds."""
    return Study(
        study="full",
        devices={name: Device(kind=name.split("_")[0]) for name in devices},
        train=Train(epochs=epochs),
        measure=Measure(repeats=repeats),
    )


def record_of(study: Study, run: Run, *, source: str = "standin", noise: float = 0.03) -> Record:
    """A run that ended well: speed by device, batch size and precision, with noise between processes."""
    cell, device, workload = run.cell, study.devices[run.cell.device], study.workloads[run.cell.workload]
    module = workload.module or cell.workload
    random = np.random.default_rng(int(hashlib.sha256(run.path.encode()).hexdigest()[:8], 16))
    facts = _facts(cell, module, workload)
    slow = _step_time(cell, device.kind, facts) * float(np.exp(random.normal(0, noise)))
    windows = [(5, 5 * slow * float(np.exp(random.normal(0, noise / 3)))) for _ in range(4)]
    step_time = sum(seconds for _, seconds in windows) / 20
    learn = run.repeat <= study.train.repeats and module != "matmul"
    epochs = _epochs(study, module, facts, slow, random) if learn else []
    return Record(
        study=study.study,
        run=run.path,
        status="ok",
        asked=_asked(study, run, module, learn, source),
        workload=facts,
        **_surroundings(device.kind),
        data=schema.DataFacts(dataset=FACTS[module][5] or "", source=source, checksum="0" * 64)
        if module in FACTS
        else None,
        cold=schema.Cold(
            start=float(random.uniform(4, 6)),
            load=float(random.uniform(0.1, 0.4)), build=float(random.uniform(0.2, 0.5)),
            first_step=float(random.uniform(1, 3)) + step_time, warm_up=[(5, 6 * step_time)],
        ),
        steady=schema.Steady(
            windows=windows, steps=20, seconds=20 * step_time, step_time=step_time,
            throughput=(1 if module == "matmul" else cell.batch_size) / step_time,
            flops_per_second=facts.flops_per_step / step_time, epoch_time=facts.steps_per_epoch * step_time or None,
        ),
        epochs=epochs,
        results=_results(module, epochs),
        memory=schema.Memory(peak_host=int(1.5e9 + 1e6 * cell.batch_size)),
    )  # fmt: skip


def _step_time(cell: Cell, kind: str, facts: schema.WorkloadFacts) -> float:
    """Seconds of a step without noise: operations at the device's rate, and what each step costs besides."""
    rate = 1.6e11 * SPEED[kind] * (1.9 if "16" in cell.precision else 1.0) * (0.85 if cell.loop == "fit" else 1.0)
    return facts.flops_per_step / rate + {"cpu": 0.002, "gpu": 0.004, "tpu": 0.02}[kind]


def _surroundings(kind: str) -> dict[str, Any]:
    """What all runs on a kind of device share: machine, software, energy, noise and times."""
    return {
        "machine": schema.Machine(
            device_name=DEVICE_NAMES[kind], cpu=DEVICE_NAMES["cpu"], cores=8, threads=8, memory=32 * 2**30,
            architecture="x86_64", operating_system="Linux 6.1",
        ),
        "software": schema.Software(
            python="3.11.9", versions={"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"},
            git_commit="0123456789abcdef", code_hash="abc123", flags={"jit_compile": "off"},
        ),
        "energy": schema.Energy(reason="no meter"),
        "noise": schema.Noise(calibration_before=0.1, calibration_after=0.101, load_before=0.4, steal=0.0),
        "started": STARTED,
        "ended": STARTED + timedelta(seconds=30),
    }  # fmt: skip


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
    config.write_text(yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False), encoding="utf-8")
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
            add_artefacts(record, path.parent)
        write_record(record, path)
        paths.append(path)
    return config, paths


def _facts(cell: Cell, module: str, workload: Workload) -> schema.WorkloadFacts:
    if module not in FACTS:  # matmul, or a user's own operation
        flops = 2.0 * cell.batch_size**3
        return schema.WorkloadFacts(unit="product", input_shape=[cell.batch_size] * 2, flops_per_step=flops)
    unit, flops, weights, examples, validation, _, metric = FACTS[module]
    length = cell.sequence_length or {"shakespeare_lstm": 100, "weather_gru": 1344}.get(module)
    example = [28, 28, 1] if unit == "image" else [length, 20] if module == "weather_gru" else [length]
    examples = int(examples * cell.fraction)
    return schema.WorkloadFacts(
        unit=unit, input_shape=[cell.batch_size, *example], parameters=weights, trainable_parameters=weights,
        training_examples=examples, validation_examples=validation,
        steps_per_epoch=workload.steps_per_epoch or max(1, examples // cell.batch_size),
        flops_per_step=flops * cell.batch_size * (length / 100 if length else 1), metric=metric,
        higher_is_better=metric is not None,
    )  # fmt: skip


def _asked(study: Study, run: Run, module: str, learn: bool, source: str) -> schema.Request:
    cell, device, workload = run.cell, study.devices[run.cell.device], study.workloads[run.cell.workload]
    return schema.Request(
        device=cell.device, kind=device.kind, replicas=device.replicas, workload=cell.workload, module=module,
        backend=cell.backend, precision=cell.precision, batch_size=cell.batch_size, fraction=cell.fraction,
        loop=cell.loop, sequence_length=cell.sequence_length, repeat=run.repeat, seed=study.seed,
        epochs=study.train.epochs or 10, steps_per_epoch=workload.steps_per_epoch, validation=True, learn=learn,
        seconds=study.measure.seconds, min_steps=study.measure.min_steps, timeout=study.measure.timeout, profile=False,
        dataset=FACTS[module][5] if module in FACTS else None, source=source if module in FACTS else None,
    )  # fmt: skip


def _epochs(
    study: Study, module: str, facts: schema.WorkloadFacts, step_time: float, random: np.random.Generator
) -> list[schema.Epoch]:
    steps = facts.steps_per_epoch
    found = []
    for epoch in range(1, (10 if study.train.epochs is None else study.train.epochs) + 1):
        loss = 0.9 * float(np.exp(-0.5 * epoch)) + 0.08 + float(random.normal(0, 0.004))
        quality = None if facts.metric is None else 0.985 - 0.35 * float(np.exp(-0.6 * epoch))
        found.append(
            schema.Epoch(
                epoch=epoch,
                seconds=steps * step_time * float(np.exp(random.normal(0, 0.02))) + (2 if epoch == 1 else 0),
                validation_seconds=0.1 * steps * step_time, loss=loss, metric=quality, validation_loss=loss * 1.1,
                validation_metric=quality and quality - 0.004, learning_rate=1e-3,
            )
        )  # fmt: skip
    return found


def _results(module: str, epochs: list[schema.Epoch]) -> dict[str, Any]:
    if not epochs:
        return {}
    last = epochs[-1]
    results = {"loss": last.loss, "validation_loss": last.validation_loss}
    if last.metric is not None:
        results |= {"training_accuracy": last.metric, "validation_accuracy": last.validation_metric}
    if FACTS[module][0] == "image":
        results |= {"misclassified": 198, "test_images": 10_000}
    return results


def runs_row(record: Record) -> dict[str, Any]:
    """The row of table `runs` of a record that was never written."""
    return run_row(record, f"{record.run}/record.json")

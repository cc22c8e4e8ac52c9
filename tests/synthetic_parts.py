"""What synthetic records are made of: facts of workloads, machines, speeds and learning, all plausible and fixed."""

from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np

from whichdevice.base.parts import GENERATED_UNIT
from whichdevice.measure.record import (
    PREDICTION,
    Energy,
    Epoch,
    Generated,
    Latency,
    Machine,
    Noise,
    Request,
    Software,
    Steady,
    Types,
    WorkloadFacts,
)
from whichdevice.study.cells import Cell, Run
from whichdevice.study.config.model import Device, Study, Workload

STARTED = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
SPEED = {"cpu": 1.0, "gpu": 14.0, "tpu": 30.0}  # times the processor
BACKENDS = {"tensorflow": 1.0, "jax": 0.7, "torch": 0.9}  # times TensorFlow
INITIALISE = {"cpu": 0.01, "gpu": 0.8, "tpu": 10.5}  # seconds
DEVICE_NAMES = {"cpu": "Example CPU 3.6 GHz", "gpu": "Example GPU 40 GB", "tpu": "Example TPU v2"}
# module: unit, floating-point operations per example, weights, training examples, validation examples, dataset, metric
FACTS: dict[str, tuple[str, float, int, int, int, str | None, str | None]] = {
    "mnist_official": ("image", 5.6e7, 1_643_370, 60_000, 10_000, "mnist", "accuracy"),
    "mnist_cnn": ("image", 4.2e7, 412_778, 60_000, 10_000, "mnist", "accuracy"),
    "fashion_cnn": ("image", 5.1e8, 1_619_470, 60_000, 10_000, "fashion_mnist", "accuracy"),
    "shakespeare_lstm": ("sequence", 1.3e9, 4_460_800, 11_000, 0, "tiny_shakespeare", "accuracy"),
    "weather_gru": ("sequence", 8.3e8, 821_763, 5_000, 500, "weather_denmark", None),
}


def step_time_of(cell: Cell, device: Device, facts: WorkloadFacts) -> float:
    """Seconds of a step without noise: operations at the device's rate, and what each step costs besides."""
    if facts.unit == "gigabyte":
        return facts.bytes_per_step / (2e10 * SPEED[device.kind])
    rate = 1.6e11 * SPEED[device.kind] * BACKENDS[cell.backend] * (1.9 if "16" in cell.precision else 1.0)
    rate *= device.replicas if device.kind == "gpu" else 1  # a TPU's cores are in its speed, a CPU's replicas virtual
    each = {"cpu": 0.002, "gpu": 0.004, "tpu": 0.02}[device.kind] + 0.0005 * (device.replicas - 1)
    return facts.flops_per_step / rate + each


def units_of(cell: Cell, facts: WorkloadFacts, replicas: int) -> float:
    """What throughput counts, of one step."""
    return {"product": replicas, "gigabyte": facts.bytes_per_step / 1e9}.get(facts.unit, cell.batch_size)


def surroundings_of(kind: str, precision: str) -> dict[str, Any]:
    """What all runs on a kind of device share: machine, software, energy, noise and times."""
    return {
        "machine": Machine(
            device_name=DEVICE_NAMES[kind], cpu=DEVICE_NAMES["cpu"], cores=8, physical_cores=4, threads=8,
            memory=32 * 2**30, operating_system="Linux 6.1",
        ),
        "software": Software(
            python="3.11.9", versions={"tensorflow": "2.21.0", "keras": "3.15.1", "numpy": "2.4.6"},
            git_commit="0123456789abcdef", code_hash="abc123", flags={"jit_compile": "off"},
            types=types_of(kind, precision),
        ),
        "energy": Energy(reason="no meter"),
        "noise": Noise(calibration_before=0.1, calibration_after=0.101, load_before=0.4, steal=0.0),
        "started": STARTED,
        "ended": STARTED + timedelta(seconds=30),
    }  # fmt: skip


def latency_of(step_time: float) -> Latency:
    """Calls of which few take much longer than the others."""
    return Latency(calls=400, p50=0.95 * step_time, p99=1.8 * step_time)


def generated_of(cell: Cell, step_time: float) -> Generated:
    """Prompts of half the sequences, which take as long as three tokens of each."""
    prompt = (cell.sequence_length or 100) // 2
    return Generated(
        prompt=prompt, cache_bytes=1e4 * prompt * cell.batch_size,
        prefill=Steady(
            windows=[(4, 12 * step_time)], steps=4, seconds=12 * step_time, step_time=3 * step_time,
            throughput=cell.batch_size * prompt / (3 * step_time),
        ),
    )  # fmt: skip


def types_of(kind: str, precision: str) -> Types:
    """Number formats as asked for; a CPU without bfloat16 makes such products of others."""
    product = precision.removeprefix("mixed_")
    emulated = f"this CPU has no {product} products" if kind == "cpu" and "16" in product else None
    storage = "float32" if precision.startswith("mixed_") or precision == "tf32" else precision
    return Types(storage=storage, product=product, sum="float32", emulated=emulated)


def facts_of(cell: Cell, module: str, workload: Workload, replicas: int) -> WorkloadFacts:
    """What a workload turns out to be."""
    if module == "memory_stream":
        moved = 3.0 * cell.batch_size * 2**20 * replicas
        return WorkloadFacts(
            unit="gigabyte", input_shape=[cell.batch_size, 2**18], flops_per_step=moved / 12, bytes_per_step=moved
        )
    if module not in FACTS:  # matmul, or a user's own operation
        flops = 2.0 * cell.batch_size**3 * replicas  # every replica runs it
        moved = 12.0 * cell.batch_size**2 * replicas
        return WorkloadFacts(
            unit="product", input_shape=[cell.batch_size] * 2, flops_per_step=flops, bytes_per_step=moved
        )
    unit, flops, weights, examples, validation, _, metric = FACTS[module]
    length = cell.sequence_length or {"shakespeare_lstm": 100, "weather_gru": 1344}.get(module)
    example = [28, 28, 1] if unit == "image" else [length, 20] if module == "weather_gru" else [length]
    if workload.mode != "train":
        predicts = workload.mode == "predict"
        return WorkloadFacts(
            unit=PREDICTION if predicts else GENERATED_UNIT, input_shape=[cell.batch_size, *example],
            parameters=weights, trainable_parameters=weights, flops_per_step=flops / 3 * cell.batch_size,
            bytes_per_step=4.0 * weights + (1e5 * cell.batch_size if predicts else 0.0),
        )  # fmt: skip
    examples = int(examples * cell.fraction)
    return WorkloadFacts(
        unit=unit, input_shape=[cell.batch_size, *example], parameters=weights, trainable_parameters=weights,
        training_examples=examples, validation_examples=validation,
        steps_per_epoch=workload.steps_per_epoch or max(1, examples // cell.batch_size),
        flops_per_step=flops * cell.batch_size * (length / 100 if length else 1), metric=metric,
        bytes_per_step=12.0 * weights + 2e5 * cell.batch_size * (length / 10 if length else 1),
        higher_is_better=metric is not None,
    )  # fmt: skip


def asked_of(study: Study, run: Run, module: str, learn: bool, source: str) -> Request:
    """What was asked of the run."""
    cell, device, workload = run.cell, study.devices[run.cell.device], study.workloads[run.cell.workload]
    return Request(
        device=cell.device, kind=device.kind, replicas=device.replicas, workload=cell.workload, module=module,
        backend=cell.backend, precision=cell.precision, batch_size=cell.batch_size, fraction=cell.fraction,
        sequence_length=cell.sequence_length, repeat=run.repeat, seed=study.seed,
        epochs=study.train.epochs or 10, steps_per_epoch=workload.steps_per_epoch, validation=True, learn=learn,
        seconds=study.measure.seconds, min_steps=study.measure.min_steps, timeout=study.measure.timeout,
        mode=workload.mode if module in FACTS else None,
        dataset=FACTS[module][5] if module in FACTS else None, source=source if module in FACTS else None,
    )  # fmt: skip


def epochs_of(
    study: Study, facts: WorkloadFacts, step_time: float, random: np.random.Generator
) -> list[Epoch]:
    """As many epochs as the study learns, their loss falling and their quality rising."""
    steps = facts.steps_per_epoch
    found = []
    for epoch in range(1, (10 if study.train.epochs is None else study.train.epochs) + 1):
        loss = 0.9 * float(np.exp(-0.5 * epoch)) + 0.08 + float(random.normal(0, 0.004))
        quality = None if facts.metric is None else 0.985 - 0.35 * float(np.exp(-0.6 * epoch))
        found.append(
            Epoch(
                epoch=epoch,
                seconds=steps * step_time * float(np.exp(random.normal(0, 0.02))) + (2 if epoch == 1 else 0),
                validation_seconds=0.1 * steps * step_time, loss=loss, metric=quality, validation_loss=loss * 1.1,
                validation_metric=quality and quality - 0.004, learning_rate=1e-3,
            )
        )  # fmt: skip
    return found


def results_of(module: str, epochs: list[Epoch]) -> dict[str, Any]:
    """Final numbers of a run that learned."""
    if not epochs:
        return {}
    last = epochs[-1]
    results = {"loss": last.loss, "validation_loss": last.validation_loss}
    if last.metric is not None:
        results |= {"training_accuracy": last.metric, "validation_accuracy": last.validation_metric}
    if FACTS[module][0] == "image":
        results |= {"misclassified": 198, "test_images": 10_000}
    return results

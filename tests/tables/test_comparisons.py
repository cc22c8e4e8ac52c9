"""Comparisons of two choices at equal work: of devices, settings and replicas, paired by repeat."""

from collections.abc import Callable

import pandas as pd
import pytest
import synthetic

from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Workload
from whichdevice.study.tables.comparisons import BEST, DEVICE, REPLICAS, comparisons_table
from whichdevice.study.tables.decision_rule import FASTER

JITTER = {1: 0.99, 2: 1.0, 3: 1.01}
BOTH = {"gpu": Device(kind="gpu"), "cpu": Device(kind="cpu")}


def study_of(devices: dict[str, Device] | None = None, repeats: int = 3, **workload: object) -> Study:
    settings = Workload(**({"module": "mnist_cnn", "batch_size": [256]} | workload))  # type: ignore[arg-type]
    return synthetic.small_study(
        devices=devices or BOTH, workloads={"own": settings}, measure=Measure(repeats=repeats)
    )


def rows_of(axis: str, study: Study, speed: Callable[[Run], float | None]) -> pd.DataFrame:
    """The table's rows of one axis, where each run has this throughput and repeats differ by a per cent."""

    def jittered(run: Run) -> float | None:
        value = speed(run)
        return value and value * (1 if run.cell.device == "cpu" else JITTER[run.repeat])

    found = comparisons_table(synthetic.runs_table(study, jittered), study)
    return found[found["axis"] == axis]


def test_devices_of_two_machines_are_compared_as_any_others_and_it_is_said() -> None:
    study = study_of()
    runs = synthetic.runs_table(study, lambda run: {"cpu": 1.0, "gpu": 9.0}[run.cell.device] * JITTER[run.repeat])
    elsewhere = runs.assign(cpu=runs["cpu"].where(runs["device"] == "cpu", "another processor"))
    rows = comparisons_table(elsewhere, study)
    assert set(rows["setting"]) == {"2 machines, 2 sessions"} and set(rows["verdict"]) == {FASTER}


def test_devices_without_a_common_backend_are_compared_by_their_own_best() -> None:
    own = {"cpu": "tensorflow", "gpu": "jax"}

    def speed(run: Run) -> float | None:
        return {"cpu": 1.0, "gpu": 9.0}[run.cell.device] if own[run.cell.device] == run.cell.backend else None

    study = study_of(backend=["tensorflow", "jax"])
    assert rows_of(DEVICE, study, speed).empty
    (row,) = rows_of(BEST, study, speed).itertuples()
    assert (row.baseline_backend, row.backend, row.verdict) == ("tensorflow", "jax", FASTER)


def test_settings_whose_other_repeats_failed_are_no_best() -> None:
    """One quick repeat of three may be lucky, and one pair decides nothing."""

    def speed(run: Run) -> float | None:
        quick = run.cell.device == "gpu" and run.cell.backend == "torch"
        return None if quick and run.repeat > 1 else {"cpu": 1.0, "gpu": 42.0 if quick else 40.0}[run.cell.device]

    (row,) = rows_of(BEST, study_of(backend=["jax", "torch"]), speed).itertuples()
    assert (row.backend, row.n) == ("jax", 3)


def test_two_models_of_one_name_are_never_compared() -> None:
    study = study_of()
    runs = synthetic.runs_table(study, lambda run: {"cpu": 100.0, "gpu": 900.0}[run.cell.device])
    assert len(comparisons_table(runs, study)) == 2
    assert comparisons_table(runs.assign(parameters=runs["parameters"].where(runs["kind"] == "cpu", 7)), study).empty


def test_all_comparisons_along_one_axis_are_one_family() -> None:
    """A ratio that alone is sure is not so any more beside nine others."""

    def speed(run: Run) -> float:
        ratio = 1.06 if run.cell.batch_size == 64 else 1.02
        return 1.0 if run.cell.device == "cpu" else ratio * {1: 0.995, 2: 1.0, 3: 1.005}[run.repeat]

    alone = rows_of(DEVICE, study_of(batch_size=[64]), speed)
    many = rows_of(DEVICE, study_of(batch_size=[64 + size for size in range(10)]), speed)
    assert alone["verdict"].tolist() == [FASTER]
    assert many.loc[many["batch_size"] == 64, "verdict"].tolist() != [FASTER]


COUNTS = {"gpu1": 1, "gpu2": 2, "gpu4": 4}


def scaled(kind: str = "gpu", names: dict[str, str] | None = None, module: str = "mnist_cnn") -> pd.DataFrame:
    """Replicas that are 0.8 times as good with every doubling; drift hits all devices of a repeat alike."""
    devices = {name: Device(kind=kind, replicas=count) for name, count in COUNTS.items()}  # type: ignore[arg-type]
    study = study_of(devices, module=module, batch_size=[256, 512, 1024])
    speed = {"gpu1": 1.0, "gpu2": 1.6, "gpu4": 2.56}
    runs = synthetic.runs_table(study, lambda run: 100 * speed[run.cell.device] * run.repeat)
    if names:
        runs["device_name"] = runs["device"].map(names)
    found = comparisons_table(runs, study)
    return found[found["axis"] == REPLICAS]


def test_replicas_are_compared_with_the_fewest_at_the_same_batch_in_all_and_on_each() -> None:
    rows = scaled()
    ratios = rows.groupby(["baseline", "compared"])["ratio"].mean().to_dict()
    assert ratios == pytest.approx({("1", "2"): 1.6, ("1", "4"): 2.56, ("2", "4"): 1.6})
    four = rows[(rows["baseline"] == "1") & (rows["compared"] == "4")]
    sizes = zip(four["baseline_batch_size"], four["batch_size"], strict=True)
    assert set(sizes) == {(256, 256), (512, 512), (1024, 1024), (256, 1024)}
    operations = scaled(module="matmul")  # each replica makes the whole product
    assert (operations["baseline_batch_size"] == operations["batch_size"]).all() and len(operations) == 6


def test_devices_of_other_names_and_virtual_replicas_on_a_cpu_are_no_scaling() -> None:
    assert scaled(names={"gpu1": "A", "gpu2": "B", "gpu4": "C"}).empty
    rows = scaled(names={"gpu1": "A", "gpu2": "B", "gpu4": "B"})
    assert set(zip(rows["baseline_device"], rows["device"], strict=True)) == {("gpu2", "gpu4")}
    assert scaled(kind="cpu").empty

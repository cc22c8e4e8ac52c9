"""What more replicas bring: strong and weak scaling against the fewest, paired by repeat."""

import pandas as pd
import pytest
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Workload
from whichdevice.records.schema import Record
from whichdevice.tables.speedups import REHEARSAL, scaling_table

COUNTS = {"gpu1": 1, "gpu2": 2, "gpu4": 4}


def found(kind: str = "gpu", module: str = "mnist_cnn", names: dict[str, str] | None = None) -> pd.DataFrame:
    """Replicas that are 0.8 times as good with every doubling; drift hits all devices of a repeat alike."""
    study = synthetic.small_study(
        devices={name: Device(kind=kind, replicas=count) for name, count in COUNTS.items()},  # type: ignore[arg-type]
        workloads={"own": Workload(module=module, batch_size=[256, 512, 1024])},
        measure=Measure(repeats=3),
    )
    speed = {"gpu1": 1.0, "gpu2": 1.6, "gpu4": 2.56}

    def throughput(run: Run) -> float:
        return 100 * speed[run.cell.device] * run.repeat

    runs = synthetic.runs_table(study, throughput)
    if names:
        runs["device_name"] = runs["device"].map(names)
    return scaling_table(runs, study)


def test_weak_scaling_keeps_the_batch_of_each_replica() -> None:
    weak = found().query("scaling == 'weak'")
    pairs = weak[["baseline", "baseline_batch_size", "device", "batch_size"]].apply(tuple, axis=1).tolist()
    assert ("gpu1", 256, "gpu2", 512) in pairs and ("gpu1", 256, "gpu4", 1024) in pairs
    assert ("gpu2", 256, "gpu4", 512) in pairs  # 128 each: the fewest replicas that ran it are two
    assert weak["replica_batch_size"].isin([128, 256, 512]).all()
    row = weak[(weak["baseline"] == "gpu2")].iloc[0]
    assert (row["ratio"], row["efficiency"]) == (pytest.approx(1.6), pytest.approx(0.8))


def test_two_models_of_one_name_are_no_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    row = synthetic.runs_row

    def wider(record: Record) -> dict[str, object]:
        return row(record) | ({"parameters": 7} if record.asked.device == "gpu4" else {})

    monkeypatch.setattr(synthetic, "runs_row", wider)
    pairs = found()[["baseline", "device"]].apply(tuple, axis=1)
    assert set(pairs) == {("gpu1", "gpu2")}


def test_operations_run_on_every_replica_and_scale_weakly_alone() -> None:
    rows = found(module="matmul")
    assert set(rows["scaling"]) == {"weak"}
    assert (rows["batch_size"] == rows["baseline_batch_size"]).all()
    assert set(rows["quantity"]) == {"tflops"}


def test_virtual_replicas_on_a_cpu_are_marked_as_a_rehearsal() -> None:
    assert set(found(kind="cpu")["note"]) == {REHEARSAL}
    assert found()["note"].isna().all()


def test_devices_of_other_names_are_not_compared() -> None:
    assert found(names={"gpu1": "A", "gpu2": "B", "gpu4": "C"}).empty
    rows = found(names={"gpu1": "A", "gpu2": "B", "gpu4": "B"})
    assert set(zip(rows["baseline"], rows["device"], strict=True)) == {("gpu2", "gpu4")}


def test_one_replica_count_is_no_scaling() -> None:
    study = synthetic.small_study()
    assert scaling_table(synthetic.runs_table(study, lambda run: 100.0), study).empty

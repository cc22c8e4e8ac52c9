"""What more replicas bring: strong and weak scaling against the fewest, paired by repeat."""

import pandas as pd
import pytest
import synthetic

from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Workload
from whichdevice.study.tables.speedups import REHEARSAL, scaling_table

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


def test_two_models_of_one_name_are_no_scaling(monkeypatch: pytest.MonkeyPatch) -> None:
    row = synthetic.runs_row

    def wider(record: Record) -> dict[str, object]:
        return row(record) | ({"parameters": 7} if record.asked.device == "gpu4" else {})

    monkeypatch.setattr(synthetic, "runs_row", wider)
    pairs = found()[["baseline", "device"]].apply(tuple, axis=1)
    assert set(pairs) == {("gpu1", "gpu2")}


def test_virtual_replicas_on_a_cpu_are_marked_as_a_rehearsal() -> None:
    assert set(found(kind="cpu")["note"]) == {REHEARSAL}
    assert found()["note"].isna().all()


def test_devices_of_other_names_are_not_compared() -> None:
    assert found(names={"gpu1": "A", "gpu2": "B", "gpu4": "C"}).empty
    rows = found(names={"gpu1": "A", "gpu2": "B", "gpu4": "B"})
    assert set(zip(rows["baseline"], rows["device"], strict=True)) == {("gpu2", "gpu4")}

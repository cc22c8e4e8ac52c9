"""Measured roofs and sheets, and each cell against them: known records in, exact numbers out."""

from typing import Any

import pandas as pd
import pytest
import synthetic
from beside import beside

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.record import Record, Steady
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Workload
from whichdevice.study.tables.hardware import sheet_peak, sheet_row, wrong_row
from whichdevice.study.tables.limits import limits_table, roofline_table
from whichdevice.study.tables.summary import summary_table

BESIDE = beside(__file__)

TFLOPS = {("matmul", 512): 0.1, ("matmul", 1024): 0.2, ("mnist_cnn", 256): 0.05}
GBS = 20.0


def study_of(**changes: object) -> Study:
    """Two backends' products in two sizes, a stream, one model."""
    settings = {
        "devices": {"cpu": Device(kind="cpu")},
        "measure": Measure(repeats=2),
        "workloads": {
            "matmul": Workload(batch_size=[512, 1024], backend=["tensorflow", "jax"]),
            "memory_stream": Workload(batch_size=[64]),
            "mnist_cnn": Workload(batch_size=[256]),
        },
    }
    return synthetic.small_study(**(settings | changes))


def exact(run: Run, record: Record) -> Record:
    """The same record at exactly the speed of TFLOPS (JAX half of it) or GBS."""
    facts, cell = record.workload, run.cell
    if facts.unit == "gigabyte":
        step_time = facts.bytes_per_step / (GBS * 1e9)
    else:
        rate = TFLOPS[(cell.workload, cell.batch_size)] * (0.5 if cell.backend == "jax" else 1)
        step_time = facts.flops_per_step / (rate * 1e12)
    record.steady = Steady(steps=10, seconds=10 * step_time, throughput=1 / step_time)
    return record


def limits_of(workloads: dict[str, Workload], speeds: dict[int, float], failed: tuple[int, int] = (0, 0)) -> Any:
    """Tables `limits` and `roofline` of five repeats, speeds by size; of size `failed[0]` so many repeats failed."""
    study = study_of(measure=Measure(repeats=5), workloads=workloads)
    runs = synthetic.runs_table(study, lambda run: speeds[run.cell.batch_size])
    bad = (runs["batch_size"] == failed[0]) & (runs["repeat"] <= failed[1])
    runs = runs.assign(last_level_cache=32 * 2**20, status=runs["status"].mask(bad, "failed"))
    summary = summary_table(runs)
    limits = limits_table(summary, runs, study, hardware_rows())
    return limits, roofline_table(summary, limits)


def test_the_bandwidth_is_of_arrays_that_no_cache_holds_where_there_are_any() -> None:
    streams = {"memory_stream": Workload(batch_size=[64, 128, 256]), "matmul": Workload(batch_size=[512])}
    limits, roofline = limits_of(streams, {64: 50.0, 128: 20.0, 256: 19.0, 512: 100.0})
    assert limits[["bandwidth_gbs", "device_bandwidth_gbs"]].iloc[0].tolist() == pytest.approx([20.0, 20.0])
    assert limits["bandwidth_size"].iloc[0] == 128
    assert limits["note"].isna().all() and roofline["note"].isna().all()


def test_where_all_arrays_may_lie_in_a_cache_every_row_that_uses_them_says_so() -> None:
    workloads = {
        "memory_stream": Workload(batch_size=[64]),
        "matmul": Workload(backend=["tensorflow", "jax"], batch_size=[512]),
    }
    limits, roofline = limits_of(workloads, {64: 50.0, 512: 100.0})
    assert limits["device_bandwidth_gbs"].tolist() == pytest.approx([50.0, 50.0])
    assert limits["note"].str.contains("below 4 times the last-level cache of 32 MiB").tolist() == [True, True]
    assert roofline["note"].str.contains("last-level cache").all()


def test_one_lucky_repeat_sets_no_peak_and_no_bandwidth() -> None:
    speeds = {512: 100.0, 1024: 100.0, 128: 20.0, 256: 40.0}
    workloads = {"matmul": Workload(batch_size=[512, 1024]), "memory_stream": Workload(batch_size=[128, 256])}
    few, _ = limits_of(workloads, speeds, failed=(1024, 4))
    assert few["peak_size"].item() == 512
    assert few["device_peak_tflops"].item() == pytest.approx(few["peak_tflops"].item())
    assert limits_of(workloads, speeds, failed=(256, 4))[0]["device_bandwidth_gbs"].item() == pytest.approx(20.0)
    enough, _ = limits_of(workloads, speeds, failed=(1024, 2))
    assert enough["peak_size"].item() == 1024


@pytest.mark.parametrize(("name", "row"), BESIDE["a device finds its sheet by name or has none"])
def test_a_device_finds_its_sheet_by_name_or_has_none(name: str | None, row: str | None) -> None:
    assert sheet_row("cpu", name, synthetic.small_study(), hardware_rows()) == row


def test_a_device_that_calls_itself_as_another_row_has_no_sheet_and_it_is_said_what_to_set() -> None:
    study = synthetic.small_study(devices={"tpu": Device(kind="tpu", replicas=8, hardware="TPU v2")})
    for name, row in {"TPU v3": "TPU v3", "TPU v5 lite": "TPU v5e", "TPU v6e": "TPU v6e"}.items():
        assert sheet_row("tpu", name, study, hardware_rows()) is None
        assert wrong_row("tpu", name, study, hardware_rows()) == (
            f"devices.tpu.hardware is TPU v2, and the device is a {row}: set devices: {{tpu: {{hardware: {row}}}}}"
        )


@pytest.mark.parametrize(
    ("row", "product", "replicas", "cores", "tflops", "gbs"),
    BESIDE["a sheet counts chips and of a processor the cores used"]
)
def test_a_sheet_counts_chips_and_of_a_processor_the_cores_used(row, product, replicas, cores, tflops, gbs) -> None:
    found = sheet_peak(row, product, replicas, cores, hardware_rows())
    assert (found.tflops, found.gigabytes) == (pytest.approx(tflops) if tflops else None, pytest.approx(gbs))


@pytest.mark.parametrize(("threads", "physical", "cores"), [(2, 1, 1), (8, 64, 8), (2, None, None)])
def test_two_threads_of_one_core_are_one_core_of_the_sheet(threads, physical, cores, tmp_path) -> None:
    study = study_of(devices={"cpu": Device(kind="cpu", hardware="EPYC 7763")})

    def change(run: Run, record: Record) -> Record:
        seen = {"threads": threads, "physical_cores": physical}
        return exact(run, record.model_copy(update={"machine": record.machine.model_copy(update=seen)}))

    found = synthetic.results(study, tmp_path, change=change).limits["sheet_tflops"].iloc[0]
    assert found == pytest.approx(5.018 * cores / 64, rel=1e-5) if cores else pd.isna(found)


def test_a_stream_whose_interval_is_wider_than_a_factor_of_three_sets_no_roof() -> None:
    workloads = {"memory_stream": Workload(batch_size=[128]), "matmul": Workload(batch_size=[512])}
    study = study_of(measure=Measure(repeats=3), workloads=workloads)
    for spread, known in ((1.02, True), (6.0, False)):
        runs = synthetic.runs_table(study, lambda run, spread=spread: 20.0 * spread ** (run.repeat - 2))
        limits = limits_table(summary_table(runs), runs, study, hardware_rows())
        assert limits["device_bandwidth_gbs"].notna().all() == known
        assert limits["note"].str.contains("factor of three").fillna(False).all() == (not known)

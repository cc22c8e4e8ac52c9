"""What the page says of cost and energy: no claim without a price or a meter."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import synthetic
from synthetic_energy import metered

from whichdevice.measure.record import Energy, Pipeline, PipelineRate, Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Train, Workload
from whichdevice.study.report.contents import cost_section


def section(
    folder: Path,
    change: Callable[[Run, Record], Record],
    usd: float | None = None,
    repeats: int = 4,
) -> dict[str, Any]:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=usd), "gpu": Device(kind="gpu", usd_per_hour=usd)},
        workloads={"mnist_cnn": Workload(batch_size=[256, 1024])},
        measure=Measure(repeats=repeats),
        train=Train(epochs=4, repeats=2),
    )
    return cost_section(synthetic.results(study, folder, change=change))


def without_meter(run: Run, record: Record) -> Record:
    record.energy = Energy(reason="no meter: no RAPL counter")
    return record


def with_meter(run: Run, record: Record) -> Record:
    return metered(record)


def test_without_price_and_meter_it_only_says_what_is_missing(tmp_path: Path) -> None:
    found = section(tmp_path, without_meter)
    assert found["rows"] == []
    assert found["prices"][0] == "cpu: no price: set devices.cpu.usd_per_hour"
    assert found["meters"] == ["cpu: no meter: no RAPL counter", "gpu: no meter: no RAPL counter"]


def test_a_pipeline_that_is_slower_than_the_step_is_told(tmp_path: Path) -> None:
    def fed(run: Run, record: Record) -> Record:
        rate = 0.5 * (record.steady.throughput or 0.0) if record.asked.kind == "gpu" else 1e9
        rates = [PipelineRate(workers=0, examples_per_second=rate, first_seconds=0.1)]
        record.pipeline = Pipeline(rates=rates)
        return record

    cpu, _, gpu, _ = section(tmp_path, fed, repeats=1)["pipelines"]
    assert cpu.startswith("mnist_cnn, cpu (tensorflow, b256): ") and cpu.endswith("% of the step")
    assert gpu.endswith("200 % of the step: the device waits for it 50 % of the time")


def test_a_reading_as_short_as_the_meters_update_is_told(tmp_path: Path) -> None:
    meters = section(tmp_path, with_meter)["meters"]
    assert meters[0] == "cpu: RAPL of 1 processor package, 100 W over the steady state"
    assert "may hide up to" in meters[1] and meters[1].endswith("take more measure.seconds")


def test_of_each_device_its_cheapest_settings_stand_beside_the_cheapest_device(tmp_path: Path) -> None:
    def change(run: Run, record: Record) -> Record:
        times = {"cpu": 1.0, "gpu": 3.0}[run.cell.device] * (1.2 if run.cell.batch_size == 256 else 1)
        return synthetic.slowed(record, times * 1024 / (1000 * run.cell.batch_size) * record.steady.throughput)

    rows = section(tmp_path, change, usd=1.0)["rows"]
    assert [(row["where"], row["what"], row["n"], row["times"]) for row in rows] == [
        ("cpu (tensorflow, b1024)", "USD", 4, "lowest"), ("gpu (tensorflow, b1024)", "USD", 4, "×3"),
    ]  # fmt: skip

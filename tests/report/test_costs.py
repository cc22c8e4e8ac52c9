"""What the page says of cost, energy and targets: no claim without a price, a meter or a verdict."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
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
    target: float = 0.9,
) -> dict[str, Any]:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=usd), "gpu": Device(kind="gpu", usd_per_hour=usd)},
        workloads={"mnist_cnn": Workload(batch_size=[256, 1024], target=target)},
        measure=Measure(repeats=repeats),
        train=Train(epochs=4, repeats=2),
    )
    config, paths = synthetic.write_study(study, folder, change=change, artefacts=False)
    return cost_section(synthetic.Results(config, paths))


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
    assert cpu.startswith("mnist_cnn, cpu (tensorflow, b256), what feeds fit: ") and cpu.endswith("% of the step")
    assert gpu.endswith("200 % of the step: the device waits for it 50 % of the time")


def test_a_reading_as_short_as_the_meters_update_is_told(tmp_path: Path) -> None:
    meters = section(tmp_path, with_meter)["meters"]
    assert meters[0] == "cpu: RAPL of 1 processor package, 100 W over the steady state"
    assert "may hide up to" in meters[1] and meters[1].endswith("take more measure.seconds")


def test_a_mean_stands_only_where_every_seed_got_there(tmp_path: Path) -> None:
    def diverging(run: Run, record: Record) -> Record:
        for epoch in record.epochs if run.repeat == 2 and run.cell.device == "gpu" else []:
            epoch.validation_metric = 0.1
        return record

    rows = {row["where"]: row for row in section(tmp_path, diverging)["targets"]}
    cpu, gpu = rows["cpu b256"], rows["gpu b256"]
    assert (cpu["reached"], cpu["target"]) == ("2 of 2", "validation accuracy ≥ 0.9")
    assert cpu["epochs"][1].startswith("[") and cpu["usd"] == ("–", "")
    assert (gpu["reached"], gpu["epochs"]) == ("1 of 2", ("never", "median"))
    assert gpu["note"].startswith("best 0.") and gpu["note"].endswith("in 4 epochs")


@pytest.mark.parametrize("target", [0.9999])
def test_a_target_that_nobody_reached_is_never(tmp_path: Path, target: float) -> None:
    rows = section(tmp_path, with_meter, target=target)["targets"]
    assert {row["seconds"] for row in rows} == {("never", "median")}

"""The figures of several devices: where the faster one changes, and throughput by model."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Study, Train, Workload
from whichdevice.figures import draw
from whichdevice.figures.crossover import _crossover_lines, _crossovers_shown
from whichdevice.records.schema import Record
from whichdevice.tables.batch_sizes import device_pairs


def text_of(figure: str, study: Study, folder: Path, **how: Any) -> str:
    """All text of a figure of a study whose every run is ok, or as `how` says."""
    config, paths = synthetic.write_study(study, folder, artefacts=False, **how)
    draw(figure, synthetic.Results(config, paths), folder / "figure.svg", folder / "figure.png")
    return " ".join(ElementTree.parse(folder / "figure.svg").getroot().itertext())


def sweep(sizes: list[int], devices: dict[str, Device], repeats: int = 3, **workload: object) -> Study:
    """One workload at these batch sizes."""
    return synthetic.small_study(
        devices=devices,
        workloads={"mnist_cnn": Workload(batch_size=sizes, **workload)},  # type: ignore[arg-type]
        measure=Measure(repeats=repeats),
        train=Train(epochs=1),
    )


def test_a_crossover_is_told_with_its_interval(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu"), "tpu": Device(kind="tpu", replicas=8)}
    text = text_of("crossover", sweep([2, 8, 32, 128, 512], devices, repeats=5), tmp_path)
    assert "gpu / cpu: equal at " in text and " [" in text
    assert "tpu / gpu: gpu faster throughout" in text
    assert "n = 5 pairs per point; bands and diamonds: 95 % t-interval" in text


def test_one_repeat_has_no_band_and_decides_nothing(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")}
    text = text_of("crossover", sweep([2, 512], devices, repeats=1), tmp_path)
    assert "gpu / cpu: undecided" in text
    assert "no interval from one" in text


def test_lines_of_two_lengths_can_be_told_apart(tmp_path: Path) -> None:
    study = synthetic.small_study(
        workloads={"shakespeare_lstm": Workload(batch_size=[32, 64], sequence_length=[50, 100])},
        measure=Measure(repeats=3),
    )
    config, paths = synthetic.write_study(study, tmp_path, artefacts=False)
    found = synthetic.Results(config, paths)
    first, second = (line.look for line in _crossover_lines(_crossovers_shown(device_pairs(found.runs, study)), found))
    assert first["ls"] != second["ls"] and first["marker"] != second["marker"]


def test_each_sequence_length_has_its_own_bar(tmp_path: Path) -> None:
    workloads = {"shakespeare_lstm": Workload(batch_size=[32], sequence_length=[50, 100])}
    text = text_of("images_per_second", synthetic.small_study(workloads=workloads), tmp_path)
    assert "shakespeare_lstm b32 length 50, cpu" in text and "shakespeare_lstm b32 length 100, gpu" in text


def test_one_lucky_repeat_is_no_models_best(tmp_path: Path) -> None:
    def one_of_large(run: Run, record: Record) -> Record | None:
        return record if run.cell.batch_size == 64 or run.repeat == 1 else None

    study = sweep([64, 1024], {"cpu": Device(kind="cpu")}, repeats=3)
    assert "mnist_cnn b1024" in text_of("images_per_second", study, tmp_path / "all")
    assert "mnist_cnn b64" in text_of("images_per_second", study, tmp_path / "one", change=one_of_large)


def test_virtual_replicas_have_no_bar(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu"), "cpu8": Device(kind="cpu", replicas=8)}
    assert "cpu8" not in text_of("images_per_second", sweep([256], devices), tmp_path / "both")
    alone = text_of("images_per_second", sweep([256], {"cpu8": devices["cpu8"]}), tmp_path / "alone")
    assert "No training throughput was measured, but on virtual replicas" in alone


@pytest.mark.slow
def test_many_devices_many_sizes_and_formats_draw(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu")} | {f"gpu{n}": Device(kind="gpu", replicas=n) for n in (1, 2, 4, 8)}
    sizes = [8 * 2**place for place in range(10)]
    text = text_of("crossover", sweep(sizes, devices, precision=["float32", "mixed_bfloat16"]), tmp_path)
    assert "some pairs left to the tables" in text

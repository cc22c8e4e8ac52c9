"""The figures of several devices: where the faster one changes, and throughput by model."""

from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import synthetic

from whichdevice.config.model import Device, Measure, Study, Train, Workload
from whichdevice.figures import draw


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


def test_a_crossover_has_the_sizes_around_it(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu"), "tpu": Device(kind="tpu", replicas=8)}
    text = text_of("crossover", sweep([2, 8, 32, 128, 512], devices, repeats=5), tmp_path)
    assert "gpu / cpu: equal at " in text and " (" in text
    assert "tpu / gpu: gpu faster throughout" in text
    assert "n = 5 pairs per point; bands: 95 % t-interval" in text


def test_one_repeat_has_no_band_and_decides_nothing(tmp_path: Path) -> None:
    devices = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")}
    text = text_of("crossover", sweep([2, 512], devices, repeats=1), tmp_path)
    assert "gpu / cpu: undecided" in text
    assert "no interval from one" in text

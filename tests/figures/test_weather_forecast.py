"""Forecasts of several devices over one truth: those of other data are named and not drawn."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
import synthetic

from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.figures import learning, style
from whichdevice.records.store import read_record, write_record

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


@pytest.mark.parametrize("name", ["truth", "times"])
def test_a_forecast_of_other_data_is_not_drawn_over_this_truth(name: str, tmp_path: Path) -> None:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")},
        workloads={"weather_gru": Workload(batch_size=[8])},
        measure=Measure(repeats=1),
        train=Train(epochs=1),
    )
    config, paths = synthetic.write_study(study, tmp_path)
    assert labels(config, paths) == (["true", "predicted on cpu", "predicted on gpu"], False)
    path = next(path for path in paths if "/gpu/" in path.as_posix())
    changed(path, name)
    assert labels(config, paths) == (["true", "predicted on cpu"], True)


def labels(config: Path, paths: list[Path]) -> tuple[list[str], bool]:
    """What the legend names, and whether the forecast on the GPU is said to be left out."""
    with style.applied():
        figure = learning.draw_weather_forecast(synthetic.Results(config, paths))
    left_out = "of other data, not drawn: weather_gru on gpu" in figure._footnote  # type: ignore[attr-defined]
    return [str(text) for text in figure.axes[0].get_legend_handles_labels()[1]], left_out


def changed(path: Path, name: str) -> None:
    """One array of a record's forecast, as of other data."""
    record = read_record(path)
    file = path.parent / record.artefacts["forecast"].file
    with np.load(file) as held:
        arrays = dict(held)
    np.savez_compressed(file, **arrays | {name: arrays[name] + 3})
    record.artefacts["forecast"].sha256 = hashlib.sha256(file.read_bytes()).hexdigest()
    write_record(record, path)

"""Accuracy against what it took: a point per cell, the front filled, the rest hollow."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic
from matplotlib.container import ErrorbarContainer
from matplotlib.figure import Figure
from synthetic_energy import metered

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.figures import costs, style
from whichdevice.records.schema import Record
from whichdevice.results import StudyResults

ROOT = Path(__file__).parents[2]


def drawn(
    folder: Path, usd: float | None, meter: bool, accuracy: Callable[[Run], float] | None = None, **workload: Any
) -> Figure:
    """Two devices, one of them slower in everything, and as good where no accuracy is given."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=usd), "gpu": Device(kind="gpu", usd_per_hour=usd)},
        workloads={"mnist_cnn": Workload(**{"batch_size": [1024]} | workload)}, measure=Measure(repeats=2),
        train=Train(epochs=2, repeats=2),
    )  # fmt: skip

    def change(run: Run, record: Record) -> Record:
        if accuracy is not None:
            record.results["validation_accuracy"] = accuracy(run)
        return metered(record) if meter else record

    config, paths = synthetic.write_study(study, folder, change=change, artefacts=False)
    with style.applied():
        return costs.draw_accuracy_pareto(synthetic.Results(config, paths))


def test_only_what_has_data_has_a_panel(tmp_path: Path) -> None:
    assert [axes.get_xlabel() for axes in drawn(tmp_path / "both", 2.0, True).axes] == list(costs.SPENT.values())
    neither = drawn(tmp_path / "neither", None, False)
    assert [axes.get_xlabel() for axes in neither.axes] == ["seconds from process start"]
    assert "no device has a price; no device has a meter" in neither._footnote  # type: ignore[attr-defined]


def test_the_front_is_filled_and_what_it_beats_is_hollow(tmp_path: Path) -> None:
    axes = drawn(tmp_path, None, False).axes[0]
    points = [found.lines[0] for found in axes.containers if isinstance(found, ErrorbarContainer)]
    faces = {float(line.get_xdata()[0]): line.get_markerfacecolor() for line in points}  # type: ignore[index]
    assert len(faces) == 2
    assert (faces[min(faces)] == style.PAPER, faces[max(faces)] == style.PAPER) == (False, True)


def test_a_points_time_is_that_of_start_and_all_epochs(tmp_path: Path) -> None:
    axes = drawn(tmp_path, None, False).axes[0]
    study = StudyResults(tmp_path / "config.yaml", tmp_path / "tables")
    runs = study.runs[study.runs["device"] == "gpu"]
    parts = ["start", "initialise", "load", "build", "first_step", "learning_time"]
    wanted = runs[parts].sum(axis=1).prod() ** 0.5
    drawn_at = min(float(found.lines[0].get_xdata()[0]) for found in axes.containers)  # type: ignore[attr-defined]
    assert drawn_at == pytest.approx(wanted, rel=1e-4)


def test_no_device_takes_the_places_of_another_and_the_front_is_of_all(tmp_path: Path) -> None:
    sizes = [2**place for place in range(4, 16)]
    figure = drawn(tmp_path, None, False, lambda run: 1 / run.cell.batch_size, batch_size=sizes)
    axes = figure.axes[0]
    names = [text.get_text().split()[0] for text in axes.get_legend().get_texts()]
    assert [names.count(device) for device in ("cpu", "gpu")] == [5, 5]
    assert "14 more cells in the tables" in figure._footnote  # type: ignore[attr-defined]
    study = StudyResults(tmp_path / "config.yaml", tmp_path / "tables")
    points = costs._accuracy_pareto_points(costs._runs(study).assign(quality=lambda runs: runs["validation_metric"]))
    steps = next(line for line in axes.lines if line.get_drawstyle() == "steps-post")
    assert min(steps.get_xdata()) == pytest.approx(points["seconds"].min())  # type: ignore[type-var]

"""Quality against time, money and energy: which panels, where the target was reached, and the Pareto front."""

from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from synthetic_energy import metered

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.figures import style, time_to_target
from whichdevice.figures.results import StudyResults
from whichdevice.records.schema import Record
from whichdevice.tables.write import write_tables

ROOT = Path(__file__).parents[2]


def drawn(folder: Path, usd: float | None, meter: bool, target: float = 0.9) -> Figure:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=usd), "gpu": Device(kind="gpu", usd_per_hour=usd)},
        workloads={"mnist_cnn": Workload(batch_size=[1024], target=target)},
        measure=Measure(repeats=2),
        train=Train(epochs=4, repeats=2),
    )

    def change(run: Run, record: Record) -> Record:
        return metered(record) if meter else record

    config, paths = synthetic.write_study(study, folder, change=change, artefacts=False)
    write_tables(config, paths, ROOT / "config/published.csv", folder / "tables")
    with style.applied():
        return time_to_target.draw(StudyResults(config, folder / "tables"))


def labels(figure: Figure) -> list[str]:
    return [axes.get_xlabel() for axes in figure.axes]


def test_only_quantities_with_data_have_a_panel(tmp_path: Path) -> None:
    both = drawn(tmp_path / "both", usd=2.0, meter=True)
    assert labels(both) == list(time_to_target.PANELS.values())
    neither = drawn(tmp_path / "neither", usd=None, meter=False)
    assert labels(neither) == ["seconds from process start"]
    assert "no device has a price; no device has a meter" in neither._footnote  # type: ignore[attr-defined]


def large_markers(axes: Axes) -> int:
    return sum(line.get_markersize() > 5 and len(line.get_xdata()) == 1 for line in axes.lines)  # type: ignore[arg-type]


@pytest.mark.parametrize(("target", "marks"), [(0.9, 2), (0.999, 0)])
def test_a_large_marker_stands_where_the_target_was_reached(tmp_path: Path, target: float, marks: int) -> None:
    axes = drawn(tmp_path, usd=None, meter=False, target=target).axes[0]
    assert large_markers(axes) == marks


@pytest.mark.parametrize("higher", [True, False])
def test_nothing_beats_the_pareto_front_in_both_directions(higher: bool) -> None:
    random = np.random.default_rng(0)
    points = random.uniform(size=(40, 2))
    axes = Figure().add_subplot()
    time_to_target._front(axes, points, higher)
    front = np.column_stack(axes.lines[0].get_data())
    better = (lambda a, b: a >= b) if higher else (lambda a, b: a <= b)
    for x, y in front:
        beaten = (points[:, 0] <= x) & better(points[:, 1], y)
        assert beaten.sum() == 1  # itself
    for x, y in points:
        assert ((front[:, 0] <= x) & better(front[:, 1], y)).any()

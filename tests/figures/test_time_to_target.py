"""Quality against time, money and energy: which panels, where the target was reached, and the Pareto front."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from synthetic_energy import metered

from whichdevice.cells import Run
from whichdevice.config.model import Device, Measure, Train, Workload
from whichdevice.figures import costs, style
from whichdevice.records.schema import Record
from whichdevice.results import StudyResults

ROOT = Path(__file__).parents[2]


def drawn(
    folder: Path,
    usd: float | None,
    meter: bool,
    target: float | None = 0.9,
    then: Callable[[Run, Record], Record] = lambda run, record: record,
    workloads: tuple[str, ...] = ("mnist_cnn",),
) -> Figure:
    """The figure of two devices that learned four epochs with two seeds; `then` changes a record."""
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=usd), "gpu": Device(kind="gpu", usd_per_hour=usd)},
        workloads={name: Workload(batch_size=[1024], target=target) for name in workloads},
        measure=Measure(repeats=2),
        train=Train(epochs=4, repeats=2),
    )

    def change(run: Run, record: Record) -> Record:
        return then(run, metered(record) if meter else record)

    config, paths = synthetic.write_study(study, folder, change=change, artefacts=False)
    with style.applied():
        return costs.draw_time_to_target(synthetic.Results(config, paths))


def labels(figure: Figure) -> list[str]:
    return [axes.get_xlabel() for axes in figure.axes]


def test_only_quantities_with_data_have_a_panel(tmp_path: Path) -> None:
    both = drawn(tmp_path / "both", usd=2.0, meter=True)
    assert labels(both) == list(costs.PANELS.values())
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
    costs._front(axes, points, higher)
    front = np.column_stack(axes.lines[0].get_data())
    better = (lambda a, b: a >= b) if higher else (lambda a, b: a <= b)
    for x, y in front:
        beaten = (points[:, 0] <= x) & better(points[:, 1], y)
        assert beaten.sum() == 1  # itself
    for x, y in points:
        assert ((front[:, 0] <= x) & better(front[:, 1], y)).any()


def late(run: Run, record: Record, epochs: int = 2) -> Record:
    """The run as if `measure.timeout` had ended it after so many epochs."""
    return record.model_copy(update={"status": "timed_out", "reason": "timeout", "epochs": record.epochs[:epochs]})


def curves(figure: Figure, panel: int = 0) -> list[list[float]]:
    """The qualities along each cell's line; the first panel's."""
    return [list(line.get_ydata()) for line in figure.axes[panel].lines if line.get_markersize() == 3.5]  # type: ignore[arg-type]


def test_runs_that_all_ran_out_of_time_are_drawn_as_far_as_they_came(tmp_path: Path) -> None:
    figure = drawn(tmp_path, usd=None, meter=False, then=late)
    assert [len(curve) for curve in curves(figure)] == [2, 2]
    assert "4 of 4 runs ran out of time" in figure._footnote  # type: ignore[attr-defined]


def test_a_line_is_of_all_its_seeds_and_not_of_those_that_went_on(tmp_path: Path) -> None:
    figure = drawn(tmp_path, None, False, then=lambda run, record: late(run, record) if run.repeat == 2 else record)
    study = StudyResults(tmp_path / "config.yaml", tmp_path / "tables")
    cpu = study.epochs[study.epochs["device"] == "cpu"]
    assert curves(figure)[0] == pytest.approx(cpu.groupby("epoch")["validation_metric"].mean().tolist()[:2])
    assert "2 of 4 runs ran out of time" in figure._footnote  # type: ignore[attr-defined]


def test_where_nothing_is_known_of_what_it_took_the_figure_says_so(tmp_path: Path) -> None:
    def untimed(run: Run, record: Record) -> Record:
        return record.model_copy(update={"cold": record.cold.model_copy(update={"load": None})})

    figure = drawn(tmp_path, usd=None, meter=False, then=untimed)
    assert "Runs learned, but what it took is missing" in figure.axes[0].texts[0].get_text()


def test_a_panel_without_a_number_says_why(tmp_path: Path) -> None:
    def unmetered(run: Run, record: Record) -> Record:
        return record if run.cell.workload == "mnist_cnn" else metered(record)

    figure = drawn(tmp_path, None, False, then=unmetered, workloads=("mnist_cnn", "mnist_official"))
    assert [[text.get_text() for text in axes.texts] for axes in figure.axes] == [[], ["no meter"], [], []]


def test_stand_in_and_real_data_are_two_lines(tmp_path: Path) -> None:
    def real(run: Run, record: Record) -> Record:
        if run.repeat == 1 or record.data is None:
            return record
        return record.model_copy(update={"data": record.data.model_copy(update={"source": "files"})})

    figure = drawn(tmp_path, None, False, then=real)
    assert len(curves(figure)) == 4
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert sorted(texts) == ["cpu files", "cpu standin", "gpu files", "gpu standin"]


def test_each_target_has_its_own_panel(tmp_path: Path) -> None:
    def real(run: Run, record: Record) -> Record:
        if run.cell.device == "cpu" or record.data is None:
            return record
        return record.model_copy(update={"data": record.data.model_copy(update={"source": "files"})})

    figure = drawn(tmp_path, None, False, target=None, then=real)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert len(titles) == 2 and "standin" in titles[0] and "files, target 0.98 (published)" in titles[1]
    dotted = [[line.get_ydata()[0] for line in axes.lines if line.get_linestyle() == ":"] for axes in figure.axes]  # type: ignore[index]
    assert all(len(each) == 1 for each in dotted) and dotted[0] != dotted[1]

"""The pictures of a study: measured points are filled, forecasts hollow, and nothing is drawn from nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from matplotlib.axes import Axes
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from synthetic_forecasts import compiled_for

from whichdevice.base.files import WORKFLOW
from whichdevice.study.claims import TODAY
from whichdevice.study.config.model import Device, Measure, Train, Workload
from whichdevice.study.figures import draw, style
from whichdevice.study.figures.claims import draw_claims
from whichdevice.study.figures.cold_start import draw_cold_start
from whichdevice.study.figures.speedups import draw_speedups
from whichdevice.study.figures.training_curves import draw_training_curves
from whichdevice.study.figures.worth_it import draw_worth_it
from whichdevice.study.results import StudyResults

PICTURES = ("speedups", "worth_it", "training_curves", "cold_start", "claims")
DEVICES = ("T4", "H100 SXM", "TPU v5e")
SIZES = (16, 1024, 4096)


@pytest.fixture(scope="module")
def on_a_cpu(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    """A study of one workload on a CPU alone, with forecasts for two GPUs and a TPU at three batch sizes."""
    folder = tmp_path_factory.mktemp("on a cpu")
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"mnist_cnn": Workload(batch_size=[1024])},
        measure=Measure(repeats=3), train=Train(epochs=3, repeats=1),
    )  # fmt: skip
    programs = [
        path
        for size in SIZES
        for path in compiled_for(folder / "compiled", DEVICES, batch_size=size, operations=1e9 * size)
    ]
    return synthetic.results(study, folder, programs)


@pytest.fixture(autouse=True)
def _in_style() -> Iterator[None]:
    with style.applied():
        yield


def drawn(picture: Figure | str) -> Figure:
    assert isinstance(picture, Figure), picture
    return picture


def marks(axes: Axes) -> list[Line2D]:
    """The points that stand for devices, by their kind's marker."""
    return [line for line in axes.lines if line.get_marker() in style.KIND_MARKERS.values()]


def is_hollow(line: Line2D) -> bool:
    return to_hex(line.get_markerfacecolor()) == style.PAPER


@pytest.mark.parametrize("name", [*PICTURES, "roofline"])
def test_nothing_to_draw_leaves_no_png_and_says_why(name: str, tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"of an earlier call")
    nothing = synthetic.results(synthetic.small_study(), tmp_path, change=lambda run, record: None)
    draw(name, nothing, tmp_path / "a.svg", tmp_path / "a.png")
    assert not (tmp_path / "a.png").exists()
    assert "nothing-to-draw" in (tmp_path / "a.svg").read_text(encoding="utf-8")


def test_speedups_have_a_point_for_each_device_hollow_where_it_is_a_forecast(on_a_cpu: StudyResults) -> None:
    (panel,) = drawn(draw_speedups(on_a_cpu)).axes
    assert panel.get_yticklabels()[0].get_text() == "cpu"
    points = marks(panel)
    assert len(points) == 1 + len(DEVICES)
    assert sorted(map(is_hollow, points)) == [False, True, True, True]
    assert [line.get_marker() for line in points if not is_hollow(line)] == ["s"]
    intervals = [line for line in panel.lines if len(line.get_xdata()) == 2 and line.get_alpha()]
    assert len(intervals) == len(DEVICES)


def test_speed_over_this_cpu_is_its_step_time_over_theirs(on_a_cpu: StudyResults) -> None:
    (panel,) = drawn(draw_speedups(on_a_cpu)).axes
    (answer,) = on_a_cpu.answers
    here = answer.here.row.step_time
    for line in marks(panel):
        name = panel.get_yticklabels()[int(line.get_ydata()[0])].get_text()
        there = next(row.step_time for row in answer.work.rows if row.card == name)
        assert line.get_xdata()[0] == pytest.approx(here / there, rel=0.15)


def test_worth_it_has_no_panel_where_little_is_at_stake(on_a_cpu: StudyResults) -> None:
    assert draw_worth_it(on_a_cpu) == "The choice matters little, in time and in money, for mnist_cnn."


def test_worth_it_rings_the_pick_and_joins_the_front(tmp_path: Path) -> None:
    study = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, workloads={"weather_gru": Workload(batch_size=[8], sequence_length=[1344])}
    )
    work = {"workload": "weather_gru", "module": "weather_gru", "batch_size": 8, "sequence_length": 1344}
    on_a_cpu = synthetic.results(study, tmp_path, compiled_for(tmp_path / "compiled", DEVICES, **work))
    (panel,) = drawn(draw_worth_it(on_a_cpu)).axes
    (answer,) = on_a_cpu.answers
    rings = [line for line in panel.lines if line.get_markersize() == 11]
    assert [tuple(line.get_xdata()) for line in rings] == [(answer.pick.seconds / 3600,)]
    priced = [option for option in answer.choices if option.seconds and option.usd is not None]
    assert len(marks(panel)) - len(rings) == len(priced)
    front = [line for line in panel.lines if line.get_color() == style.FAINT]
    assert len(front[0].get_xdata()) == sum(option.on_front for option in priced)
    assert answer.pick.device in [text.get_text() for text in panel.texts]


def test_training_curves_are_of_loss_and_quality_over_time(on_a_cpu: StudyResults) -> None:
    panels = drawn(draw_training_curves(on_a_cpu)).axes
    titles = ["mnist_cnn: loss, 3 epochs", "mnist_cnn: accuracy, 3 epochs"]
    assert [panel.get_title(loc="left") for panel in panels] == titles
    for panel in panels:
        assert [line.get_linestyle() for line in panel.lines] == ["-", "--"]  # training, validation
        assert all(len(line.get_xdata()) == 3 for line in panel.lines)
    times = panels[1].lines[0].get_xdata()
    assert list(times) == sorted(times) and times[0] > 1


def test_cold_start_tells_until_a_device_begins_the_first_step_and_each_later_one(on_a_cpu: StudyResults) -> None:
    (panel,) = drawn(draw_cold_start(on_a_cpu)).axes
    assert len(marks(panel)) == 1 + len(DEVICES)
    assert len([line for line in panel.lines if line.get_marker() == "D"]) == 1 + len(DEVICES)
    first = [line for line in panel.lines if line.get_marker() == "P" and line.get_xdata()[0] > 0]
    assert len(first) == 1 and not is_hollow(first[0])  # nobody ran the others


def test_claims_have_a_panel_for_each_experiment_with_then_above_and_today_below(tmp_path: Path) -> None:
    config, _ = synthetic.write_study(synthetic.small_study(), tmp_path, artefacts=False)
    (tmp_path / "tables").mkdir()
    table = WORKFLOW / "docs/results/tables/published.csv"
    (tmp_path / "tables/published.csv").write_bytes(table.read_bytes())
    panels = drawn(draw_claims(StudyResults(config, tmp_path / "tables"))).axes
    shown = [panel for panel in panels if panel.axison]
    assert len(shown) == 7 and len({panel.get_xlabel() for panel in shown}) == 7
    for panel in shown:
        names = [label.get_text() for label in panel.get_yticklabels()]
        assert len(names) == len(set(names)) and names[-6:] == list(TODAY)
        crosses = [line for line in panel.lines if line.get_marker() == "X"]
        assert [line.get_ydata()[0] for line in crosses] == list(range(len(crosses)))
        assert panel.get_title(loc="left").startswith("Then ") and "today:" in panel.get_title(loc="left")
    titles = [panel.get_title(loc="left").replace("\n", " ") for panel in shown]
    sentences = dict(zip([panel.get_xlabel().split(",")[0] for panel in shown[:3]], titles, strict=False))
    then, today = sentences["weather_gru"].split("; by forecast, ")
    assert then == "Then a TPU v2-8 was 8.6 times a K80" and today.startswith("the same work today: a TPU")
    assert "Then 160 TFLOP/s on a TPU v2-8" in sentences["matmul"]  # what is impossible is not compared

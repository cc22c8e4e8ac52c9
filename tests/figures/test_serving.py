"""Latency and throughput of services: every interval is drawn, and what is not shown is named."""

from pathlib import Path

import synthetic
import synthetic_serving
from matplotlib.figure import Figure

from whichdevice.figures import serving, style
from whichdevice.figures.results import StudyResults
from whichdevice.tables.write import write_tables

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


def drawn(folder: Path, backends: list[str], devices: tuple[str, ...] = ("cpu",)) -> Figure:
    """The figure of one service on these backends and devices."""
    study = synthetic_serving.serving_study(devices)
    workloads = {name: each.model_copy(update={"backend": backends}) for name, each in study.workloads.items()}
    study = study.model_copy(update={"workloads": workloads})
    config, paths = synthetic.write_study(study, folder, change=synthetic_serving.with_serving, artefacts=False)
    write_tables(config, paths, PUBLISHED, folder / "tables")
    with style.applied():
        return serving.draw(StudyResults(config, folder / "tables"))


def test_throughput_against_latency_has_both_intervals(tmp_path: Path) -> None:
    _, throughput = drawn(tmp_path, ["tensorflow"]).axes
    assert [(each.has_xerr, each.has_yerr) for each in throughput.containers] == [(True, True)] * 3  # type: ignore[attr-defined]
    for container in throughput.containers:
        for bars in container.lines[2]:  # type: ignore[attr-defined]
            assert all((first != last).any() for first, last in bars.get_segments())


def test_each_backend_has_its_row_and_others_are_named(tmp_path: Path) -> None:
    figure = drawn(tmp_path, ["tensorflow", "jax"], ("cpu", "gpu"))
    titles = [axes.get_title(loc="left") for axes in figure.axes[::2]]
    assert titles[:2] == [f"serve_mnist_cnn on cpu, {name}, 1 client" for name in ("tensorflow", "jax")]
    left_out = "only in tables/serving.csv: serve_mnist_cnn gpu jax float32"
    assert len(titles) == serving.MOST_ROWS and left_out in figure._footnote  # type: ignore[attr-defined]

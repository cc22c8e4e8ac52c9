"""Figures share lines, labels and files that are the same bytes each time."""

import re
from itertools import combinations, pairwise
from pathlib import Path

import numpy as np
import pytest
import synthetic
from matplotlib.figure import Figure
from matplotlib.text import Text

from whichdevice.study.figures import draw, style


@pytest.mark.parametrize("ends", [(0.025, 0.0475), (1.1, 1.9), (3, 11), (11, 700), (0.3, 4e5), (5.1, 19)])
def test_a_logarithmic_axis_has_two_labels_and_none_that_crowd(ends: tuple[float, float]) -> None:
    axes = Figure((3, 2)).add_subplot()
    axes.plot(ends, ends)
    style.log_axis(axes, "x", ends)
    low, high = axes.get_xlim()
    ticks = [tick for tick in axes.get_xticks() if low <= tick <= high]
    assert 2 <= len(ticks) <= 6
    assert all((second / first) > (high / low) ** 0.08 for first, second in pairwise(ticks))


def test_only_the_rule_for_dark_pages_is_added() -> None:
    svg = '<svg><defs></defs><path style="fill: #0072b2; stroke: #222222"/></svg>'
    followed = style.following_scheme(svg)
    assert re.sub("<style.*</style>", "", followed) == svg
    assert "@media (prefers-color-scheme: dark)" in followed
    assert '[style*="fill: #0072b2"] { fill: #3a9bdc !important }' in followed


def test_every_text_has_a_colour_that_follows_the_scheme(tmp_path: Path) -> None:
    study = synthetic.full_study(("cpu",), epochs=1, repeats=1)
    draw("roofline", synthetic.results(study, tmp_path), tmp_path / "figure.svg", tmp_path / "figure.png")
    texts = re.findall(r"<text [^>]*style=\"([^\"]*)\"", (tmp_path / "figure.svg").read_text(encoding="utf-8"))
    colours = {(re.findall(r"fill: (#\w{6})", text) or ["none"])[0] for text in texts}
    assert colours <= {colour.lower() for colour in style.DARK}


def test_names_of_crowded_points_cover_neither_each_other_nor_a_point_and_far_ones_have_a_line() -> None:
    with style.applied():
        axes = style.new_figure().subplots()
        points = [(f"device {place}", style.Interval(1.0), style.Interval(1 + place / 40)) for place in range(8)]
        axes.plot([1.0] * 8, [y.value for _, _, y in points])
        axes.set(xlim=(0, 2), ylim=(0, 2))
        axes.figure.canvas.draw()
        style.place_names(axes, points)
        axes.figure.canvas.draw()
        scale = axes.figure.dpi / 72  # positions are points from the place
        boxes = [
            Text.get_window_extent(text).translated(
                *(axes.transData.transform(text.xy) + np.multiply(text.get_position(), scale - 1))
            )
            for text in axes.texts
        ]
    assert len(boxes) >= 3 and not any(one.overlaps(other) for one, other in combinations(boxes, 2))
    for text in axes.texts:
        _, up = text.get_position()
        assert (text.arrow_patch is not None) == (abs(up) > style.FAR)

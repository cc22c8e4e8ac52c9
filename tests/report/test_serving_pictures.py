"""The pictures of an answer about servers: lines that one can tell apart, and what no other choice beats."""

import re
from itertools import pairwise

import pytest
from answer.test_serving import LOAD, ONE_USER, answer, server

from whichdevice.study.report.serving_pictures import pictures

SERVERS = [
    server("L4", 6, 0.5, one_user=(20.0, 25.0, 30.0)), server("L40S", 11, 0.9),
    server("A100 SXM 80GB", 20, 1.9, one_user=(50.0, 60.0, 70.0)), server("T4", 5.8, 0.6, one_user=(8.0, 9.0, 10.0)),
    server("H100 SXM", 60, 3.0, one_user=(90.0, 100.0, 110.0)),
]  # fmt: skip
TEXT = re.compile(r'<text class="([^"]*)" x="([\d.]+)" y="([\d.]+)" text-anchor="(\w+)">([^<]*)</text>')


def drawn() -> list[str]:
    return re.findall(r"<svg.*?</svg>", pictures(answer(*SERVERS)))


def test_each_is_drawn_for_a_screen_and_for_a_phone():
    assert [re.search(r'class="chart (\w+)"', svg)[1] for svg in drawn()] == ["wide", "narrow"] * 2


def test_three_devices_have_three_lines_and_their_names_at_the_ends():
    for svg in drawn()[:2]:
        assert re.findall(r'<polyline class="curve (\w+)"', svg) == ["line0", "line1", "line2"]
        ends = [(float(y), text) for kind, _, y, _, text in TEXT.findall(svg) if kind == "name"]
        assert [text for _, text in ends] == ["L4", "T4", "L40S"]
        places = sorted(y for y, _ in ends)
        assert all(after - before >= 14 for before, after in pairwise(places))
        assert "your load" in svg


def test_the_second_picture_joins_those_that_none_beats_in_speed_and_price():
    for svg in drawn()[2:]:
        assert svg.count('<circle class="pick"') == 1 and svg.count('<circle class="front"') == 3
        assert re.findall(r'<circle class="other".*?<title>(.*?)</title>', svg) == ["T4"]
        [front] = re.findall(r'<polyline class="front" points="([^"]*)"', svg)
        assert len(front.split()) == 4


@pytest.mark.parametrize("part", range(4))
def test_no_name_is_on_another(part):
    boxes = []
    for _, x, y, anchor, text in TEXT.findall(drawn()[part]):
        wide = 6.2 * len(text)
        left = float(x) - {"start": 0.0, "middle": wide / 2, "end": wide}[anchor]
        boxes.append((left, float(y) - 9, left + wide, float(y) + 2))
    for place, one in enumerate(boxes):
        for other in boxes[place + 1 :]:
            assert one[2] <= other[0] or other[2] <= one[0] or one[3] <= other[1] or other[3] <= one[1], (one, other)


def test_without_a_load_or_a_pick():
    assert "your load" not in pictures(answer(*SERVERS, load=ONE_USER))
    assert not pictures(answer(server("T4", 0.0, 0.2), load=LOAD))

"""The badge: hours, dollars, energy and device of a training as a small picture."""

from dataclasses import replace
from xml.etree import ElementTree

import pytest
from answer.test_energy import CHEAP, LEAN, answer

from whichdevice.base.errors import StudyError
from whichdevice.study.report.badge import badge


def test_a_badge_names_the_device_the_hours_the_dollars_and_the_energy() -> None:
    picture = ElementTree.fromstring(badge(answer(CHEAP, LEAN)))
    assert picture.get("aria-label") == "training: A · 60 min · USD 1.00 · 0.4 kWh"
    assert float(picture.get("width", 0)) > 200 and picture.get("height") == "20"


def test_a_badge_without_a_price_or_watts_leaves_them_out_and_escapes_names() -> None:
    plain = replace(CHEAP, card='A "<b>"', usd_per_hour=None, power=None)
    assert ElementTree.fromstring(badge(answer(plain))).get("aria-label") == 'training: A "<b>" · 60 min'


def test_there_is_no_badge_of_nothing() -> None:
    with pytest.raises(StudyError, match="--badge: no device has an answer"):
        badge(answer(replace(CHEAP, step_time=None, evidence="no time")))

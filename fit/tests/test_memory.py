"""Memory of compiled programs, next to what is published of their like."""

import csv

import pytest
from fit.fitting import DATA

from whichdevice.forecast.targets import find_target
from whichdevice.forecast.xla.device_memory import RESERVE

with (DATA / "memory.csv").open(encoding="utf-8", newline="") as file:
    KNOWN = {line["id"]: line for line in csv.DictReader(file)}


@pytest.mark.parametrize("name", KNOWN)
def test_the_need_of_a_program_is_what_is_published_of_its_like(name):
    line = KNOWN[name]
    assert float(line["least_gb"]) <= float(line["needed_gb"]) <= float(line["most_gb"]), line["known"]


@pytest.mark.parametrize("name", [name for name in KNOWN if "16 GB" in KNOWN[name]["known"]])
def test_a_batch_that_is_published_on_a_card_of_16_gb_fits_it(name):
    assert float(KNOWN[name]["needed_gb"]) * 1e9 <= find_target(KNOWN[name]["device"]).memory - RESERVE

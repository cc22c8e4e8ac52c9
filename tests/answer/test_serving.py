"""Which machine serves a language model: the decision from draws, what turns it, and its words."""

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from beside import beside

from whichdevice.base.numbers import two
from whichdevice.decide.prices import Price
from whichdevice.decide.serving import ServerRow, Serving, decide, with_formats
from whichdevice.decide.words import (
    lines,
    notes,
    page_parts,
    text,
)
from whichdevice.decide.words import server_cells as cells
from whichdevice.forecast.serving.forecast import Load

LOAD = Load(5.0, 1000, 300, 1.0, 0.05)
ONE_USER = replace(LOAD, rps=None)
GB = 1e9
SENTENCES = beside(__file__)


def server(device: str, most: float, usd: float | None, sd: float = 0.1, **more: Any) -> ServerRow:
    """A server that answers about so many requests a second in time."""
    capacity = tuple(most * np.exp(sd * np.linspace(-2, 2, 101)))
    known = {
        "kind": "gpu", "evidence": "forecast", "precision": "bf16", "software": "vllm", "tested": True, "fits": True,
        "memory_parts": {"weights": 16 * GB, "workspace": 2 * GB, "cache": 26 * GB}, "memory_whole": 50 * GB,
        "memory_available": 45 * GB, "max_requests": 150, "max_context": 131_072, "capacity": capacity,
        "one_user": (40.0, 50.0, 60.0), "first_token": 0.2, "rented": True, "usd_per_hour": usd,
        "usd_log_sd_own": math.log(2) / 1.2816,
        "price": Price("unknown") if usd is None else Price("on_demand", "A", "median of 3 providers", providers=3,
                                                            lowest=usd / 2),
    }  # fmt: skip
    return ServerRow(device, **(known | more))


def small(device: str) -> ServerRow:
    parts = {"weights": 141 * GB, "workspace": 2 * GB, "cache": -95 * GB}
    return server(device, 0, 0.1, fits=False, capacity=(), memory_parts=parts)


def answer(*servers: ServerRow, load: Load = LOAD, others: Sequence[Sequence[ServerRow]] = ()) -> Serving:
    return with_formats(decide("meta-llama/Llama-3.1-8B-Instruct", load, servers), others)


def entry(device: str, most: float | None, usd: float | None, more: dict[str, Any] | None = None) -> ServerRow:
    """A server as serving.yaml has it."""
    known = dict(more or {})
    if known.get("price") == "buy":
        known |= {"usd_log_sd_own": 0.0, "price": Price("buy", source="a shop", bought_usd=3499.0)}
    return small(device) if most is None else server(device, most, usd, known.pop("spread", 0.1), **known)


@pytest.mark.parametrize("case", SENTENCES)
def test_what_an_answer_says(case):
    given = SENTENCES[case]
    others = [[entry(*one) for one in few] for few in given.get("others", [])]
    load = replace(LOAD, **given.get("load", {}))
    found = answer(*(entry(*one) for one in given["servers"]), load=load, others=others)
    said = " ".join([*lines(found), *(line.strip() for line in text(found, 160)), *notes(found)])
    assert [part for part in given["has"] if part not in said] == [], said
    assert [part for part in given.get("lacks", []) if part in said] == [], said


def test_servers_that_are_too_few_cost_what_they_answer_and_their_row_says_that_they_are_too_few():
    few = server("RTX 4090", 2, 0.4, sd=0.5, devices=4, most_servers=9)
    found = answer(few, server("H100 SXM", 40, 3.0), load=replace(LOAD, rps=20.0))
    option = next(one for one in found.options if one.holds)
    assert 0.05 < (option.sure or 0.0) < 0.8 and option.usd_million == option.usd_million_full
    [row] = [row for _, row in cells(found) if "RTX" in row[0]]
    assert row[-1] == f"no: {two(option.holds or 0.0)} of 20"


def test_dollars_for_a_million_tokens_are_of_answers_at_this_load_and_at_the_most_in_time():
    pick = answer(server("L40S", 10, 1.8, sd=0.0)).pick
    assert pick is not None
    assert pick.usd_million == pytest.approx(1.8 / (5 * 300 * 3600) * 1e6)
    assert pick.usd_million_full == pytest.approx(pick.usd_million / 2)


def test_without_a_load_the_cheapest_answers_one_user_and_the_load_is_named_at_which_another_takes_over():
    found = answer(server("RTX 3090", 1.0, 0.2), server("H100 SXM", 60, 3.0), load=ONE_USER)
    assert found.pick is not None and found.pick.row.card == "RTX 3090"
    assert found.take_over is not None
    rps, other = found.take_over
    assert other.row.card == "H100 SXM" and 10 < rps < 25
    assert other.usd_per_hour is not None and other.usd_per_hour <= 0.9 * 0.2 * np.ceil(rps / found.pick.row.safe)


@pytest.mark.parametrize("width", [60, 100, 160])
def test_the_text_fits_the_terminal_and_is_one_screen(width):
    devices = [server(f"device {number}", 8 + number, 0.9 + number) for number in range(15)]
    lines_shown = text(answer(*devices), width)
    assert max(map(len, lines_shown)) <= min(width, 100) and len(lines_shown) <= 22
    assert len(text(answer(*devices), width, why=True)) > len(lines_shown)
    assert any("▶ device 0" in line for line in lines_shown)


def test_the_page_of_a_model_that_writes_nothing_has_no_columns_of_tokens():
    made = answer(server("L40S", 8, 0.9, one_user=(0.0, 0.0, 0.0)), load=replace(LOAD, unit="image"))
    parts = page_parts(made, "")
    assert not {"at once", "context", "tok/s"} & set(parts["head"]) and "alone" in parts["head"]
    assert {len(row) for _, row in parts["cells"]} == {len(parts["head"])}
    assert {"at once", "context", "tok/s"} <= set(page_parts(answer(server("L40S", 8, 0.9)), "")["head"])

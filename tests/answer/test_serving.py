"""Which machine serves a language model: the decision from draws, what turns it, and its words."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from whichdevice.base.numbers import two
from whichdevice.decide.prices import Price
from whichdevice.decide.serving import ServerRow, Serving, as_dict, decide, with_formats
from whichdevice.decide.words import (
    as_json,
    lines,
    notes,
    page_parts,
    text,
)
from whichdevice.decide.words import server_cells as cells
from whichdevice.decide.words import servers_shown as shown
from whichdevice.forecast.serving.forecast import Load

LOAD = Load(5.0, 1000, 300, 1.0, 0.05)
ONE_USER = replace(LOAD, rps=None)
GB = 1e9


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


def left_out(found: Serving) -> list[str]:
    return [line for line in notes(found) if line.startswith(("Below", "Too small", "Never"))]


def decision(found: Serving) -> str:
    return lines(found)[0]


def test_the_cheapest_that_surely_holds_the_targets_is_picked():
    found = answer(server("H100 SXM", 40, 3.0), server("L40S", 8, 0.9), server("L4", 4.9, 0.5))
    assert found.pick is not None and found.pick.row.card == "L40S"
    assert found.pick.sure == 1.0 and found.pick.servers == 1


def test_a_larger_load_takes_as_many_servers_as_surely_answer_it():
    found = answer(server("L40S", 2, 0.9))
    pick = found.pick
    assert pick is not None and pick.servers == 3 and pick.sure is not None and pick.sure >= 0.8
    assert pick.name == "3 × L40S" and pick.usd_per_hour == pytest.approx(2.7)


def test_a_device_of_which_too_few_run_together_has_a_row_that_says_what_they_hold():
    few = server("RTX 4090", 2, 0.4, sd=0.0, devices=4, most_servers=3)
    found = answer(few, server("H100 SXM", 40, 3.0), load=replace(LOAD, rps=30.0))
    assert found.pick is not None and found.pick.row.card == "H100 SXM"
    [row] = [row for _, row in cells(found) if "RTX" in row[0]]
    assert (row[0], row[-1]) == ("12 × RTX 4090", "no: 6 of 30")
    assert left_out(found) == ["Below 30 requests a second with the most that are run together: 12 × RTX 4090 (6)."]
    alone = answer(few, load=replace(LOAD, rps=30.0))
    assert "nothing answers 30 requests a second in 1 s and 50 ms; at most 6 on 12 × RTX 4090: ask" in decision(alone)
    assert as_dict(found)["options"][1]["holds"] == pytest.approx(6.0)


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


def test_other_weights_are_named_where_they_cost_less():
    cheap, dear = ([server("L4", 8, usd, precision="awq")] for usd in (0.5, 0.88))
    found = answer(server("L40S", 8, 0.9), others=[cheap, dear])
    assert [option.row.usd_per_hour for option in found.other_formats] == [0.5]
    assert any("With awq weights: L4, USD 0.50 an hour (--weights awq" in line for line in lines(found))


def test_a_computer_to_buy_is_a_row_and_no_choice_beside_rented_ones():
    shop = Price("buy", source="a shop", bought_usd=3499.0)
    mac = server("Apple M4 Max", 8, 0.1, kind="unified", usd_log_sd_own=0.0, price=shop)
    found = answer(mac, server("L40S", 8, 0.9))
    assert found.pick is not None and found.pick.row.card == "L40S"
    assert "Apple M4 Max" in [option.row.card for option in shown(found)]
    bare = answer(replace(mac, usd_per_hour=None), server("Apple M1", 8, None, kind="unified"))
    assert bare.rival is None and bare.take_over is None
    unpriced = decision(answer(replace(mac, usd_per_hour=None)))
    assert unpriced.startswith('Use an Apple M4 Max: no price is known (--price "Apple M4 Max=USD")')
    alone = answer(mac)
    assert decision(alone).startswith("Buy an Apple M4 Max: USD 0.10 an hour over three years")


def test_the_first_line_is_the_decision():
    assert decision(answer(server("L40S", 8, 0.9, devices=2))) == (
        "Rent 2 × L40S: USD 0.90 an hour, USD 0.17 a million tokens at 5 requests a second; > 99 % sure to hold 1 s "
        "and 50 ms."
    )
    assert "only 67 % sure" in decision(answer(server("L40S", 0.0, 0.9, capacity=(0.0, 6.0, 6.0))))
    here = server("this machine", 8, 0.02, rented=False, most_servers=1)
    assert decision(answer(here)).startswith("Use this machine: 50 tokens a second, USD 0.02 an hour of electricity")


def test_a_target_that_nothing_holds_names_the_nearest_and_what_to_ask_for():
    slow = server("H200 SXM", 0, 3.0, capacity=(0.0,) * 9, one_user=(90.0, 100.0, 110.0))
    found = answer(slow, small("T4"), load=replace(LOAD, tpot=0.005))
    assert found.pick is None
    line = decision(found)
    assert "nothing holds 1 s and 5 ms; nearest is H200 SXM" in line and "--tpot 12ms" in line and "\n" not in line
    late = answer(server("H200 SXM", 0, 3.0, capacity=(0.0,) * 9, first_token=1.8))
    assert "--ttft 2.2s" in decision(late)


def test_weights_that_fit_nothing_say_how_much_is_missing():
    line = decision(answer(small("T4")))
    assert "bf16 weights of 141 GB fit none of these devices; the largest, T4, has 45 GB for them" in line
    assert "--weights awq" in line


def test_where_nothing_holds_smaller_weights_that_do_are_named():
    found = answer(small("L40S"), others=[[server("L40S", 8, 0.9, precision="awq")]])
    assert decision(found).endswith(". With awq weights it is L40S, USD 0.90 an hour (--weights awq)")


def test_the_table_has_a_row_for_each_device_and_says_what_it_leaves_out():
    one, two = server("L40S", 8, 0.9), server("L40S", 20, 1.8, devices=2)
    found = answer(one, two, small("T4"), server("L4", 8, 0.6, capacity=(0.0,) * 9))
    rows = cells(found)
    assert [row[0] for _, row in rows] == ["L40S"] and [pick for pick, _ in rows] == [True]
    assert rows[0][1][1:3] == ["16 + 26 of 50", "150"]
    assert left_out(found) == ["Too small: T4.", "Never in time: L4."]
    assert [row[0] for _, row in cells(found, found.options)] == ["L40S", "2 × L40S", "L4", "T4"]


@pytest.mark.parametrize("width", [60, 100, 160])
def test_the_text_fits_the_terminal_and_is_one_screen(width):
    devices = [server(f"device {number}", 8 + number, 0.9 + number) for number in range(15)]
    lines_shown = text(answer(*devices), width)
    assert max(map(len, lines_shown)) <= min(width, 100) and len(lines_shown) <= 22
    assert len(text(answer(*devices), width, why=True)) > len(lines_shown)
    assert any("▶ device 0" in line for line in lines_shown)


def test_a_row_of_another_format_says_so_and_notes_name_every_engine():
    here = server("this machine", 0.3, 0.02, rented=False, precision="q4_k_m", software="llama.cpp", kind="cpu")
    here = replace(here, most_servers=1)
    found = answer(server("L40S", 8, 0.9), here)
    assert [row[0] for _, row in cells(found)] == ["L40S", "this machine, q4_k_m"]
    assert any("vLLM and llama.cpp" in line for line in notes(found))


def test_json_has_facts_words_and_no_draws():
    plain = json.loads(json.dumps(as_json(answer(server("L40S", 8, 0.9), small("T4")))))
    assert plain["pick"]["device"] == "L40S" and plain["pick"]["sure"] == 1.0
    assert plain["pick"]["max_rps_low"] < plain["pick"]["max_rps"] < plain["pick"]["max_rps_high"]
    assert plain["lines"][0].startswith("Rent an L40S") and len(plain["table"]) == 2
    assert "capacity" not in plain["pick"]
    assert as_dict(answer(small("T4")))["pick"] is None


def test_a_table_shows_the_memory_of_the_device_and_says_once_what_the_engine_takes_of_it():
    """It showed 78 GB of a card that is 85 GB in a training's table."""
    mac = server("Apple M4 Max", 8, 0.9, memory_whole=100 * GB, memory_available=75 * GB, software="llama.cpp")
    alone, both = answer(server("L40S", 8, 0.9)), answer(server("L40S", 8, 0.9), mac)
    assert [row[1] for _, row in cells(both)] == ["16 + 26 of 50", "16 + 26 of 100"]
    for found, words in ((alone, "of which vLLM takes 90 %."), (both, "of which vLLM and llama.cpp take 75 to 90 %.")):
        assert sum(words in line for line in text(found, why=True)) == 1


def test_the_page_of_a_model_that_writes_nothing_has_no_columns_of_tokens():
    made = answer(server("L40S", 8, 0.9, one_user=(0.0, 0.0, 0.0)), load=replace(LOAD, unit="image"))
    parts = page_parts(made, "")
    assert not {"at once", "context", "tok/s"} & set(parts["head"]) and "alone" in parts["head"]
    assert {len(row) for _, row in parts["cells"]} == {len(parts["head"])}
    assert {"at once", "context", "tok/s"} <= set(page_parts(answer(server("L40S", 8, 0.9)), "")["head"])

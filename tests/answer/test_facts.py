"""Facts before words: what limits an answer and what to do, in tables; sentences that nothing reads."""

import math
from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import (
    CHEAP,
    FAST,
    FREE,
    HEAVY,
    SIZE,
    SMALL,
    UNRENTED,
    answer,
    device,
    here,
    work,
)
from beside import beside

from whichdevice.base.sheets.machines import Cores
from whichdevice.decide import Answer, Wants, facts
from whichdevice.decide.decide import amount_of, decide
from whichdevice.decide.rows import Row
from whichdevice.decide.words import (
    article,
    as_json,
    cells,
    fits_words,
    hour_words,
    joined,
    lines,
    notes,
    study_lines,
)

BESIDE = beside(__file__)

TIGHT = replace(CHEAP, memory_tight=True, memory_needed=14.6e9, memory_available=15e9)
HOST = replace(device("L4", 0.03, 0.7), host_time=0.04, host_log_sd=0.1, start_time=420.0)
WRONG = replace(here(), contradicts=True, forecast_time=0.01, disturbed=True)
SETTLE = device("A100", 0.01, 1.0, own=0.4), device("L40S", 0.0105, 1.0, own=0.4)
STARTED = (replace(FREE, start_time=60.0, start_log_sd=0.4), *(replace(one, start_time=420.0, start_log_sd=0.4)
                                                                for one in (CHEAP, FAST)))  # fmt: skip


def asked(wants: dict[str, Any], rows: tuple[Row, ...], more: dict[str, Any]) -> Answer:
    return answer(*rows, wants=replace(SIZE, **wants), **more)


def test_a_device_that_nobody_rents_out_has_a_row_with_its_time_and_is_no_candidate_by_cost() -> None:
    found = answer(replace(UNRENTED, memory_needed=2e9, memory_available=11e9), FAST)
    assert found.pick is not None and found.pick.device == "H100"
    [row] = [row for pick, row in cells(found, why=True) if not pick]
    assert row[:6] == ["RTX 2080 Ti", "2 of 11", "10 ms", "0.3", "17 min [11–25 min]", "–"]
    assert row[-1] == "no price known"
    [plain] = [row for row in as_json(found)["rows"] if row["device"] == "RTX 2080 Ti"]
    assert plain["ruled_out"]["reason"] == "price" and plain["seconds"] > 0 and plain["memory_needed"] == 2e9


LADDER = (  # seconds and USD of a step: each is faster and dearer an hour than the one before
    device("A", 0.04, 0.2, own=0.0, spread=0.0), device("B", 0.02, 0.6, own=0.0, spread=0.0),
    device("C", 0.01, 1.8, own=0.0, spread=0.0), device("D", 0.005, 6.0, own=0.0, spread=0.0),
)  # fmt: skip
LONG = replace(SIZE, examples=3e8, deadline=9e9)


def test_the_price_of_an_hour_from_which_on_the_fastest_is_worth_it() -> None:
    found = answer(*LADDER, wants=LONG)
    usd = facts.hurry_usd(found)
    assert found.pick is not None and found.pick.device == "A" and usd is not None
    cost = {option.device: (option.usd or 0.0) + usd * (option.seconds or 0.0) / 3600 for option in found.options}
    assert sorted(cost, key=lambda name: cost[name])[2:] == ["B", "A"] and cost["C"] == pytest.approx(cost["D"])
    assert as_json(found)["hurry_usd"] == usd
    [line] = [line for line in lines(found) if line.startswith("Fastest: ")]
    assert line.endswith(f"; worth it if an hour of waiting costs you USD {hour_words(usd)}.")
    assert facts.hurry_usd(answer(*LADDER, wants=replace(LONG, by="time"))) is None


def test_a_pick_for_its_time_is_as_good_as_the_cheapest_that_ends_in_time() -> None:
    """Whatever a device that ends too late costs."""
    devices = [device(name, step, usd, own=0.0, spread=0.0) for name, step, usd in (
        ("late", 0.4, 0.1), ("slow", 0.04, 1.5), ("fast", 0.02, 3.06),
    )]  # fmt: skip
    found = answer(*devices, wants=replace(SIZE, examples=2e8, deadline=30 * 3600.0))
    assert found.pick is not None and found.pick.device == "fast" and found.cheapest is not None
    assert found.cheapest.device == "late"
    assert lines(found)[1].startswith("As good as the cheapest of 2 that end within 30 h")


EQUAL = tuple(device(name, step, 1.0, own=0.5) for name, step in (("A100", 0.01), ("L40S", 0.0107), ("A10G", 0.0111)))


def test_where_no_device_has_an_even_chance_it_is_too_near_to_call() -> None:
    """It said: probably cheapest, 43 % sure."""
    found = answer(*EQUAL, wants=replace(LONG, deadline=9e9))
    assert found.pick is not None and (found.pick.sure or 1.0) < 0.5
    assert {option.device for option in found.toss_up} == {"A100", "L40S", "A10G"} and found.toss_up[0] is found.pick
    assert lines(found)[0].startswith("Rent an A100 (Cloud), or one as good: ")
    assert lines(found)[1].startswith("Too near to call of 3 that end within years: ")
    sure = answer(FAST, CHEAP)
    assert sure.toss_up == () and not any("Too near" in line for line in lines(sure))
    assert set(as_json(found)["toss_up"]) == {"A100", "L40S", "A10G"}


NAMES = BESIDE["articles"]


@pytest.mark.parametrize(("name", "expected"), [(name, which) for which, names in NAMES.items() for name in names])
def test_the_article_is_that_of_the_spoken_name(name: str, expected: str) -> None:
    assert article(name) == expected


PIPELINES = BESIDE["pipelines"]


@pytest.mark.parametrize(("rule", "known", "expected"), PIPELINES, ids=[one[0] for one in PIPELINES])
def test_a_pipeline_limits_the_pick_or_the_fastest(rule, known, expected) -> None:
    limit = facts.pipeline(answer(FAST, CHEAP, **known))
    assert (limit and [limit["card"], limit["as_written"]]) == expected
    if limit is not None:
        assert 0 < limit["waits"] < 1 and limit["takes"] > limit["rate"] and limit["feed"] == 0


def hosted(cores: float, **more: Any) -> Row:
    """A T4, which takes 2,500 images a second, of a machine with so many cores."""
    return replace(CHEAP, cores=Cores(cores, cores, cores, 0.0), **more)


FEEDING: dict[str, Any] = {"pipeline_rate": 110.0, "pipeline_workers": 2, "pipeline_core_rate": 55.0,
                           "written_rate": 100.0, "written_workers": None}  # fmt: skip
WORKERS = BESIDE["workers"]


@pytest.mark.parametrize(("rule", "known", "cores", "expected"), WORKERS, ids=[one[0] for one in WORKERS])
def test_the_machine_of_a_device_feeds_it(rule, known, cores, expected) -> None:
    row = hosted(cores)
    asked = work(row, **FEEDING | known)
    assert [asked.rate_on(row), asked.rate_on(row, written=True), asked.workers_on(row)] == expected
    assert asked.rate_on(here()) == 110.0 and asked.floor(here()) == 100 / 110


def test_each_of_several_gpus_has_workers_of_its_own() -> None:
    eight = hosted(192, devices=8)
    asked = work(eight, **FEEDING | {"written_workers": 4})
    assert asked.rate_on(eight, written=True) == 8 * 4 * 55 and asked.workers_on(eight) == 6  # 46 feed them


ONE_PROCESS: dict[str, Any] = {"pipeline_rate": 110.0, "pipeline_core_rate": 0.0, "written_rate": None}
PROCESSES = BESIDE["processes"]


@pytest.mark.parametrize(("rule", "known", "machine", "expected"), PROCESSES, ids=[one[0] for one in PROCESSES])
def test_each_of_several_gpus_has_a_process_of_its_own(rule, known, machine, expected) -> None:
    eight = hosted(**{"cores": 192, "devices": 8, "software": "eager"} | machine)
    asked = work(eight, **ONE_PROCESS | known)
    assert [asked.rate_on(eight), asked.rate_on(eight, written=True), asked.workers_on(eight)] == expected


def test_a_pipeline_without_a_time_limits_nothing() -> None:
    assert facts.pipeline(answer(replace(FAST, step_time=None), pipeline_rate=9.0)) is None


def test_what_contradicts_its_forecast_is_a_fact_and_a_line_of_the_study() -> None:
    found = answer(WRONG, FAST)
    assert [row.device for row in facts.contradicts(found)] == ["this machine"]
    line = "this machine contradicts its forecast: measured is 10 times as long; trust that."
    assert line in study_lines([found]) and line in notes(found)
    assert facts.contradicts(answer(here(), FAST)) == []


GPUS = [(80e9, 4), (160e9, 2), (20e9, None), (1e12, 2)]


@pytest.mark.parametrize(("available", "count"), GPUS)
def test_how_many_gpus_hold_a_step(available: float, count: int | None) -> None:
    assert facts.gpus_that_hold(replace(SMALL, memory_available=available)) == count
    assert facts.gpus_that_hold(replace(SMALL, memory_available=available, devices=2)) is None


def test_changes_that_fit_come_first_and_else_the_smallest() -> None:
    assert [change["name"] for change in facts.changes(SMALL)] == ["LoRA", "QLoRA"]
    assert [change["name"] for change in facts.changes(replace(SMALL, memory_available=16e9))] == ["QLoRA"]
    assert facts.changes(replace(SMALL, changes=())) == []


def test_parts_of_the_memory_add_up_to_what_the_table_shows() -> None:
    whole = replace(SMALL, memory_whole=80.9e9)
    assert math.isclose(sum(facts.parts(whole).values()), whole.memory_taken or 0)
    assert fits_words(whole) == "no: 140 of 81"


def test_the_time_to_start_is_apart_and_has_an_interval() -> None:
    """All were `7 min`, `7.1 min [7–7.1 min]`, however fast the device."""
    found = answer(*STARTED, wants=replace(SIZE, examples=1e6))
    option = next(option for option in found.options if option.device == "H100")
    assert option.begun == pytest.approx(30.0, rel=0.05) and option.seconds == pytest.approx(450.0, rel=0.05)
    assert (option.seconds_low or 0) < 310 and (option.seconds_high or 0) > 700 and (option.usd_high or 0) > 0.6
    long = answer(*STARTED, wants=replace(SIZE, **HEAVY, deadline=9e9))
    assert not any("+" in row[4] for _, row in cells(long)) and "to start" not in lines(long)[0]


def test_a_device_has_one_memory_whatever_runs_there() -> None:
    """Keras and PyTorch leave different parts of it to a program: it was 25 for one and 24 for the other."""
    keras, torch = (replace(FAST, memory_needed=3e9, memory_available=25.4e9 - kept, memory_whole=25.4e9)
                    for kept in (0.6e9, 0.9e9))  # fmt: skip
    assert [fits_words(row) for row in (keras, torch)] == ["3.6 of 25", "3.9 of 25"]
    assert facts.parts(FAST) == {}


def test_a_pick_on_demand_has_no_paid_one_beside_it() -> None:
    assert facts.paid(answer(FAST)) is None
    assert facts.paid(answer(CHEAP, FREE)).device == "T4"
    assert facts.paid(answer(FREE)) is None


LISTS = [(["A"], 9, "A"), (["A", "B", "A"], 9, "A and B"), (["A", "B", "C", "D"], 3, "A, B and 2 more")]


@pytest.mark.parametrize(("names", "most", "words"), LISTS)
def test_names_are_joined(names: list[str], most: int, words: str) -> None:
    assert joined(names, most) == words


def test_the_size_is_a_fact() -> None:
    asked_for = work(FAST, sequence_length=1000)
    amount = amount_of(asked_for, Wants(tokens=1e9))
    assert (amount.units, amount.counted, amount.number) == (1e6, "tokens", 1e9)
    assert amount_of(replace(asked_for, sequence_length=None, tokens=500), Wants(tokens=1e9)).units == 2e6
    assert as_json(decide(asked_for, Wants(tokens=1e9), amount))["amount"]["words"] == "1 billion tokens"


def test_frames_that_are_collected_between_steps_are_in_the_hours():
    """They take as long on every device: what takes 0.03 s beside a step of 0.003 s is nine tenths."""
    asked, collecting = answer(FAST, CHEAP), answer(FAST, CHEAP, between=0.03)
    count = asked.amount.units / asked.work.units_per_step
    for before, after in zip(sorted(asked.options, key=lambda option: option.device),
                             sorted(collecting.options, key=lambda option: option.device), strict=True):  # fmt: skip
        assert after.seconds == pytest.approx((before.seconds or 0) + count * 0.03)
    fastest = answer(FAST, between=0.03)
    assert facts.collecting(fastest) == pytest.approx(0.03 / 0.033, rel=0.05)
    assert any(line.startswith("Your environment decides: 91 % of the time on H100 is ") for line in notes(fastest))
    assert facts.collecting(answer(CHEAP, between=0.003)) is None


def test_memory_that_a_runtime_keeps_is_a_part_of_what_a_step_takes() -> None:
    tpu = replace(
        device("TPU v5e", 0.01, 1.2), kind="tpu", memory_parts={"weights": 2e9}, memory_needed=3e9, memory_whole=17e9,
        memory_available=16.8e9,
    )  # fmt: skip
    known = facts.parts(tpu)
    assert known == {"weights": 2e9, "rest": 1e9, "kept": pytest.approx(0.2e9)}
    assert sum(known.values()) == pytest.approx(tpu.memory_taken)

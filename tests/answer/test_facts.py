"""Facts before words: what limits an answer and what to do, in tables; sentences that nothing reads."""

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from answer.test_answer import (
    CHEAP,
    FAST,
    FREE,
    HEAVY,
    MIDDLE,
    NOBODY,
    PARTS,
    SIZE,
    SMALL,
    SPOT,
    UNRENTED,
    answer,
    device,
    here,
    work,
)

from whichdevice.base.sheets.machines import Cores
from whichdevice.decide import Answer, Reason, RuledOut, Wants, facts
from whichdevice.decide.decide import amount_of, decide
from whichdevice.decide.rows import Price, Row, estimated, without_time
from whichdevice.decide.words import (
    article,
    as_json,
    cells,
    count_words,
    fits_words,
    hour_words,
    joined,
    known_words,
    lines,
    name_words,
    notes,
    rent_command,
    study_lines,
    text,
    title,
    why_words,
)

TIGHT = replace(CHEAP, memory_tight=True, memory_needed=14.6e9, memory_available=15e9)
NOTED = replace(FAST, notes=("channels last: as channels first",))
HOST = replace(device("L4", 0.03, 0.7), host_time=0.04, host_log_sd=0.1, start_time=420.0)
WRONG = replace(here(), contradicts=True, forecast_time=0.01, disturbed=True)
SETTLE = device("A100", 0.01, 1.0, own=0.4), device("L40S", 0.0105, 1.0, own=0.4)
STARTED = (replace(FREE, start_time=60.0, start_log_sd=0.4), *(replace(one, start_time=420.0, start_log_sd=0.4)
                                                                for one in (CHEAP, FAST)))  # fmt: skip


def asked(wants: dict[str, Any], rows: tuple[Row, ...], more: dict[str, Any]) -> Answer:
    return answer(*rows, wants=replace(SIZE, **wants), **more)


RULED: list[tuple[str, dict[str, Any], Row, RuledOut | None, str]] = [
    ("too small", {}, replace(FAST, evidence="does not fit", step_time=None), RuledOut(Reason.FITS), "too small"),
    ("perhaps too small", {}, TIGHT, RuledOut(Reason.TIGHT), "may not fit"),
    ("no time", {}, replace(FAST, step_time=None), RuledOut(Reason.TIME), "no time is known"),
    ("no time, and why", {}, replace(FAST, step_time=None, reason="Connection refused: out of memory"),
     RuledOut(Reason.TIME, detail="Connection refused: out of memory"), "Connection refused: out of memory"),
    ("no price", {}, UNRENTED, RuledOut(Reason.PRICE), "no price known"),
    ("no price, by time", {"by": "time"}, UNRENTED, None, ""),
    ("spot", {}, SPOT, RuledOut(Reason.SPOT), "may be taken away"),
    ("spot, asked for", {"spot": True}, SPOT, None, ""),
    ("not free", {"only_free": True}, FAST, RuledOut(Reason.FREE), "is not free"),
    ("this machine is as good as free", {"only_free": True}, here(), None, ""),
    ("a short session", HEAVY, FREE, RuledOut(Reason.SESSION, hours=12.0), "a session ends after 12 h"),
    ("several sessions", {**HEAVY, "only_free": True}, FREE, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "wants", "row", "expected", "said"), RULED, ids=[one[0] for one in RULED])
def test_why_a_device_is_no_choice(rule, wants, row, expected, said) -> None:
    found = asked(wants, (row, here()), {})
    reason = next(option for option in found.options if option.row.card == row.card).ruled_out
    assert reason == expected and (reason is None or why_words(reason) == said)


def test_a_device_that_nobody_rents_out_is_answered_by_its_time_where_it_is_alone() -> None:
    """It was refused, after two, four and eight of it were tried."""
    found = answer(UNRENTED)
    assert found.pick is not None and (found.by, found.late, found.pick.usd) == ("time", False, None)
    assert facts.several(found) == []


def test_a_device_that_nobody_rents_out_has_a_row_with_its_time_and_is_no_candidate_by_cost() -> None:
    found = answer(replace(UNRENTED, memory_needed=2e9, memory_available=11e9), FAST)
    assert found.pick is not None and found.pick.device == "H100"
    [row] = [row for pick, row in cells(found, why=True) if not pick]
    assert row[:6] == ["RTX 2080 Ti", "2 of 11", "10 ms", "0.3", "17 min [11–25 min]", "–"]
    assert row[-1] == "no price known"
    [plain] = [row for row in as_json(found)["rows"] if row["device"] == "RTX 2080 Ti"]
    assert plain["ruled_out"]["reason"] == "price" and plain["seconds"] > 0 and plain["memory_needed"] == 2e9


def test_a_free_or_cheap_one_is_taken_before_what_nobody_rents_out() -> None:
    assert [option.why for option in answer(UNRENTED, CHEAP).options] == [None, Reason.PRICE]


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


COUNTS = [
    (60_000, "60,000"), (1e6, "1 million"), (1.5e6, "1.5 million"), (1.1e9, "1.1 billion"), (1.23e9, "1.23 billion"),
    (1_281_167, "1,281,167"), (2.3e9, "2.3 billion"), (1_000_001, "1,000,001"), (7e9, "7 billion"), (0.5, "0"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "words"), COUNTS)
def test_counts(value: float, words: str) -> None:
    assert count_words(value) == words


NAMES = {
    "an": ["A100 SXM 80GB", "H100", "L4", "RTX 4090", "RX 7900 XTX", "MI300X", "Arc B580", "A10G"],
    "a": ["T4", "V100 SXM2", "GTX 1080 Ti", "Titan RTX", "TPU v5e", "Radeon PRO W7900", "P100", "GH200", "B200"],
}


@pytest.mark.parametrize(("name", "expected"), [(name, which) for which, names in NAMES.items() for name in names])
def test_the_article_is_that_of_the_spoken_name(name: str, expected: str) -> None:
    assert article(name) == expected


USES = [
    (replace(SPOT, card="8 × H100", devices=8), "Rent 8 × H100 as spot machines (Cloud)"),
    (replace(FREE, card="2 × T4", devices=2), "Use a free machine with 2 × T4 (Colab)"),
    (replace(CHEAP, card="TPU v5e (v5e-2x2)", kind="tpu", devices=4), "Rent a TPU v5e (v5e-2x2) (Cloud)"),
    (replace(CHEAP, card="64 × TPU v6e", kind="tpu", devices=64), "Rent 64 × TPU v6e (Cloud)"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "words"), USES)
def test_what_to_do_with_a_device(row: Row, words: str) -> None:
    assert name_words(answer(row).options[0]) == words


SOURCES = [
    (FAST, "forecast"), (here(), "measured"), (replace(FAST, rough=True), "forecast, rough"),
    (here(rough=True, disturbed=True), "measured, rough, disturbed"),
    (estimated("this machine", 900.0, 1e9, 25e9), "estimated, rough"),
]  # fmt: skip


@pytest.mark.parametrize(("row", "words"), SOURCES)
def test_how_a_row_is_known(row: Row, words: str) -> None:
    assert known_words(answer(row).options[0]) == words


PIPELINES: list[tuple[str, dict[str, Any], tuple[str, bool] | None]] = [
    ("none", {}, None),
    ("faster than any device", {"pipeline_rate": 1e6}, None),
    ("slower than the fastest", {"pipeline_rate": 20_000.0}, ("H100", False)),
    ("slower than all", {"pipeline_rate": 500.0}, ("T4", False)),
    ("fast enough, but not as written", {"pipeline_rate": 1e6, "written_rate": 500.0}, ("T4", True)),
    ("as written is best", {"pipeline_rate": 500.0, "written_rate": 499.0}, ("T4", False)),
]


@pytest.mark.parametrize(("rule", "known", "expected"), PIPELINES, ids=[one[0] for one in PIPELINES])
def test_a_pipeline_limits_the_pick_or_the_fastest(rule, known, expected) -> None:
    limit = facts.pipeline(answer(FAST, CHEAP, **known))
    assert (limit and (limit["card"], limit["as_written"])) == expected
    if limit is not None:
        assert 0 < limit["waits"] < 1 and limit["takes"] > limit["rate"] and limit["feed"] == 0


def hosted(cores: float, **more: Any) -> Row:
    """A T4, which takes 2,500 images a second, of a machine with so many cores."""
    return replace(CHEAP, cores=Cores(cores, cores, cores, 0.0), **more)


FEEDING: dict[str, Any] = {"pipeline_rate": 110.0, "pipeline_workers": 2, "pipeline_core_rate": 55.0,
                           "written_rate": 100.0, "written_workers": None}  # fmt: skip
WORKERS: list[tuple[str, dict[str, Any], float, tuple[float, float, int]]] = [
    ("each core of the machine gives as many as one here", {}, 12, (660.0, 660.0, 12)),
    ("no more workers than feed the device", {}, 64, (3520.0, 3520.0, 46)),
    ("as written it has four workers", {"written_workers": 4}, 12, (660.0, 220.0, 12)),
    ("four workers share two cores", {"written_workers": 4}, 2, (110.0, 110.0, 2)),
    ("as written it has none", {"written_workers": 0, "written_rate": 60.0}, 12, (660.0, 60.0, 12)),
    ("more workers give no more", {"pipeline_core_rate": 0.0}, 12, (110.0, 100.0, 2)),
    ("the own process is faster", {"pipeline_workers": 0}, 1, (110.0, 110.0, 0)),
]


@pytest.mark.parametrize(("rule", "known", "cores", "expected"), WORKERS, ids=[one[0] for one in WORKERS])
def test_the_machine_of_a_device_feeds_it(rule, known, cores, expected) -> None:
    row = hosted(cores)
    asked = work(row, **FEEDING | known)
    assert (asked.rate_on(row), asked.rate_on(row, written=True), asked.workers_on(row)) == expected
    assert asked.rate_on(here()) == 110.0 and asked.floor(here()) == 100 / 110


def test_each_of_several_gpus_has_workers_of_its_own() -> None:
    eight = hosted(192, devices=8)
    asked = work(eight, **FEEDING | {"written_workers": 4})
    assert asked.rate_on(eight, written=True) == 8 * 4 * 55 and asked.workers_on(eight) == 6  # 46 feed them


ONE_PROCESS: dict[str, Any] = {"pipeline_rate": 110.0, "pipeline_core_rate": 0.0, "written_rate": None}
PROCESSES: list[tuple[str, dict[str, Any], dict[str, Any], tuple[float, float, int]]] = [
    ("each GPU has one that makes batches", {}, {}, (880.0, 880.0, 0)),
    ("at most as many as there are cores", {}, {"cores": 4}, (440.0, 440.0, 0)),
    ("one program of XLA has all GPUs", {}, {"software": "xla"}, (110.0, 110.0, 0)),
    ("all cores are faster", {"pipeline_core_rate": 5.0}, {}, (960.0, 880.0, 24)),
    ("few cores are slower", {"pipeline_core_rate": 5.0}, {"cores": 8}, (880.0, 880.0, 0)),
    ("as written it has no worker", {"pipeline_core_rate": 55.0, "pipeline_workers": 2, "written_rate": 60.0}, {},
     (10560.0, 480.0, 6)),
    ("a generator has none", {"written_workers": None}, {}, (880.0, 880.0, 0)),
    ("threads that more cores do not help", {"pipeline_workers": 2, "written_workers": None}, {}, (110.0, 110.0, 2)),
]  # fmt: skip


@pytest.mark.parametrize(("rule", "known", "machine", "expected"), PROCESSES, ids=[one[0] for one in PROCESSES])
def test_each_of_several_gpus_has_a_process_of_its_own(rule, known, machine, expected) -> None:
    eight = hosted(**{"cores": 192, "devices": 8, "software": "eager"} | machine)
    asked = work(eight, **ONE_PROCESS | known)
    assert (asked.rate_on(eight), asked.rate_on(eight, written=True), asked.workers_on(eight)) == expected


def test_a_pipeline_without_a_time_limits_nothing() -> None:
    assert facts.pipeline(answer(replace(FAST, step_time=None), pipeline_rate=9.0)) is None


def test_what_is_faster_is_named_where_it_ends_noticeably_earlier() -> None:
    assert facts.hurry(answer(FAST, CHEAP, wants=replace(SIZE, **HEAVY, deadline=9e9))).device == "H100"
    assert facts.hurry(answer(FAST, replace(CHEAP, step_time=0.0031))) is None


def test_more_time_is_worth_a_sentence_within_a_year() -> None:
    heavy = replace(SIZE, **HEAVY)
    option, days = facts.more_time(answer(FAST, MIDDLE, CHEAP, wants=heavy))
    assert (option.device, days) == ("T4", 3)
    assert facts.more_time(answer(FAST, CHEAP, wants=replace(heavy, by="time"))) is None
    assert facts.more_time(answer(FAST, CHEAP, wants=replace(heavy, examples=1e12))) is None  # years
    assert facts.more_time(answer(CHEAP, wants=SIZE)) is None


def test_a_spot_machine_is_offered_where_it_saves_much() -> None:
    heavy = replace(SIZE, **HEAVY)
    assert facts.spot_offer(answer(FAST, SPOT, wants=heavy)).device == "H100, spot"
    assert facts.spot_offer(answer(FAST, replace(SPOT, usd_per_hour=2.9), wants=heavy)) is None
    assert facts.spot_offer(answer(FAST, SPOT, wants=replace(heavy, by="time"))) is None
    assert facts.spot_offer(answer(here(), SPOT, wants=replace(heavy, only_free=True))) is None


def test_a_tpu_that_a_pytorch_model_has_to_be_ported_to_is_a_choice_where_it_is_asked_for() -> None:
    heavy, tpu = replace(SIZE, **HEAVY), replace(FREE, card="TPU v5e", kind="tpu", needs_port=True, step_time=0.005)
    ported = answer(FAST, tpu, wants=heavy)
    assert ported.pick.device == "H100"
    assert [option.why for option in ported.options if option.row.needs_port] == [Reason.PORT]
    assert any(line.startswith("Need PyTorch/XLA: TPU v5e, free: ") for line in text(ported))
    assert answer(FAST, tpu, wants=replace(heavy, port=True)).pick.row == tpu


def test_of_free_devices_that_end_at_about_the_same_time_the_gpu_is_taken() -> None:
    """A TPU needs another backend of Keras; some minutes are not worth that."""
    tpu = replace(FREE, card="TPU v5e", kind="tpu", step_time=FREE.step_time * 0.9)
    assert answer(FREE, tpu, wants=SIZE).pick.row == FREE


def test_several_gpus_are_named_where_one_is_late_and_share_the_batch_evenly() -> None:
    late = replace(SIZE, deadline=60.0)
    assert facts.several(answer(FAST, wants=late)) == [2, 4]
    assert facts.several(answer(FAST, wants=late, batch=7)) == []
    assert facts.several(answer(FAST, wants=late, mode="predict")) == []
    assert facts.several(answer(FAST)) == []


STEP = {"mode": "train", "sequence_length": None, "options": {}, "batch": 100}
COMMANDS: list[tuple[dict[str, Any], dict[str, Any], str]] = [
    ({}, {}, "whichdevice rent net.py --on A100 --max-usd 1 --batch 100 --precision mixed_float16"),
    ({"module": "my nets/a b.py"}, {}, "whichdevice rent 'my nets/a b.py' --on A100"),
    ({"module": "train.py -- --lr 0.1 --name 'a b'"}, {}, "mixed_float16 -- --lr 0.1 --name 'a b'"),
    ({"mode": "predict"}, {}, "--mode predict"),
    ({"sequence_length": 512}, {}, "--sequence-length 512"),
    ({"options": {"method": "lora", "layers": 2}}, {}, "--option 'method=\"lora\"' --option layers=2"),
    ({}, {"card": "RTX 4090"}, "--on 'RTX 4090' --max-usd"),
    ({}, {"card": "TPU v5e (v5e-2x2)", "target": "v5e-2x2"}, "--on v5e-2x2"),
    ({}, {"price": Price("spot", "Cloud")}, "--on A100 --spot --max-usd 1"),
]  # fmt: skip


@pytest.mark.parametrize(("step", "row", "part"), COMMANDS)
def test_the_command_that_settles_it_asks_for_the_same_step(step, row, part) -> None:
    rows = replace(SETTLE[0], **row), replace(SETTLE[1], step_time=0.0107)
    found = answer(*rows, wants=Wants(examples=3e9, deadline=9e9, spot=True), **step)
    settle = facts.settling(found)
    assert settle is not None and part in rent_command(found.work, settle)
    assert any(part in line for line in notes(found))


def test_nothing_is_measured_where_the_choice_is_sure_cheap_or_here() -> None:
    dear = Wants(examples=3e9, deadline=9e9)
    assert facts.settling(answer(*SETTLE, wants=replace(dear, examples=1e6))) is None
    assert facts.settling(answer(*SETTLE, wants=replace(dear, by="time"))) is None
    assert facts.settling(answer(FAST, wants=dear)) is None
    assert facts.settling(answer(here(), wants=dear)) is None
    assert facts.settling(answer(*(replace(row, devices=8) for row in SETTLE), wants=dear)) is None


def test_notes_on_a_step_are_shown_with_the_devices_that_they_are_about() -> None:
    note = "channels last: as channels first"
    assert facts.step_notes(answer(NOTED, MIDDLE)) == {note: ["H100"]}
    assert f"Note on H100: {note}." in notes(answer(NOTED, MIDDLE))
    both = answer(NOTED, replace(MIDDLE, notes=NOTED.notes))
    assert f"Note on {both.pick.row.card}: {note}." in notes(both) and as_json(both)["step_notes"] == {note: []}
    assert as_json(both)["rows"][0]["notes"] == [note] and facts.step_notes(answer(here())) == {}


def test_what_contradicts_its_forecast_is_a_fact_and_a_line_of_the_study() -> None:
    found = answer(WRONG, FAST)
    assert [row.device for row in facts.contradicts(found)] == ["this machine"]
    line = "this machine contradicts its forecast: measured is 10 times as long; trust that."
    assert line in study_lines([found]) and line in notes(found)
    assert facts.contradicts(answer(here(), FAST)) == []


def test_the_host_limits_some_or_all() -> None:
    assert facts.waits_for_host(answer(HOST, FAST)) == ["L4"]
    cards = facts.waits_for_host(answer(HOST, replace(HOST, card="T4")))
    assert set(cards) == {"L4", "T4"}
    assert facts.waits_for_host(answer(here(), FAST)) == []


def test_what_no_published_times_tested_is_named() -> None:
    unknown = replace(FAST, tested=False)
    assert facts.untested(answer(unknown, MIDDLE, replace(FREE, tested=False))) == ["H100"]
    assert "Untested by published times, so with a wider range: H100." in notes(answer(unknown, MIDDLE))


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


def test_who_generates_is_not_told_to_tune() -> None:
    """The advice was --option method=lora, which serves nothing."""
    fits = replace(FAST, memory_parts=PARTS, memory_needed=140e9, memory_available=150e9)
    for mode, advised in (("train", True), ("generate", False), ("predict", False)):
        found = notes(answer(fits, SMALL, mode=mode, tunable=True, sequence_length=8))
        assert any("method=lora" in line for line in found) == advised, mode
    unchanged = notes(answer(fits, replace(SMALL, changes=()), tunable=True))
    assert any("4 GPUs" in line for line in unchanged) and not any("lora" in line for line in unchanged)


def test_a_model_of_hugging_face_has_its_own_name() -> None:
    """It was `Llama_3.1_8B`: names of a study have other letters."""
    found = answer(FAST, module="hf:meta-llama/Llama-3.1-8B", workload="Llama_3.1_8B")
    assert title(found).startswith("Llama-3.1-8B · ")


def test_tokens_by_a_loop_of_transformers_say_so_and_say_nothing_of_other_engines() -> None:
    """A Mistral took 45 ms a token on every GPU, and the cheapest was called sure."""
    by_loop = answer(FAST, replace(CHEAP, usd_per_hour=30.0), mode="generate", module="hf:mistralai/Mistral-7B-v0.1")
    own = answer(FAST, replace(CHEAP, usd_per_hour=30.0), mode="generate", module="decoder")
    assert title(by_loop).endswith("transformers' own loop") and "loop" not in title(own)
    assert any("whichdevice serve" in line for line in notes(by_loop))
    assert not any("serve" in line for line in notes(own))
    assert "by this loop" in lines(by_loop)[1] and "loop" not in lines(own)[1]


def test_a_pick_on_demand_has_no_paid_one_beside_it() -> None:
    assert facts.paid(answer(FAST)) is None
    assert facts.paid(answer(CHEAP, FREE)).device == "T4"
    assert facts.paid(answer(FREE)) is None


LISTS = [(["A"], 9, "A"), (["A", "B", "A"], 9, "A and B"), (["A", "B", "C", "D"], 3, "A, B and 2 more")]


@pytest.mark.parametrize(("names", "most", "words"), LISTS)
def test_names_are_joined(names: list[str], most: int, words: str) -> None:
    assert joined(names, most) == words


def test_a_long_reason_is_cut_in_its_cell_and_whole_in_json() -> None:
    reason = "4-bit weights need a GPU, and this machine has none that anybody could use"
    found = answer(without_time("this machine", reason), FAST)
    [row] = [row for pick, row in cells(found) if not pick]
    assert row[-1].endswith(" …") and len(row[-1]) <= 40
    assert as_json(found)["rows"][-1]["why_not"] == reason


def test_the_size_is_a_fact() -> None:
    asked_for = work(FAST, sequence_length=1000)
    amount = amount_of(asked_for, Wants(tokens=1e9))
    assert (amount.units, amount.counted, amount.number) == (1e6, "tokens", 1e9)
    assert amount_of(replace(asked_for, sequence_length=None, tokens=500), Wants(tokens=1e9)).units == 2e6
    assert as_json(decide(asked_for, Wants(tokens=1e9), amount))["amount"]["words"] == "1 billion tokens"


def test_json_has_prices_with_who_asks_them() -> None:
    plain = json.loads(json.dumps(as_json(answer(*LADDER, wants=LONG)), allow_nan=False))
    assert plain["rows"][0]["price"]["provider"] == "Cloud" and NOBODY.kind == "unknown"


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


def test_an_amount_that_nobody_named_is_said_on_every_screen() -> None:
    assert "name your own with --examples" in "\n".join(text(answer(*LADDER, wants=Wants()), 60))

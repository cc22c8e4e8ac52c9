"""The answer: rows from tables, costs of a whole training, one decision, and its words."""

import json
import math
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import synthetic
from beside import beside
from synthetic_forecasts import compiled_for

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.machines import Cores
from whichdevice.decide import Answer, Wants, answers
from whichdevice.decide.decide import amount_of, decide, draws, turns
from whichdevice.decide.rows import FORECAST, MEASURED, AskedWork, Price, Row, measured_spread
from whichdevice.decide.words import (
    amount_words,
    as_json,
    by_stake,
    head,
    lines,
    notes,
    study_lines,
    study_rows,
    text,
)
from whichdevice.forecast.work import FUSED_RECURRENT
from whichdevice.study.config.model import Workload
from whichdevice.study.tables.costs import priced_cells
from whichdevice.study.tables.forecasts import read_forecasts

BESIDE = beside(__file__)
CLOUD, NOBODY = Price("on_demand", "Cloud"), Price("unknown")
STEPS = 100_000  # of batch 100: ten million images
SIZE = Wants(examples=STEPS * 100)


def here(step: float = 0.1, **more: Any) -> Row:
    known = {
        "usd_per_hour": 0.03,
        "price": Price("electricity", watts=100.0),
        "log_sd_own": 0.01,
        "chip": "here",
        "fits": True,
    }
    return Row("this machine", "cpu", MEASURED, step_time=step, processes=3, precision="float32", **(known | more))


def device(name: str, step: float, usd: float | None, spread: float = 0.3, own: float = 0.05, **more: Any) -> Row:
    price = CLOUD if usd is not None else NOBODY
    known = {"kind": "gpu", "precision": "mixed_float16", "price": price, "rented": True, "fits": True, "chip": name}
    known |= {"log_sd_shared": spread, "log_sd_own": own}
    return Row(name, evidence=FORECAST, step_time=step, usd_per_hour=usd, **(known | more))


def work(*rows: Row, **more: Any) -> AskedWork:
    known = {"workload": "net", "module": "net.py", "mode": "train", "batch": 100, "sequence_length": None}
    known |= {"unit": "image", "units_per_step": 100.0, "prompt": None, "epoch_units": None}
    return AskedWork(rows=rows, **(known | more))


def answer(*rows: Row, wants: Wants = SIZE, **more: Any) -> Answer:
    asked = work(*rows, **more)
    return decide(asked, wants, amount_of(asked, wants))


def pick(*rows: Row, **wants: Any) -> str | None:
    found = answer(*rows, wants=replace(SIZE, **wants))
    return found.pick.device if found.pick else None


FAST, MIDDLE, CHEAP = device("H100", 0.003, 3.0), device("L40S", 0.01, 0.8), device("T4", 0.04, 0.15)
FREE = replace(CHEAP, usd_per_hour=0.0, price=Price("free", "Colab"), session_hours=12.0)
SPOT = replace(FAST, usd_per_hour=0.8, price=Price("spot", "Cloud"))
UNRENTED = device("RTX 2080 Ti", 0.01, None)
# Hours of the whole: H100 0.08, L40S 0.28, T4 1.1, here 2.8. USD: 0.25, 0.22, 0.17, 0.08.
HEAVY = {"examples": STEPS * 3000.0}  # 30 times as much: hours 2.5, 8.3, 33, 83; USD 7.5, 6.7, 5.0, 2.5


def test_several_devices_of_a_form_have_its_error_and_another_form_one_of_its_own() -> None:
    two = device("2 × H100 SXM", 0.4, 3.0, chip="H100", target="H100 SXM")
    rows = two, replace(two, card="8 × H100 SXM", step_time=0.1), replace(two, card="H100 PCIe", target="H100 PCIe")
    two_logs, eight_logs, pcie_logs = np.log(draws(rows))
    assert np.ptp(two_logs - eight_logs) < 3e-3 < np.ptp(two_logs - pcie_logs)
    slices = [
        device(card, 0.1, 3.0, chip="TPU v5e", target=card, kind="tpu") for card in ("4 × TPU v5e", "8 × TPU v5e")
    ]
    assert np.ptp(np.diff(np.log(draws(slices)), axis=0)) < 3e-3


@pytest.mark.parametrize(("wants", "known", "units", "words"), BESIDE["the size of a training"])
def test_the_size_of_a_training(wants: dict[str, Any], known: dict[str, Any], units: float, words: str) -> None:
    length, script = known.get("length"), {name: value for name, value in known.items() if name != "length"}
    asked = work(FAST, sequence_length=length)
    found = amount_of(asked, Wants(**wants), **script)
    assert amount_words(decide(asked, Wants(**wants), found)) == words
    assert (found.units, found.given) == (units, words != "a million images")


def test_tokens_need_sequences() -> None:
    with pytest.raises(StudyError, match="--tokens: net has no sequences of tokens"):
        answer(FAST, wants=Wants(tokens=1e6))


def test_what_is_shared_cancels_in_a_ratio_and_in_a_choice() -> None:
    one, two = device("A", 0.01, 1.0, spread=1.0, own=0.0), device("B", 0.02, 1.0, spread=1.0, own=0.0)
    assert np.allclose(draws([one, two])[1] / draws([one, two])[0], 2, rtol=2e-3)
    found = answer(one, two, wants=replace(SIZE, by="time", examples=1e9))
    assert [option.sure for option in found.options] == [1.0, 0.0]
    same_chip = draws([replace(row, log_sd_own=1.0, chip="X", target="X") for row in (one, two)])
    assert np.allclose(same_chip[1] / same_chip[0], 2, rtol=2e-3)


def test_a_device_waits_for_the_input_pipeline() -> None:
    """100 images a step at 900 images/s: no step is below 0.11 s, so the cheapest card is as fast as any.

    Cores elsewhere feed as fast as those here, within 1.5 times either way.
    """
    by_time, two_workers = replace(SIZE, by="time"), {"pipeline_workers": 2, "written_rate": 400.0}
    found = answer(here(0.5), FAST, MIDDLE, CHEAP, wants=by_time, pipeline_rate=900, **two_workers)
    assert found.pick is not None and found.pick.device == "T4"
    assert {option.device: round(option.seconds or 0, -2) for option in found.options} == {
        "T4": 11100, "L40S": 11100, "H100": 11100, "this machine": 50000,
    }  # fmt: skip
    sentence = "Your pipeline gives 900 images/s with 2 cores here, 400 with no worker process as written; T4 takes "
    assert sentence + "2,500 and would wait 64 % of the time." in notes(found)
    assert "Not included: validation." in notes(found)
    fast = answer(here(0.5), FAST, MIDDLE, CHEAP, wants=by_time, pipeline_rate=1e6)
    assert fast.pick == answer(here(0.5), FAST, MIDDLE, CHEAP, wants=by_time).pick
    assert not any("pipeline" in line for line in notes(fast))
    slow = answer(here(0.5), FAST, MIDDLE, CHEAP, wants=by_time, pipeline_rate=1e6, **two_workers)
    sentence = "As written, with no worker process, your pipeline gives 400 images/s; L40S takes 10,000: use 2 workers "
    assert slow.pick == fast.pick and sentence.removesuffix(" ") + "." in notes(slow)


def test_the_cores_of_its_machine_feed_a_device_not_those_of_this_machine() -> None:
    """55 images/s a core, and 0.25 s a step on 8 × H100: 192 cores feed them, a free T4's two cores starve it."""
    eight = replace(device("8 × H100 SXM", 0.25, 20.0), devices=8, cores=Cores(192, 96, 256, 0.3))
    free = replace(FREE, cores=Cores(2, 2, 2, 0.0))
    feeding = {"pipeline_rate": 110.0, "pipeline_workers": 2, "pipeline_core_rate": 55.0, "written_workers": None}
    found = answer(here(5.0), eight, free, wants=replace(SIZE, examples=1e5), **feeding)
    seconds = {option.device: (option.seconds_low, option.seconds, option.seconds_high) for option in found.options}
    assert seconds["8 × H100 SXM"] == pytest.approx((250 / 1.48, 250, 250 * 1.48), rel=0.02)  # of its forecast alone
    assert seconds["T4, free"] == pytest.approx((1e5 / 165, 1e5 / 110, 1e5 / 73), rel=0.03)  # 1.5 times either way
    sentence = (
        "Your pipeline gives 55 images/s a core; a free T4, with 2 cores in its machine, would wait 96 % of the time; "
    )
    assert sentence + "46 would feed it." in notes(found)
    whole = answer(here(5.0), eight, free, wants=replace(SIZE, examples=1e5), **feeding | {"pipeline_core_rate": 0.0})
    assert {option.seconds and round(option.seconds) for option in whole.options} == {909, 5000}  # one process


def test_no_ratio_is_above_what_the_host_allows() -> None:
    slow, fast, free = (
        device(name, step, 1.0, host_time=0.004, host_log_sd=0.1)
        for name, step in (("A", 0.003), ("B", 1e-5), ("B", 1e-5))
    )
    free = replace(free, usd_per_hour=0.0, price=Price("free", "Colab"))
    slow = replace(slow, host_time=0.0)
    found = {option.device: option for option in answer(here(0.1), slow, fast).options}
    assert found["B"].ratio == pytest.approx(25, rel=0.05) and found["B"].host_decides and not found["B"].row.is_here
    assert "The CPU limits B: a faster device changes nothing." in notes(answer(here(0.1), slow, fast, free))


@pytest.mark.parametrize(("low", "high", "n", "disturbed", "spread", "rough"), BESIDE["a measured error"])
def test_a_measured_error_and_whether_it_is_rough(low, high, n, disturbed, spread, rough) -> None:
    """From 95 % over processes to 80 %, as a forecast's."""
    found, is_rough = measured_spread(low, high, n, disturbed)
    assert (found, is_rough) == (pytest.approx(spread, rel=0.01), rough)


def test_of_two_equal_ones_both_are_named() -> None:
    rows = (
        device("A100 40GB", 0.01, 1.0, own=0.3, memory_available=40e9),
        device("A100 80GB", 0.011, 1.0, own=0.3, memory_available=80e9),
    )
    found = answer(*rows, wants=Wants(examples=1e9))
    assert found.pick and found.rival and {found.pick.device, found.rival.device} == {row.device for row in rows}
    assert 0.4 < (found.pick.sure or 0) < 0.7


def test_without_a_size_it_says_where_the_pick_turns() -> None:
    rows = (here(), FAST, FREE)
    found = turns(work(*rows), Wants(), amount_of(work(*rows), Wants()))
    assert [device for _, device in found] == ["this machine", "T4, free", "H100"] and math.isinf(found[-1][0])
    for (units, device), (_, later) in pairwise(found):
        assert pick(*rows, examples=units * 0.8) == device and pick(*rows, examples=units * 1.4) == later
    said = lines(replace(answer(*rows, wants=Wants()), turns=found))
    assert any("Up to 900,000 images: this machine; to 100 million: T4, free; above: H100." in line for line in said)


UNKNOWN = "the loop in line 3 has no end that shows"
OF_A_SCRIPT = BESIDE["a script whose end does not show"]


@pytest.mark.parametrize("case", OF_A_SCRIPT)
def test_a_script_that_does_not_show_its_end_is_for_a_million_steps(case: str) -> None:
    examples, named, words, asked = OF_A_SCRIPT[case]
    asked_work = replace(work(here(), FAST, FREE), unknown=UNKNOWN, script_examples=examples)
    wants = Wants(**named)
    amount = amount_of(asked_work, wants, None, examples)
    found = replace(decide(asked_work, wants, amount), turns=turns(asked_work, wants, amount) if asked else ())
    assert amount_words(found) == words and any("For a million steps" in line for line in lines(found)) == bool(asked)
    if asked:
        said, steps = lines(found), found.turns[0][0]
        assert f"For a million steps: {UNKNOWN}; name your own with {asked}." in said
        assert any(line.startswith("Up to ") and " steps: this machine; " in line for line in said)
        picks = [pick(*asked_work.rows, steps=steps * times) for times in (0.7, 1.4)]
        assert picks[0] == "this machine" != picks[1]


@pytest.mark.parametrize("width", [60, 80, 100, 120])
def test_a_terminal_shows_the_decision_first_and_no_line_is_too_wide(width: int) -> None:
    rows = [here(memory_needed=1.23e9, memory_available=25e9), FAST, MIDDLE, CHEAP, FREE]
    rows += [device(f"A device with a long name {number}", 0.1 + number, 9.0, own=0.2) for number in range(9)]
    found = answer(*rows, wants=replace(SIZE, **HEAVY))
    shown = text(found, width)
    assert max(map(len, shown)) <= min(width, 100) and len(head(found)) <= 7
    assert len(lines(found)) <= 8 and "Rent an L40S (Cloud): 8.3 h" in "\n".join(shown)
    assert sum("▶" in line for line in shown) == 1
    assert "(dearer and slower)" in " ".join(shown) and len(shown) <= 22
    assert len(text(found, width, why=True)) > len(shown)


PARTS = {"weights": 32e9, "gradients": 32e9, "optimizer": 64e9, "activations": 9e9, "context": 0.9e9}
CHANGES = tuple(
    {"name": name, "memory_needed": needed, "time": time}
    for name, needed, time in (("checkpointing", 130e9, 1.3), ("LoRA", 34e9, 0.44), ("QLoRA", 23e9, 0.48))
)
SMALL = replace(
    MIDDLE, evidence="does not fit", step_time=None, fits=False, memory_needed=140e9, memory_available=80e9,
    memory_parts=PARTS, changes=CHANGES,
)  # fmt: skip


def test_json_has_the_same_numbers_and_nothing_that_json_lacks() -> None:
    found = answer(here(), FAST, device("P4", 1.0, None))
    plain = json.loads(json.dumps(as_json(found), allow_nan=False))
    assert (plain["pick"], plain["by"], plain["workload"]) == ("this machine", "cost", "net")
    row = next(row for row in plain["rows"] if row["device"] == "H100")
    assert row["step_time"] == 0.003 and row["usd"] == pytest.approx(0.25, rel=0.05) and row["ratio"] > 30
    assert next(row for row in plain["rows"] if row["device"] == "P4")["ruled_out"]["reason"] == "price"


@pytest.fixture(scope="module")
def studied(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Every workload of the synthetic studies and both operations, measured on a CPU and forecast for two GPUs."""
    folder = tmp_path_factory.mktemp("study")
    sizes = {"matmul": [256], "memory_stream": [64], "shakespeare_lstm": [32], "mnist_cnn": [1024], "fashion_cnn": [64]}
    workloads = {name: Workload(batch_size=size) for name, size in sizes.items()}
    study = synthetic.small_study(workloads=workloads, devices={"cpu": synthetic.Device(kind="cpu")})
    programs = []
    for name in ("mnist_cnn", "matmul"):
        programs += compiled_for(folder / "compiled", ["T4", "L4"], workload=name, batch_size=sizes[name][0])
    return synthetic.results(study, folder, programs)


def of(studied: Any, **wants: Any) -> dict[str, Answer]:
    found = answers(priced_cells(studied.summary, studied.costs), read_forecasts(studied.forecasts), Wants(**wants))
    return {answer.work.workload: answer for answer in found}


def test_a_cost_is_of_what_throughput_counts_for_every_workload_and_operation(studied: Any) -> None:
    """It was divided by the batch, which for an operation is N."""
    found = of(studied, examples=1e6, epochs=1)
    assert set(found) == {"matmul", "memory_stream", "shakespeare_lstm", "mnist_cnn", "fashion_cnn"}
    for _, cell in studied.summary.iterrows():
        option = found[cell["workload"]].here
        assert option is not None
        usd_per_hour = option.row.usd_per_hour or 0.0
        assert option.usd == pytest.approx(usd_per_hour / 3600 * 1e6 / cell["throughput"], rel=0.02)
    assert [answer.work.mode for answer in found.values()][-2:] == ["operation", "operation"]
    assert found["matmul"].work.units_per_step == pytest.approx(1.0, rel=1e-4)
    assert "products a second at USD" in lines(found["matmul"])[0]


def test_the_published_epochs_and_the_whole_data_make_a_training(studied: Any) -> None:
    found = of(studied)["mnist_cnn"]
    assert amount_words(found).startswith("60,000 images × ") and found.amount.given
    assert [option.device for option in found.options if option.row.evidence == FORECAST] == ["T4", "L4"] or len(
        found.options
    ) == 3


def test_a_study_is_told_in_a_few_sentences(studied: Any) -> None:
    found = study_lines(list(of(studied).values()))
    assert found[0].startswith("Use cpu for ") and study_lines([]) == [
        "Nothing was measured yet, and nothing was forecast."
    ]


def test_at_stake_is_what_the_worst_choice_costs_where_none_ends_in_time() -> None:
    late, little = answer(FAST, CHEAP, wants=replace(SIZE, **HEAVY, deadline=60.0)), answer(FAST, wants=SIZE)
    assert study_rows([little, late])[0][-1] == "up to 31 h" and by_stake([little, late]) == [late, little]


def test_how_recurrent_layers_run_is_told_below_the_table(studied: Any) -> None:
    forecasts = studied.forecasts.assign(step_notes=json.dumps(["a fusion of two", FUSED_RECURRENT]))
    found = answers(priced_cells(studied.summary, studied.costs), read_forecasts(forecasts))
    assert {answer.work.workload for answer in found if any("cuDNN" in note for note in notes(answer))} == {
        "mnist_cnn",
        "matmul",
    }


def test_a_study_without_records_has_forecasts_alone(studied: Any, tmp_path: Path) -> None:
    found = answers(priced_cells(studied.summary, studied.costs)[:0], read_forecasts(studied.forecasts))
    assert {answer.work.workload for answer in found} == {"mnist_cnn", "matmul"}
    assert all(answer.here is None and answer.pick is not None for answer in found)

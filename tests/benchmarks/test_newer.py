"""Newer ways to train next to published numbers: peaks of the same step, and the page that shows all of them."""

import pytest
from fit.newer import BEGIN, END, PAGE, compared, published, summary, table


def of(name):
    return next(one for one in compared() if one.line.id == name)


def test_published_peaks_of_the_same_step_are_met_within_a_tenth():
    ratios = {one.line.id: one.memory_ratio for one in compared() if one.line.same_step and one.memory_ratio}
    assert len(ratios) >= 3
    assert {name: ratio for name, ratio in ratios.items() if not 0.9 <= ratio <= 1.1} == {}


def test_every_published_number_has_its_forecast_and_its_source():
    assert {one.line.id for one in compared()} == {line.id for line in published()}
    assert all(line.source and line.notes for line in published())


def test_a_mixture_of_experts_is_shared_out_layer_by_layer():
    """Eight GPUs hold an eighth of weights, gradients and moments, and the weights of two layers at a time."""
    parts = of("qwen3_moe_nemo").parts
    lasting = parts["weights"] + parts["gradients"] + parts["optimizer"]
    assert lasting == pytest.approx(30_532_122_624 * (2 + 2 + 4) / 8, rel=0.01)
    assert parts["layer"] < 1.5e9


def test_answers_of_a_reward_step_take_time_and_memory():
    one = of("qwen3_grpo_nemo")
    assert one.parts["rollout"] > 0
    assert one.low_s < one.step_s < one.high_s


def test_the_page_shows_the_table():
    page = PAGE.read_text(encoding="utf-8")
    generated = page[page.index(BEGIN) : page.index(END)]
    names = [line.split("|")[1].strip() for line in table(compared())][2:]
    assert summary(compared()) in generated
    assert all(f"| {name} |" in generated for name in names)

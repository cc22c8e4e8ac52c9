"""Newer ways to train next to published numbers: peaks of the same step, and the page that shows all of them."""

import pytest
from needs import require

require("torch")
from fit.generated import marks
from fit.language_models import traced
from fit.newer import MADE_BY, PAGE, compared, published, rows, summary

from whichdevice.base.errors import StudyError
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import in_float8


def of(name):
    return next(one for one in compared() if one.line.id == name)


def test_published_peaks_of_the_same_step_are_met_within_a_tenth_but_for_4_bits_on_several_gpus():
    ratios = {one.line.id: one.memory_ratio for one in compared() if one.line.same_step and one.memory_ratio}
    assert len(ratios) >= 8
    # Weights of 4 bits that two GPUs share: PyTorch reserved 1.2 times what it allocated there.
    shared = {"mixtral_qlora_fsdp_2", "mixtral_qlora_fsdp_4"}
    assert {name for name, ratio in ratios.items() if not 0.9 <= ratio <= 1.1} == shared
    assert all(0.8 < ratio < 0.9 for name, ratio in ratios.items() if name in shared)


def test_experts_in_4_bits_are_as_large_as_published():
    """Mixtral after loading: 25.2 GB by fms-acceleration, in which norms and tables of words are in float32."""
    assert of("mixtral_qlora_4").parts["weights"] == pytest.approx(25.2e9, rel=0.05)


def test_every_published_number_has_its_forecast_and_its_source():
    assert {one.line.id for one in compared()} == {line.id for line in published()}
    assert all(line.source and line.notes for line in published())


def test_the_page_shows_the_table():
    (begin, end), page = marks(MADE_BY), PAGE.read_text(encoding="utf-8")
    generated = page.partition(begin)[2].partition(end)[0]
    assert summary(compared()) in generated
    assert all(f"| {line[0]} |" in generated for line in rows(compared()))


def test_products_in_8_bits_by_published_pairs():
    """torchtitan, Llama 3.1 8B on 8 and 128 H100: the first pair gave the factor, the second tests it."""
    lines = {line.id: (line, trace) for line, trace in traced()}
    for plain, faster in (("torchtitan_189", "torchtitan_190"), ("torchtitan_192", "torchtitan_193")):
        line, trace = lines[plain]
        target = find_target("H100 SXM")
        works = trace.fused, in_float8(trace.fused, target)
        before, after = (forecast_step(work, line.sheet, "train", line.gpus).seconds for work in works)
        assert after / before == pytest.approx(lines[faster][0].seconds / line.seconds, rel=0.03)


def test_products_in_8_bits_need_units_for_them():
    work = next(trace.fused for line, trace in traced() if line.id == "torchtitan_189")
    assert in_float8(work, find_target("H100 SXM")).untested == ()
    assert in_float8(work, find_target("L40S")).untested == ("float8 products",)
    with pytest.raises(StudyError, match="float8 needs a GPU of Ada, Hopper or Blackwell"):
        in_float8(work, find_target("A100 SXM 80GB"))

"""Published peaks of memory and limits, next to their forecasts."""

from dataclasses import replace

import numpy as np
from fit import memory

CASES = memory.read_cases()


def test_no_case_is_called_wrong_but_where_it_is_tight() -> None:
    """Gemma 3 has 262,144 words: MaxText does not hold all of its logits at once."""
    assert [case.step for case in CASES if case.is_wrong] == ["hf:google/gemma-3-12b-pt, full, 1024 x 8192"]
    assert {case.published for case in CASES} >= {"ran", memory.OUT}
    assert sum(case.verdict != "tight" for case in CASES) >= 22 and sum(case.device == "TPU v6e" for case in CASES) == 8


def test_published_peaks() -> None:
    errors = [abs(np.log(case.tensors_gb / case.peak_gb)) for case in CASES if case.peak_gb]
    assert len(errors) >= 18 and np.median(errors) <= np.log(1.03) and np.quantile(errors, 0.9) <= np.log(1.08)


def test_a_step_is_tight_where_a_library_holds_gradients_of_frozen_weights() -> None:
    two, four = (case for case in CASES if "LoRA, FSDP" in case.step)
    assert two.published == memory.OUT and two.verdict == "tight" and replace(two, by_library_gb=0.0).verdict == "fits"
    assert four.published == "ran" and four.verdict == "fits"


def test_the_page_has_every_case() -> None:
    text = "\n".join(memory.page(CASES))
    assert all(f"| {case.step} |" in text for case in CASES) and text in memory.PAGE.read_text(encoding="utf-8")

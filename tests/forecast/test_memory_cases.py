"""Published peaks of memory and limits, next to their forecasts."""

from dataclasses import replace

import numpy as np
from fit import memory

CASES = memory.read_cases()


def test_no_case_is_called_wrong_but_where_it_is_tight() -> None:
    assert [case.step for case in CASES if case.is_wrong] == []
    assert {case.published for case in CASES} >= {"ran", memory.OUT}


def test_published_peaks_of_lora_with_and_without_4_bit_layers() -> None:
    errors = [abs(np.log(case.tensors_gb / case.peak_gb)) for case in CASES if case.peak_gb]
    assert len(errors) >= 9 and np.median(errors) <= np.log(1.03) and np.quantile(errors, 0.9) <= np.log(1.08)


def test_a_step_that_fits_may_not_load_where_every_rank_holds_the_whole_model() -> None:
    out = next(case for case in CASES if "FSDP" in case.step and case.published == memory.OUT)
    assert out.needed_gb < out.available_gb < out.loading_gb and out.verdict == "does not load"
    assert replace(out, whole_gb=0.0).verdict == "fits"


def test_the_page_has_every_case() -> None:
    text = "\n".join(memory.page(CASES))
    assert all(f"| {case.step} |" in text for case in CASES) and text in memory.PAGE.read_text(encoding="utf-8")

"""Published times and memory of language models' training, against the kept traces."""

import math

import numpy as np
import pytest

pytest.importorskip("torch")

from benchmarks.forecasts.language_models import (
    PUBLISHED,
    fit,
    left_out,
    memory_rows,
    need,
    published,
    read_digests,
    residuals,
    score,
    time_rows,
    verdict,
)

from whichdevice.models.hugging_face import known_models

TIMES = time_rows()


def test_every_published_row_has_its_source_and_model():
    lines = published()
    assert len(lines) == 204 and all("/" in line.source and line.model in known_models() for line in lines), PUBLISHED
    assert {line.group for line in lines} == {"llm-foundry", "litgpt", "torchtune", "torchtitan"}


def test_traces_have_the_published_number_of_weights():
    for program, trace in read_digests().items():
        name, method, shape, *_ = program.split(", ")
        if method == "full" and (shape.endswith(" 2048") or "benchmark" not in name):  # others have more places
            assert trace.parameters == pytest.approx(known_models()[name].parameters, rel=1e-3), program


def test_times_of_models_that_the_fit_did_not_see():
    misses = np.concatenate(list(left_out(TIMES, lambda row: row.line.model).values()))
    n, median, within = score(misses)
    assert n == 124 and median <= 0.06 and within <= 1.12


def test_a_source_that_the_fit_did_not_see_is_worse():
    found = {name: score(misses) for name, misses in left_out(TIMES, lambda row: row.line.group).items()}
    assert found["torchtitan"][1] <= 0.06 and found["llm-foundry"][1] <= 0.10


def test_residuals_do_not_grow_with_the_number_of_gpus():
    misses = residuals(TIMES, fit(TIMES), sorted({row.chip for row in TIMES}))
    for count in {row.line.gpus for row in TIMES} - {1}:
        own = [miss for miss, row in zip(misses, TIMES, strict=True) if row.line.gpus == count]
        assert abs(np.median(own)) < 0.10, count


def test_peak_memory_and_what_fits():
    rows = memory_rows()
    misses = [math.log(need(trace) / 1e9 / line.peak_gb) for line, trace in rows if line.peak_gb]
    assert len(misses) == 15 and score(np.array(misses))[1] <= 0.07
    verdicts = {line.id: (line.status, verdict(line, trace)) for line, trace in rows}
    assert [status for status, found in verdicts.values() if status == "oom" and found == "fits"] == []
    assert [status for status, found in verdicts.values() if status == "ok" and found == "does not fit"] == []

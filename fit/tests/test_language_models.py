"""Published times and memory of language models' training, against the kept traces."""

import pytest
from needs import require

require("torch")

from fit.fitting import TRACES, read_gzip
from fit.language_models import PUBLISHED, published, read_digests, timed_rows

from whichdevice.models.hugging_face import known_models

SOURCES = {"llm-foundry", "torchtune", "torchtitan"}


def test_every_published_row_has_its_source_and_model():
    lines = published()
    assert len(lines) == 204 and all("/" in line.source and line.model in known_models() for line in lines), PUBLISHED
    assert {line.group for line in lines} == {"llm-foundry", "litgpt", "torchtune", "torchtitan"}


def test_traces_have_the_published_number_of_weights():
    for program, trace in read_digests().items():
        name, method, shape, *_ = program.split(", ")
        if method == "full" and (shape.endswith(" 2048") or "benchmark" not in name):  # others have more places
            assert trace.parameters == pytest.approx(known_models()[name].parameters, rel=1e-3), program


def test_their_times_are_among_those_that_all_constants_are_fitted_to():
    rows = [row for question, row in timed_rows()]
    kept = [row for row in read_gzip(TRACES)["rows"] if row[0] in SOURCES]
    assert [row[:2] + row[3:] for row in rows] == [row[:2] + row[3:] for row in kept]
    assert sum(row[3] == "eager" for row in rows) == 124

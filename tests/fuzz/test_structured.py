"""Inputs of the right form with odd values in a few places, which reach deeper than changed bytes do."""

import gzip
import io
import os
import tempfile
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import synthetic
from fuzz import strategies, valid_inputs
from fuzz.readers import Reader, readers
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from synthetic_artefacts import forecast, predictions

from whichdevice.errors import StudyError
from whichdevice.figures import learning, style
from whichdevice.results import FORMS, Shown

EXAMPLES = max(20, int(os.environ.get("FUZZ_INPUTS", "500")) // 100)
FEW = max(2, EXAMPLES // 10)  # of the slow ones
READERS: dict[str, Reader] = {reader.name: reader for reader in readers()}
calm = {"deadline": None, "derandomize": True, "suppress_health_check": list(HealthCheck)}


def read(name: str, content: bytes) -> None:
    """Read, or be told why not in one line."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        path.write_bytes(content)
        try:
            READERS[name].read(path)
        except StudyError as error:
            assert len(str(error).splitlines()) == 1 and len(str(error)) < 2000, str(error)


FULL = (Path(__file__).parents[1] / "records/earlier/record-73ec0f3.json").read_bytes()


@settings(max_examples=EXAMPLES, **calm)
@given(strategies.mutated_json(READERS["record.json"].valid) | strategies.mutated_json(FULL))
def test_records(content: bytes) -> None:
    read("record.json", content)


@pytest.mark.slow
@settings(max_examples=FEW, **calm)
@given(strategies.mutated_json(READERS["study.json"].valid))
def test_a_record_never_stops_the_tables_and_the_page(content: bytes) -> None:
    read("study.json", content)


@settings(max_examples=EXAMPLES, **calm)
@given(st.data())
def test_other_documents(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["compiled.json", "source.json", "export.json", "samples.json", "dataset.json"]))
    read(name, data.draw(strategies.mutated_json(READERS[name].valid)))


@settings(max_examples=EXAMPLES, **calm)
@given(st.data())
def test_sheets(data: st.DataObject) -> None:
    name = data.draw(st.sampled_from(["published.csv", "hardware.csv", "prices.csv"]))
    read(name, data.draw(strategies.mutated_sheet(READERS[name].valid)))


@settings(max_examples=EXAMPLES, **calm)
@given(strategies.archives())
def test_archives(content: bytes) -> None:
    read("weather.tar.gz", gzip.compress(content))


@settings(max_examples=EXAMPLES, **calm)
@given(strategies.programs(READERS["program.hlo"].valid))
def test_programs_of_a_tpu(content: bytes) -> None:
    read("program.hlo", content)


DRAWN = {
    "predictions": [learning.draw_confusion_matrix, learning.draw_error_gallery],
    "forecast": [learning.draw_weather_forecast],
}
RUN = {
    "device": "cpu",
    "fraction": 1.0,
    "learned_epochs": 2,
    "cut": False,
    "batch_size": 8,
    "source": "standin",
    "steps_per_epoch": 4,
}
ARRAYS = {
    "predictions": predictions("mnist", np.random.default_rng(1), images=60),
    "forecast": forecast(np.random.default_rng(1), steps=30),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", ARRAYS)
@settings(max_examples=EXAMPLES, **calm)
@given(data=st.data())
def test_whatever_is_taken_of_an_artefact_can_be_drawn(name: str, data: st.DataObject) -> None:
    arrays = data.draw(strategies.mutated_arrays(ARRAYS[name]))
    try:
        content = FORMS[name](valid_inputs.packed(arrays))
    except Exception:  # refused in one line by `read_artefact`, as tests/figures/test_artefacts.py shows
        return
    run = pd.Series({**RUN, "workload": "mnist_cnn"})
    study = SimpleNamespace(
        best_artefacts=lambda *_, **__: [Shown(run, content)], sources={}, study=synthetic.small_study(),
        devices=["cpu"], kind=lambda _: "cpu",
    )  # fmt: skip
    for draw in DRAWN[name]:
        with style.applied():
            figure = draw(study)
            figure.savefig(io.BytesIO(), format="svg")

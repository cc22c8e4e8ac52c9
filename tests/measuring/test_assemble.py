"""A record can be closed at any point, and its artefacts carry checksums."""

import hashlib
from datetime import UTC, datetime

import pytest

from whichdevice.measure.running import RecordDraft
from whichdevice.study.cells import study_runs
from whichdevice.study.config.model import Study
from whichdevice.study.request import build_request

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.fixture
def draft():
    study = Study()
    run = study_runs(study)[0]
    return RecordDraft(study.study, run.path, build_request(study, run), NOW)


def test_a_run_that_never_spoke_is_a_whole_record(draft, tmp_path):
    record = draft.close("failed", "no word", NOW, tmp_path)
    assert (record.status, record.reason, record.steady.step_time) == ("failed", "no word", None)


def test_artefacts_are_named_from_the_record_with_their_checksums_and_missing_ones_left_out(draft, tmp_path):
    (tmp_path / "samples.json").write_bytes(b"[]")
    draft.take({"event": "part", "place": "artefacts", "value": {"samples": "samples.json", "weights": "gone.h5"}})
    record = draft.close("ok", None, NOW, tmp_path)
    assert list(record.artefacts) == ["samples"]
    assert record.artefacts["samples"].file == f"{tmp_path.name}/samples.json"
    assert record.artefacts["samples"].sha256 == hashlib.sha256(b"[]").hexdigest()

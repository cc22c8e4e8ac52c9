"""A request that was not answered never counts as a fast one; the service sends away none that the config asks for."""

from pathlib import Path
from types import SimpleNamespace
from unittest.mock import MagicMock

import numpy as np
import pytest
from serving.served_fake import FakeModel

from whichdevice.errors import StudyError
from whichdevice.measuring import serving_run
from whichdevice.measuring.serving_run import _answered, _serve
from whichdevice.serving.load_process import Answers


def process(failed: int):
    """Clients of whom so many were sent away at once."""
    return SimpleNamespace(load=lambda *a, **k: Answers(0.1, [0.01], failed, "503 busy" if failed else None))


def test_predictions_that_were_sent_away_are_no_throughput():
    _answered(process(0), "/p", Path("body"), 300, 1000)
    with pytest.raises(StudyError, match="40 of 1000 requests were not answered: 503 busy"):
        _answered(process(40), "/p", Path("body"), 300, 1000)


def test_a_service_takes_as_large_a_batch_as_is_measured(tmp_path, monkeypatch):
    pytest.importorskip("uvicorn", reason="sh envs/extra.sh serve installs it")
    pytest.importorskip("starlette", reason="sh envs/extra.sh serve installs it")
    monkeypatch.setattr(serving_run, "time_steps", lambda prepare, *others: prepare(1)())
    monkeypatch.setattr(serving_run, "LEAST_REQUESTS", 1)
    inputs, emit = np.zeros((5000, 2, 3), np.uint8), MagicMock()
    request = SimpleNamespace(clients=[1], seconds=0.01, batch_size=len(inputs), model="fake")
    _serve(FakeModel(), inputs, SimpleNamespace(forward_flops=1.0), request, tmp_path / "body.json", emit)
    place, found = emit.part.call_args.args
    assert (place, found.loads[0].failed) == ("serving", 0)

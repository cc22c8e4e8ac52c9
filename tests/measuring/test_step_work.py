"""What a record says of its step's operations and bytes: those of the forecasts' count."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from backends.scenario import request_for

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.forecast.products import CompiledRecord, CompileFacts, ProgramRequest
from whichdevice.measure import step_work as counted
from whichdevice.measure.step_work import step_work

FILES = yaml.safe_load((Path(__file__).parents[1] / "models/native_models.yaml").read_text(encoding="utf-8"))


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    """Requests for counts; each is answered by 1000 operations and 8 bytes for each example, or fails for a reason."""
    played = SimpleNamespace(asked=[], changes={}, reason=None)

    def count(requests: list[ProgramRequest], **_: Any) -> list[CompiledRecord]:
        played.asked += requests
        if played.reason:
            return [CompiledRecord(asked=requests[0], status="failed", reason=played.reason, code_hash="")]
        return [record(request, **played.changes) for request in requests]

    monkeypatch.setattr(counted, "count_steps", count)
    return played


def record(request: ProgramRequest, **changes: Any) -> CompiledRecord:
    between = 64.0 * request.batch_size * (2 if request.mode == "prefill" else 1)
    facts = CompileFacts(memory=1e9, memory_available=1e9, memory_parts={"activations": between})
    items = [["product", "float32", 1000.0, 8.0, request.batch_size, None, 1]]
    work = {"platform": "gpu", "items": items, "unknown_loops": 0, "unknown_calls": 0, **changes}
    return CompiledRecord(asked=request, status="ok", code_hash="", facts=facts, work=work)


def test_replicas_share_the_batch_and_each_does_its_part(played: SimpleNamespace) -> None:
    work = step_work(request_for(batch_size=16, replicas=4))
    assert (work.operations, work.nbytes, work.between, work.counted) == (16_000.0, 128.0, 1024.0, WHOLE_COUNT)
    assert [(one.batch_size, one.devices, one.mode) for one in played.asked] == [(4, 1, "train")]


def test_a_decoding_step_is_what_generation_times_and_the_prompt_needs_more_memory(played: SimpleNamespace) -> None:
    work = step_work(request_for(mode="generate", batch_size=2))
    assert [one.mode for one in played.asked] == ["prefill", "decode"]
    assert (work.operations, work.between) == (2000.0, 256.0)


@pytest.mark.parametrize(
    ("changes", "operations", "said"),
    [
        ({"unknown_loops": 1}, 1000.0, "a lower bound: without repeats of a loop"),
        ({"unknown_calls": 2}, 1000.0, "a lower bound: without foreign kernels"),
        ({"items": []}, None, "unknown: no product was found"),
    ],
)
def test_what_was_not_counted_is_said(played, changes, operations, said) -> None:
    played.changes = changes
    work = step_work(request_for(batch_size=1))
    assert (work.operations, work.counted) == (operations, said)


def test_a_step_that_cannot_be_counted_is_unknown_and_not_0(played: SimpleNamespace) -> None:
    played.reason = "no such luck"
    work = step_work(request_for(batch_size=3))
    assert (work.operations, work.counted) == (None, "unknown: no such luck")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "forward", "gradients"),
    [
        # Gradients of both layers' weights and of the last one's input; nobody needs that of the image.
        pytest.param("torch", 2 * (4 * 8 * 8 * 3 * 9 + 4 * 10), 2 * (4 * 8 * 8 * 3 * 9 + 2 * 4 * 10),
                     marks=pytest.mark.needs("torch")),
        ("jax", 24, 24),
    ],
)  # fmt: skip
def test_operations_of_a_file_are_those_of_its_products(working_folder: Path, file, forward, gradients) -> None:
    Path("mine.py").write_text(FILES[file], encoding="utf-8")
    for mode, operations in (("predict", forward), ("train", forward + gradients)):
        work = step_work(request_for(module="mine.py", workload="mine", batch_size=3, mode=mode))
        assert (work.operations, work.counted) == (3 * operations, WHOLE_COUNT)
        assert work.nbytes > 0

"""Which steps that did not compile are tried again."""

from pathlib import Path

import pytest

from whichdevice.forecast.request import compile_requests, compiled_path
from whichdevice.planning import compile_plan
from whichdevice.planning.compile_plan import may_compile_now
from whichdevice.records.compiled import CompiledRecord, write_compiled

VERSIONS = {"jax": "1", "jaxlib": "1", "libtpu": "1", "keras": "1"}


@pytest.mark.parametrize(
    ("status", "before", "timeout", "here", "again"),
    [
        ("unavailable", {"jax": "1"}, 900, VERSIONS, True),  # the compiler was installed since then
        ("unavailable", {"jax": "1"}, 900, {"jax": "2"}, False),  # still without it
        ("failed", VERSIONS, 900, VERSIONS, False),
        ("failed", VERSIONS, 900, {**VERSIONS, "libtpu": "2"}, True),
        ("failed", VERSIONS, 60, VERSIONS, True),  # it has more time now
        ("ok", VERSIONS, 60, {**VERSIONS, "libtpu": "2"}, False),
        ("does_not_fit", VERSIONS, 900, {**VERSIONS, "libtpu": "2"}, False),
    ],
)
def test_a_step_is_tried_again_where_that_may_end_otherwise(plan, monkeypatch, status, before, timeout, here, again):
    study = plan().study
    asked = compile_requests(study)[0]
    path = compiled_path(study, asked)
    monkeypatch.setattr(compile_plan, "compiler_versions", lambda: here)
    assert not may_compile_now(study, str(path))  # never compiled: nothing to repeat
    asked = asked.model_copy(update={"timeout": float(timeout)})
    write_compiled(CompiledRecord(asked=asked, status=status, versions=before, code_hash="c"), path)
    assert may_compile_now(study, str(path)) is again
    Path(path).write_text("{", encoding="utf-8")
    assert not may_compile_now(study, str(path))

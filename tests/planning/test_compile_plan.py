"""Which programs a call compiles: narrowed by `only`, and no others than the study's."""

from pathlib import Path

import pytest

from whichdevice.compiling.request import compile_requests, compiled_path
from whichdevice.planning import compile_plan
from whichdevice.planning.compile_plan import compiled_records, other_compiled
from whichdevice.records.compiled import CompiledRecord, write_compiled


@pytest.fixture(autouse=True)
def compiler(monkeypatch):
    """A host with the compiler, whatever this one has; `compiler(False)` takes it away."""

    def there(installed: bool) -> None:
        monkeypatch.setattr(compile_plan, "find_spec", lambda name: installed or None)

    there(True)
    return there


def workloads(paths: list[str]) -> list[str]:
    return sorted(Path(path).parts[4].split("-")[0] for path in paths)


def test_only_narrows_the_programs_too(plan):
    assert workloads(compiled_records(plan())) == ["matmul", "mnist_cnn", "mnist_cnn"]
    assert workloads(compiled_records(plan(only={"workload": "matmul"}))) == ["matmul"]
    assert len(compiled_records(plan(only={"batch_size": [512]}))) == 1
    assert compiled_records(plan(only={"device": "cpu"})) == []
    assert len(compiled_records(plan(only={"device": ["cpu", "tpu"]}))) == 3


def test_more_time_for_the_compiler_compiles_nothing_again_and_another_batch_is_another_record(plan):
    before = compiled_records(plan())
    assert compiled_records(plan(compile={"timeout": 5})) == before
    assert not set(before) & set(compiled_records(plan(compile={"batch_size": [32]})))


@pytest.mark.parametrize(("status", "again"), [("failed", True), ("unavailable", True), ("ok", False)])
def test_a_retry_takes_what_did_not_compile(plan, status, again):
    study = plan().study
    asked = compile_requests(study)[0]
    path = compiled_path(study, asked)
    write_compiled(CompiledRecord(asked=asked, status=status, code_hash="c"), path)
    assert compiled_records(plan(retry="failed")) == [str(path)] * again
    assert other_compiled(plan(retry="failed")) == [str(path)] * (not again)


def test_without_the_compiler_only_existing_records_are_listed(plan, compiler):
    study = plan().study
    asked = compile_requests(study)[0]
    write_compiled(CompiledRecord(asked=asked, status="ok", code_hash="c"), compiled_path(study, asked))
    compiler(False)
    assert compiled_records(plan()) == [str(compiled_path(study, asked))]
    assert len(compiled_records(plan(run_on="all"))) == 3  # a scheduler's node may have it

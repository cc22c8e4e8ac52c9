"""The parent of a compile: statuses, the cache across studies, the lock. The compiling process is a stand-in here."""

import threading
from pathlib import Path

import pytest

from whichdevice.compiling import compile as parent
from whichdevice.compiling.compile import compile_cell, compile_code_hash
from whichdevice.errors import StudyError
from whichdevice.locks import SCHEDULERS, measurement_lock
from whichdevice.measuring.supervisor import Finish
from whichdevice.records.compiled import CompileRequest, read_compiled

VERSIONS = {"jax": "1", "jaxlib": "1", "libtpu": "1", "keras": "1"}
FACTS = {"devices": 8, "hbm": 8e9, "hbm_available": 7e9, "memory_needed": 1e9, "memory_missing": None}
MODELLED = {"low": 1e-3, "high": 2e-3, "bytes_with_cycles": 1.0, "unknown_trip_counts": 0}


def request(**changes) -> CompileRequest:
    asked = {"topology": "v2-2x2", "workload": "matmul", "module": "matmul", "precision": "bfloat16", "batch_size": 64}
    return CompileRequest(**{**asked, **changes})


class Process:
    """Stands in for the compiling process: says what it was told to, and counts its starts."""

    def __init__(self, finish: Finish, then: Finish | None = None, **parts: dict) -> None:
        self.starts, self._finishes, self._parts = 0, [finish, then or finish], parts

    def __call__(self, asked, dataset, log, on_message) -> Finish:
        self.starts += 1
        for place, value in self._parts.items():
            on_message({"event": "part", "place": place, "value": dict(value)})
        return self._finishes[min(self.starts, 2) - 1]


@pytest.fixture
def process(working_folder, monkeypatch):
    monkeypatch.setattr(parent, "compiler_versions", lambda: dict(VERSIONS))

    def install(*finishes: Finish, **parts: dict) -> Process:
        made = Process(*finishes, **parts)
        monkeypatch.setattr(parent, "supervised", made)
        return made

    return install


def compiled(asked: CompileRequest, study: str = "s"):
    path = Path(f"results/{study}/compiled/{asked.path}.json")
    record = compile_cell(asked, None, path, Path("log"))
    assert read_compiled(path) == record
    return record


def test_facts_and_modelled_time_stand_apart_with_their_evidence(process):
    process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    record = compiled(request())
    assert (record.status, record.reason) == ("ok", None)
    assert (record.facts.evidence, record.modelled.evidence) == ("compiled", "modelled")
    assert record.versions == VERSIONS


def test_nothing_compiles_twice_across_studies(process):
    made = process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    first = compiled(request())
    again = compiled(request(workload="mine", timeout=5.0), study="other")
    assert made.starts == 1
    assert (again.facts, again.asked.workload) == (first.facts, "mine")


def test_a_compiler_that_somebody_killed_starts_once_more(process):
    made = process(Finish("failed", "killed", 0, killed=True), Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    assert (compiled(request()).status, made.starts) == ("ok", 2)


def test_a_full_disk_leaves_no_record(process):
    process(Finish("failed", "OSError: [Errno 28] No space left on device", 0))
    with pytest.raises(OSError, match="no room left on the disk"):
        compiled(request())
    assert not list(Path("results").rglob("*.json"))


@pytest.mark.parametrize("change", [{"batch_size": 128}, {"precision": "float32"}, {"largest_batch": True}])
def test_whatever_changes_the_program_compiles_anew(process, change):
    made = process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    compiled(request())
    compiled(request(**change))
    assert made.starts == 2


def test_another_version_of_the_compiler_compiles_anew(process, monkeypatch):
    made = process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    compiled(request())
    monkeypatch.setattr(parent, "compiler_versions", lambda: {**VERSIONS, "libtpu": "2"})
    compiled(request())
    assert made.starts == 2


def test_a_failure_is_a_record_and_is_tried_again(process):
    made = process(Finish("failed", "the process crashed: SIGSEGV", 0))
    assert (compiled(request()).status, compiled(request()).reason) == ("failed", "the process crashed: SIGSEGV")
    assert made.starts == 2


def test_a_compile_that_hangs_is_a_failure_that_names_the_setting(process):
    process(Finish("timed_out", "...", 0))
    record = compiled(request(timeout=7.0))
    assert (record.status, record.reason) == ("failed", "still compiling after compile.timeout = 7 s; killed")


def test_facts_outlive_a_search_for_the_largest_batch_that_hangs(process):
    made = process(Finish("timed_out", "...", 0), facts=FACTS, modelled=MODELLED)
    record = compiled(request(largest_batch=True))
    assert (record.status, record.reason) == ("ok", None)
    assert "still compiling" in record.facts.largest_batch_reason
    compiled(request(largest_batch=True))
    assert made.starts == 2  # an answer without the largest batch is not the last word


def test_a_step_that_does_not_fit_says_so_even_when_the_search_hangs(process):
    process(Finish("timed_out", "...", 0), facts={**FACTS, "memory_needed": 9e9, "memory_missing": 2e9})
    record = compiled(request(largest_batch=True))
    assert record.status == "does_not_fit"
    assert record.reason == "needs 8.38 GiB of HBM on each device, 6.52 GiB are available: 1.86 GiB too much"


def test_without_the_compiler_the_record_says_what_is_missing(process, monkeypatch):
    made = process(Finish("ok", None, 0), facts=FACTS)
    monkeypatch.setattr(parent, "compiler_versions", lambda: {"jax": "1", "jaxlib": "1", "keras": "1"})
    record = compiled(request())
    assert (record.status, record.reason) == ("unavailable", "not installed: libtpu; see docs/tpu-model.md")
    assert made.starts == 0


def test_a_compile_waits_for_a_measurement_and_says_so(process, capsys):
    made = process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    waiter = threading.Thread(target=compiled, args=(request(),))
    with measurement_lock(lambda: None):
        waiter.start()
        waiter.join(0.3)
        assert made.starts == 0
    waiter.join(10)
    assert made.starts == 1
    assert "waiting for a measurement" in capsys.readouterr().err


def test_a_scheduler_s_job_waits_for_no_measurement(process, monkeypatch):
    made = process(Finish("ok", None, 0), facts=FACTS, modelled=MODELLED)
    monkeypatch.setenv(SCHEDULERS[0], "7")
    with measurement_lock(lambda: None):
        compiled(request())
    assert made.starts == 1


def test_an_unknown_slice_is_the_studys_fault(process):
    with pytest.raises(StudyError, match="no TPU topology 'v9-2x2'"):
        compiled(request(topology="v9-2x2"))


def test_the_code_hash_covers_the_workload():
    assert compile_code_hash("matmul") != compile_code_hash("mnist_cnn")

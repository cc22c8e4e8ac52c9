"""A run that fails, hangs, is killed or cannot fit is a row with a status, and the study goes on to its end."""

import pytest

from whichdevice.records.schema import Record

pytestmark = pytest.mark.slow
WORKLOAD = """
import os, signal, time
from pathlib import Path
from whichdevice.workloads.base import Recipe
from whichdevice.workloads.matmul import Matmul

class Own(Matmul):
    recipe = Recipe("a test", 8)

    def operands(self, random):
        {act}
        return super().operands(random)
"""
ACTS = {
    "fails": "if not Path('mended').exists(): raise ValueError('no luck today')",
    "hangs": "time.sleep(600)",
    "dies": "os.kill(os.getpid(), signal.SIGKILL)",
    "greedy": "raise MemoryError('cannot allocate 99 TB')",
    "oversized": "import tensorflow as tf; tf.zeros((10**7, 10**7))",
    "works": "pass",
}
ASKED = "batch_size 8, expected to need 0.9 GB (estimate)"


@pytest.fixture(scope="module")
def study(project):
    workloads = {}
    for name, act in ACTS.items():
        (project.folder / f"{name}.py").write_text(WORKLOAD.format(act=act))
        workloads[name] = {"module": f"{name}.py"}
    workloads["weather_gru"] = {"batch_size": [100_000]}
    project.write(
        {
            "study": "faulty",
            "data": {"source": "standin"},
            "forecast": {"devices": []},
            "measure": {"seconds": 0.1, "min_steps": 1, "repeats": 1, "timeout": 25, "retry_disturbed": False},
            "workloads": workloads,
        }
    )
    project.first = project.snakemake("all")
    return project


def record(study, workload: str) -> Record:
    (path,) = (study.folder / "results/faulty/runs/cpu" / workload).glob("*/r1/record.json")
    return Record.model_validate_json(path.read_text())


@pytest.mark.parametrize(
    ("workload", "status", "reason"),
    [
        ("fails", "failed", "ValueError: no luck today (fails.py, line 11)"),
        ("hangs", "timed_out", "still running after measure.timeout = 25 s; killed, while starting"),
        ("dies", "failed", "killed from outside (signal 9), not for lack of memory, twice"),
        ("greedy", "out_of_memory", f"MemoryError: cannot allocate 99 TB (greedy.py, line 11); {ASKED}"),
        ("works", "ok", None),
    ],
)
def test_each_end_has_its_status_and_its_reason(study, workload, status, reason):
    found = record(study, workload)
    assert (found.status, found.reason) == (status, reason)


def test_a_run_that_the_estimate_lets_through_ends_out_of_memory_and_names_the_size_asked_for(study):
    found = record(study, "oversized")
    assert found.status == "out_of_memory"
    assert "OOM when allocating tensor with shape[10000000,10000000]" in found.reason
    assert found.reason.endswith(f"(400,000.0 GB) (oversized.py, line 11); {ASKED}")


def test_a_run_that_cannot_fit_is_refused_with_what_it_needs(study):
    found = record(study, "weather_gru")
    assert found.status == "refused"
    assert "GB of memory (estimate)" in found.reason
    assert found.workload.estimated_memory > 1e11
    assert found.steady.windows == []


def test_the_study_ends_well_and_says_how_many_failed_and_how_to_repeat_them(study):
    assert study.first.code == 0, study.first.out
    assert "5 of 7 runs failed (2 failed, 2 out_of_memory, 1 timed_out). 1 of 7 runs refused" in study.first.out
    assert "--forcerun measure --config retry=failed" in study.first.out
    report = (study.folder / "results/faulty/report.html").read_text()
    assert "no luck today" in report


def test_the_log_of_a_failed_run_holds_its_traceback(study):
    (log,) = (study.folder / "results/faulty/logs/runs/cpu/fails").glob("**/*.log")
    assert "ValueError: no luck today" in log.read_text()


def test_failed_runs_are_measured_again_on_demand_and_only_they(study):
    assert "Nothing to be done" in study.snakemake("all").out
    again = ("all", "--forcerun", "measure", "--config", "retry=failed")
    assert study.snakemake("-n", *again).jobs["measure"] == 5
    (study.folder / "mended").touch()
    done = study.snakemake(*again, "only={workload: fails}")
    assert done.code == 0, done.out
    assert record(study, "fails").status == "ok"
    assert study.snakemake("-n", "all").jobs["measure"] == 0

"""What a call prints last: how its runs ended and how to go on; and of a scheduler's lost jobs."""

from pathlib import Path

import pytest
from planning.planned import end

from whichdevice.study.planning.progress import END, closing_lines, job_error_line


def test_the_closing_line_counts_and_says_how_to_go_on(plan):
    planned = plan(only={"device": "cpu"})
    end(planned, "failed", "ok", "refused", "timed_out", "ok", "ok")
    [line] = closing_lines(planned)
    assert "2 of 6 runs failed (1 failed, 1 timed_out)" in line
    assert "1 of 6 runs refused: they did not fit this host" in line
    assert "To repeat failed runs and refused runs that now fit: " in line
    again = "whichdevice study all --configfile results/planned/config.yaml --config retry=failed -- --forcerun measure"
    assert line.endswith(again)
    assert "\n" not in line


def test_refused_runs_alone_are_no_failures_and_may_fit_another_time(plan):
    planned = plan(only={"device": "cpu"})
    end(planned, *["ok"] * 5, "refused")
    [line] = closing_lines(planned)
    assert line.startswith("No run failed. 1 of 6 runs refused: they did not fit this host. ")
    assert "To repeat refused runs that now fit: whichdevice study" in line


def test_the_closing_line_is_about_this_call_alone(plan):
    end(plan(), "failed")  # matmul on the CPU
    planned = plan(only={"device": "gpu"})
    assert closing_lines(planned) == []
    end(planned, "ok")
    assert closing_lines(planned) == ["All 1 runs are ok."]


FACTS: dict = {
    "rule_name": "measure",
    "output": ["runs/gpu/r1/record.json (update)"],
    "log": ["logs/r1.log", "slurm_logs/7.log"],
}


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("slurm_logs").mkdir()
    for number in (7, 8):
        Path(f"slurm_logs/{number}.log").touch()


def test_a_job_of_a_scheduler_is_one_line_with_its_output_its_message_and_the_schedulers_log(logs):
    facts = {**FACTS, "rule_msg": f"SLURM-job '7' failed,\n status: 'NODE_FAIL'. {END} and so on"}
    line = job_error_line("JOB_ERROR", facts)
    assert line == "runs/gpu/r1/record.json: SLURM-job '7' failed, status: 'NODE_FAIL'. (log: slurm_logs/7.log)"


def test_a_rejected_job_has_no_log_and_its_command_is_left_out():
    facts = {
        **FACTS,
        "log": ["logs/r1.log"],
        "rule_msg": f"sbatch failed: no such partition.\n  sbatch call: sbatch -p x {END}",
    }
    assert job_error_line("JOB_ERROR", facts) == "runs/gpu/r1/record.json: sbatch failed: no such partition."


def test_grouped_jobs_are_named_by_their_group(logs):
    line = job_error_line("GROUP_ERROR", {"groupid": "drawing", "aux_logs": ["slurm_logs/8.log"]})
    assert line == "jobs of group drawing: failed (log: slurm_logs/8.log)"

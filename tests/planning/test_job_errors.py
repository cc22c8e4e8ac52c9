import logging
from pathlib import Path
from types import SimpleNamespace

import pytest

from whichdevice.planning.job_errors import END, job_error_line, show_job_errors

FACTS: dict = {
    "rule_name": "measure",
    "output": ["runs/gpu/r1/record.json (update)"],
    "log": ["logs/r1.log", "slurm_logs/7.log"],
}


@pytest.fixture(autouse=True)
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("slurm_logs").mkdir()
    for number in (7, 8):
        Path(f"slurm_logs/{number}.log").touch()


def test_a_job_of_a_scheduler_is_one_line_with_its_output_what_was_said_and_the_schedulers_log():
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


def test_a_long_message_is_cut():
    line = job_error_line("JOB_ERROR", {**FACTS, "log": [], "rule_msg": "word " * 200 + END})
    assert line.endswith(" ...")
    assert len(line) < 350


def test_a_job_of_this_host_has_no_line():
    assert job_error_line("JOB_ERROR", {**FACTS, "rule_msg": None}) == ""
    assert job_error_line("JOB_INFO", {**FACTS, "rule_msg": END}) == ""


def test_grouped_jobs_are_named_by_their_group():
    line = job_error_line("GROUP_ERROR", {"groupid": "drawing", "aux_logs": ["slurm_logs/8.log"]})
    assert line == "jobs of group drawing: failed (log: slurm_logs/8.log)"


def test_it_listens_to_a_logger_and_writes_to_stderr(capsys):
    logger = logging.Logger("snakemake")
    show_job_errors(logger)
    logger.info("nothing")
    logger.error(
        "Error in rule", extra={**FACTS, "event": SimpleNamespace(name="JOB_ERROR"), "rule_msg": f"lost. {END}"}
    )
    assert capsys.readouterr().err == "runs/gpu/r1/record.json: lost. (log: slurm_logs/7.log)\n"

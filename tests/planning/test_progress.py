"""The terminal of a study: a line for each finished run, the time left, and the answer at the end."""

import io
import logging
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from planning.planned import end

from whichdevice.study.planning.progress import END, StudyProgress, shows_progress


@pytest.fixture(autouse=True)
def _as_before() -> Iterator[None]:
    before = logging.raiseExceptions
    yield
    logging.raiseExceptions = before


def tell(logger: logging.Logger, event: str, **facts: object) -> None:
    logger.info("Snakemake's own text", extra={"event": SimpleNamespace(name=event), **facts})


@pytest.fixture
def watched(plan):
    planned = plan(only={"device": "cpu"})
    stream, logger = io.StringIO(), logging.Logger("snakemake")
    progress = StudyProgress(stream).listen(logger)
    tell(logger, "RUN_INFO", stats={"measure": 6, "tables": 1, "total": 7})
    progress.begin()
    return SimpleNamespace(plan=planned, stream=stream, logger=logger, progress=progress)


def finish(watched, number: int, record: str) -> None:
    facts = {"jobid": number, "rule_name": "measure", "output": [f"{record} (update)"]}
    tell(watched.logger, "JOB_INFO", **facts)
    tell(watched.logger, "JOB_FINISHED", job_id=number)


def test_a_finished_run_is_one_line_with_its_number_and_the_time_left(watched):
    first, second = end(watched.plan, "ok", "failed")
    finish(watched, 3, first)
    finish(watched, 4, second)
    lines = watched.stream.getvalue().splitlines()
    assert [line.partition("] ")[0] for line in lines] == ["[1/6", "[2/6"]
    assert ": ok · " in lines[0] and "left" in lines[0]
    assert ": failed: why" in lines[1]


def test_the_live_line_counts_and_names_what_runs_now(watched):
    [record] = end(watched.plan, "ok")
    assert watched.progress.text() == "0 of 6 runs · time left: known after the first run"
    finish(watched, 3, record)
    tell(
        watched.logger,
        "JOB_INFO",
        jobid=4,
        rule_name="measure",
        output=[watched.plan.records(watched.plan.wanted())[1]],
    )
    assert watched.progress.text().startswith("1 of 6 runs · about ")
    assert " · now cpu " in watched.progress.text()


def test_a_lost_job_of_a_scheduler_is_one_line(watched):
    facts = {
        "jobid": 3,
        "rule_name": "measure",
        "output": ["runs/gpu/r1/record.json (update)"],
        "log": [],
        "rule_msg": f"lost. {END}",
    }
    tell(watched.logger, "JOB_ERROR", **facts)
    assert watched.stream.getvalue() == "runs/gpu/r1/record.json: lost.\n"


def test_snakemakes_own_lines_stay_off_the_terminal_but_for_problems():
    stream, logger = io.StringIO(), logging.Logger("snakemake")
    terminal = logging.StreamHandler(stream)
    terminal.name = "DefaultStreamHandler"
    logger.addHandler(terminal)
    StudyProgress(io.StringIO()).listen(logger)
    logger.info("Using shell: /bin/bash")
    logger.info("Nothing to be done (all requested files are present and up to date).")
    logger.error("WorkflowError: no such rule")
    logger.error("RuleException:\nCalledProcessError in file rules/runs.smk, line 24:\nCommand ...")
    logger.error("WorkflowError:\nAt least one job did not complete successfully.")
    assert [line.split()[0] for line in stream.getvalue().splitlines()] == ["Nothing", "WorkflowError:"]


def test_a_closed_terminal_or_an_event_of_another_shape_does_not_stop_snakemake():
    class Closed(io.StringIO):
        def write(self, text: str) -> int:
            raise BrokenPipeError

    logger = logging.Logger("snakemake")
    StudyProgress(Closed()).listen(logger)
    tell(logger, "JOB_ERROR", jobid=3, rule_name="measure", output=["a"], log=[], rule_msg=f"lost. {END}")
    tell(logger, "JOB_INFO")


@pytest.mark.parametrize(
    ("call", "shown"),
    [
        (["snakemake", "--cores", "1", "all"], True),
        (["snakemake", "-n", "all"], False),
        (["snakemake", "--dry-run"], False),
        (["snakemake", "--mode", "remote", "all"], False),
        (["snakemake", "--cores", "1", "all", "--nolock", "--config", "study=new"], True),
    ],
)
def test_dry_runs_and_jobs_of_a_scheduler_show_snakemakes_own_lines(call, shown):
    assert shows_progress(call) is shown

"""What a call says last: how its runs ended and how to go on."""

import pytest
from planning.planned import end

from whichdevice.planning.closing import closing_line


def test_the_closing_line_counts_and_says_how_to_go_on(plan):
    planned = plan(only={"device": "cpu"})
    end(planned, "failed", "ok", "refused", "timed_out", "ok", "ok")
    line = closing_line(planned)
    assert "2 of 6 runs failed (1 failed, 1 timed_out)" in line
    assert "1 of 6 runs refused: they did not fit this host" in line
    assert "to repeat the failed ones and the refused ones that fit by then: " in line
    again = "snakemake --cores 1 all --configfile results/planned/config.yaml --forcerun measure --config retry=failed"
    assert line.endswith(again)
    assert "\n" not in line


@pytest.mark.parametrize(
    ("statuses", "line"),
    [
        ([], ""),
        (["ok"] * 6, "All 6 runs are ok."),
    ],
)
def test_a_study_without_failures_ends_without_advice(plan, statuses, line):
    planned = plan(only={"device": "cpu"})
    end(planned, *statuses)
    assert closing_line(planned) == line


def test_refused_runs_alone_are_no_failures_and_may_fit_another_time(plan):
    planned = plan(only={"device": "cpu"})
    end(planned, *["ok"] * 5, "refused")
    line = closing_line(planned)
    assert line.startswith("No run failed. 1 of 6 runs refused: they did not fit this host. ")
    assert "to repeat the refused ones that fit by then: snakemake" in line


def test_the_closing_line_is_about_this_call_alone(plan):
    end(plan(), "failed")  # matmul on the CPU
    planned = plan(only={"device": "gpu"})
    assert closing_line(planned) == ""
    end(planned, "ok")
    assert closing_line(planned) == "All 1 runs are ok."

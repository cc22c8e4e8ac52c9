"""`python -m whichdevice plan`: what a study will take, before anything runs."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import synthetic
import yaml
from beside import beside

from whichdevice.__main__ import main
from whichdevice.apps.commands.plan import merged
from whichdevice.study.planning.study_plan import plan_study
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record

BESIDE = beside(__file__)

CONFIG = BESIDE["config"]
RUNS = 2 * 3  # repeats, cells
Plan = Callable[..., str]


@pytest.fixture
def plan(working_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Plan:
    """Print the plan of CONFIG with overrides, on a host with a CPU alone, whatever this one has."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("TPU_VISIBLE_CHIPS", "")
    Path("my study.yaml").write_text(yaml.safe_dump(CONFIG), encoding="utf-8")

    def printed(*overrides: str) -> str:
        assert main(["plan", "--configfile", "my study.yaml", "--config", *overrides]) == 0
        out, err = capsys.readouterr()
        assert err == ""
        return out

    return printed


def measure(count: int) -> None:
    """Write records of the first runs, as if they were measured."""
    planned = plan_study(CONFIG)
    for run in planned.wanted()[:count]:
        write_record(synthetic.record_of_this_code(planned.study, run), Path(planned_record(planned.study, run)))


def test_what_is_measured_already_is_not_planned_again(plan):
    measure(2)
    assert f"{RUNS} on this host, 2 measured already, {RUNS - 2} to measure" in plan()


@pytest.mark.parametrize("override", ["measure={seconds: 60}", "seed=7"])
def test_what_has_a_record_of_other_settings_is_planned_again(plan, override):
    measure(2)
    out = plan(override)
    assert f"0 measured already, {RUNS} to measure." in out
    assert "2 measured runs changed in settings, code or data and are measured again; old records stay" in out


def test_failed_runs_that_are_to_be_repeated_are_planned(plan):
    study_plan_now = plan_study(CONFIG)
    for run, status in zip(study_plan_now.wanted(), ["failed", "ok", "timed_out"], strict=False):
        record = synthetic.failed_record(study_plan_now.study, run, status)
        write_record(record, Path(planned_record(study_plan_now.study, run)))
    out = plan("retry=failed")
    assert "2 on this host, 0 measured already, 2 to measure" in out
    assert re.search(r"^cpu +matmul +2 ", out, re.MULTILINE)


def test_archives_that_are_not_where_they_should_be_are_named(plan):
    Path("archives/mnist").mkdir(parents=True)
    out = plan("data={source: auto, dir: archives}", "workloads={mnist_cnn: {epochs: 0}}", "only={workload: mnist_cnn}")
    (line,) = [line for line in out.splitlines() if line.startswith("data.dir: ")]
    assert re.match(r"data\.dir: no train-images\S* in archives/mnist: mnist is stand-in data; ", line)


@pytest.mark.parametrize("kind", ["gpu", "tpu"])
def test_a_device_that_is_left_out_comes_with_the_command_that_would_measure_it(plan, kind):
    (line,) = [line for line in plan().splitlines() if line.startswith(f"Left out: {kind}")]
    assert f"({RUNS} runs): no {kind.upper()} found on this host" in line
    assert line.endswith(f"whichdevice study {kind} --configfile 'my study.yaml'")


def test_what_did_not_fail_is_not_blamed_on_only(plan):
    planned = plan_study(CONFIG)
    run = planned.wanted()[0]
    write_record(synthetic.failed_record(planned.study, run, "failed", "why"), Path(planned_record(planned.study, run)))
    out = plan("retry=failed", "only={batch_size: [64, 128]}")
    assert f"Left out: {RUNS // 3} runs that `only` does not select." in out
    assert f"Left out: {2 * RUNS // 3 - 1} runs that did not fail (retry=failed)." in out


def test_overrides_merge_into_what_the_file_says(plan):
    out = plan("measure={repeats: 5}", "study=try")
    assert f"Study try: {3 * 15} runs configured" in out
    values = merged(CONFIG, ["measure={repeats: 5}", "data={dir: x}", "data={sources: {mnist: files}}"])
    assert values["measure"] == {"repeats": 5, "seconds": 0.5}
    assert values["data"] == {"source": "standin", "dir": "x", "sources": {"mnist": "files"}}
    assert values["workloads"] == CONFIG["workloads"]
    assert CONFIG["measure"] == {"repeats": 2, "seconds": 0.5}


OWN = BESIDE["own"]


@pytest.mark.parametrize("module", ["own.py", "package.nets:net"])
def test_nothing_of_a_model_of_ones_own_runs_in_a_plan(plan, module):
    Path("package").mkdir()
    for path in ("own.py", "package/nets.py", "package/__init__.py"):
        Path(path).write_text(OWN, encoding="utf-8")
    out = plan(f"workloads={{own: {{module: '{module}'}}}}")
    assert not Path("ran").exists()
    assert f"{RUNS + 2} to measure" in out


def test_minutes_are_the_limits_of_the_config_until_a_record_tells_the_time_of_a_step(plan):
    def minutes(out: str) -> float:
        return float(re.search(r"^About (\d+) min; up to 30 s more", out, re.MULTILINE)[1])

    longer, known = "measure={seconds: 120}", round((RUNS * (9.5 + 1.25 * 120) + 30) / 60)
    assert minutes(plan(longer)) == known
    measure(RUNS)
    assert minutes(plan(longer)) >= known


def test_epochs_of_unknown_length_are_said_to_have_no_bound(plan):
    assert "At least" in plan("workloads={mnist_cnn: {epochs: 3}}", "train={seconds: null}")

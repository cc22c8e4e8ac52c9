"""A tiny study from config to report, and what runs again after which change."""

import json
import os
import re
import shutil
import subprocess
import sys

import pytest

from whichdevice.records.schema import Record

TABLES = {
    "runs", "epochs", "summary", "speedups", "crossover", "saturation", "scaling", "published", "forecasts", "limits",
    "roofline", "breakdown", "costs", "cost_choices", "time_to_target", "noise_floor", "fastest", "inference", "audit",
    "board",
}  # fmt: skip
STUDY = {
    "study": "tiny",
    "data": {"source": "standin"},
    "measure": {
        "seconds": 0.2,
        "min_steps": 2,
        "repeats": 2,
        "timeout": 120,
        "profile": True,
        "retry_disturbed": False,
    },
    "train": {"epochs": 1},
    "workloads": {"matmul": {"batch_size": [64, 128]}, "mnist_cnn": {"batch_size": [128], "fraction": [0.01]}},
}
RUNS = 6
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def study(project):
    project.write(STUDY)
    done = project.snakemake("all")
    assert done.code == 0, done.out
    project.first = done
    return project


@pytest.fixture(autouse=True)
def restored(study):
    """Each test starts from the same code and config."""
    yield
    study.write(STUDY)


def results(study):
    return study.folder / "results/tiny"


def records(study) -> dict[str, Record]:
    return {
        path.parents[1].relative_to(results(study) / "runs").as_posix(): Record.model_validate_json(path.read_text())
        for path in results(study).glob("runs/**/record.json")
    }


def planned(study, *arguments: str, target: str = "all"):
    done = study.snakemake("-n", target, *arguments)
    assert done.code == 0, done.out
    return done.jobs


def test_every_run_is_a_record_and_the_report_is_there(study):
    found = records(study)
    assert len(found) == RUNS
    assert {record.status for record in found.values()} == {"ok"}
    assert (results(study) / "report.html").stat().st_size > 10_000
    assert {path.stem for path in results(study).glob("tables/*.csv")} == TABLES
    assert "All 6 runs are ok." in study.first.out


def test_progress_says_which_run_of_how_many(study):
    ended = re.findall(r"\[(\d)/6\] cpu (?:matmul|mnist_cnn) tensorflow-\S+ r(\d): ok", study.first.out)
    assert ended == [(str(number), "1" if number <= 3 else "2") for number in range(1, 7)]
    assert re.search(r"\[[456]/6\] cpu mnist_cnn tensorflow-float32-b128-fraction=0.01 r2: ok", study.first.out)


def test_all_first_repeats_are_measured_before_all_second_ones(study):
    by_start = sorted(records(study).items(), key=lambda item: item[1].started)
    assert [name[-2:] for name, _ in by_start] == ["r1"] * 3 + ["r2"] * 3


def test_a_record_holds_what_it_takes_to_believe_it(study):
    record = records(study)["cpu/mnist_cnn/tensorflow-float32-b128-fraction=0.01/r1"]
    assert record.cold.start > 0
    assert record.cold.first_step > 0
    assert record.steady.step_time == pytest.approx(record.steady.seconds / record.steady.steps)
    assert record.workload.parameters == 412_778
    assert record.machine.cpu
    assert record.software.versions["tensorflow"]
    assert record.software.code_hash
    assert record.memory.peak_host > 1e8
    assert record.energy.joules is not None or record.energy.reason
    assert len(record.epochs) == 1
    assert record.results["test_images"] == 10_000
    assert set(record.artefacts) >= {"weights", "predictions", "profile"}
    (folder,) = (results(study) / "runs" / record.run).iterdir()
    assert (folder / record.artefacts["profile"].file).name == "host.xplane.pb"


def test_no_result_names_the_host_or_the_user_or_a_path(study):
    import re

    words = [re.escape(word.encode()) for word in (os.uname().nodename, str(study.folder.parent))]
    named = re.compile(rb"(?<![A-Za-z])(" + b"|".join(words) + rb")(?![A-Za-z])")
    for path in [*results(study).glob("runs/**/*"), *results(study).glob("tables/*")]:
        assert not named.search(path.name.encode())
        if path.suffix in (".json", ".csv", ".pb"):
            assert not named.search(path.read_bytes()), path


def test_only_the_first_repeat_learns(study):
    assert records(study)["cpu/mnist_cnn/tensorflow-float32-b128-fraction=0.01/r2"].epochs == []


def test_a_second_call_does_nothing(study):
    assert "Nothing to be done" in study.snakemake("all").out


def test_a_study_whose_folder_was_moved_has_nothing_to_do(study):
    moved = type(study)(study.folder.with_name("moved (x)"))
    study.folder.rename(moved.folder)
    done = moved.snakemake("-n", "all")
    moved.folder.rename(study.folder)
    assert "Nothing to be done" in done.out


def test_results_in_a_fresh_checkout_are_drawn_again_and_not_measured(study, tmp_path):
    fresh = type(study)(tmp_path / "fresh")
    shutil.copytree(study.folder, fresh.folder, ignore=shutil.ignore_patterns(".snakemake", "__pycache__"))
    shutil.rmtree(fresh.folder / "results/datasets")  # neither notes nor data
    jobs = planned(fresh)
    assert jobs["measure"] == jobs["dataset"] == 0


def test_a_changed_figure_is_drawn_and_nothing_is_measured(study):
    study.edit("scripts/whichdevice/figures/matmul_tflops.py", "\nTITLE = ", "\nSHADE = 1\nTITLE = ")
    jobs = planned(study)
    study.edit("scripts/whichdevice/figures/matmul_tflops.py", "\nSHADE = 1\nTITLE = ", "\nTITLE = ")
    assert (jobs["measure"], jobs["tables"], jobs["figures"]) == (0, 0, 1)


def test_a_new_batch_size_with_the_data_deleted_measures_it_alone_and_prepares_what_it_reads(study):
    aside = study.folder / "aside"
    (study.folder / "results/datasets").rename(aside)
    study.write({**STUDY, "workloads": {**STUDY["workloads"], "mnist_official": {"batch_size": [64]}}})
    jobs = planned(study)
    aside.rename(study.folder / "results/datasets")
    assert (jobs["measure"], jobs["dataset"], jobs["tables"]) == (2, 1, 1)


def test_a_change_measures_again_and_the_change_taken_back_measures_nothing(study):
    before = {path: path.read_bytes() for path in results(study).glob("runs/**/record.json")}
    longer = {**STUDY, "measure": {**STUDY["measure"], "seconds": 0.3}}
    study.write(longer)
    one = ("--config", "only={workload: matmul, batch_size: 64, repeat: 1}")
    done = study.snakemake("tables", *one)
    assert done.code == 0, done.out
    assert "1 measured runs changed in settings, code or data and are measured again" in done.out
    assert len(list(results(study).glob("runs/**/record.json"))) == RUNS + 1
    table = (results(study) / "tables/runs.csv").read_text()
    assert table.count("not_measured") >= RUNS - 1  # records of the other settings are in no table
    study.write(STUDY)
    jobs = planned(study)
    assert (jobs["measure"], jobs["tables"]) == (0, 1)
    assert study.snakemake("tables").code == 0
    assert {path: path.read_bytes() for path in before} == before
    assert {json.loads(path.read_bytes())["asked"]["seconds"] for path in before} == {0.2}


def test_code_edited_after_planning_is_refused_and_leaves_no_record(study):
    (record,) = (results(study) / "runs/cpu/matmul/tensorflow-float32-b64/r2").glob("*/record.json")
    other = record.parents[1] / "0123456789ab" / "record.json"
    for path, line in ((other, "edited after this call was planned; make the same call again"), (record, "")):
        before = record.read_bytes()
        done = by_hand(study, path)
        assert (done.returncode == 0) == (line == ""), done.stderr
        assert line in done.stderr and not other.exists()
    assert record.read_bytes() != before  # by hand it is measured once more


def by_hand(study, record):
    """Measure one run without Snakemake."""
    command = [sys.executable, "scripts/measure.py", "results/tiny/config.yaml", record.relative_to(study.folder)]
    return subprocess.run([*command, "--log", "hand.log"], cwd=study.folder, capture_output=True, text=True)


def test_reading_the_workflow_changes_no_file(study):
    before = tree(study.folder)
    assert study.snakemake("-n", "all").code == 0
    assert study.snakemake("--lint").code == 0
    assert tree(study.folder) == before


def tree(folder):
    """Every file with its time, but for Snakemake's own notes."""
    found = {}
    for path in folder.rglob("*"):
        if ".snakemake" not in path.parts and "__pycache__" not in path.parts:
            found[path] = path.stat().st_mtime_ns if path.is_file() else 0
    return found


def test_two_calls_of_one_study_do_not_meet(study):
    from whichdevice.locks import StudyLock

    lock = StudyLock(results(study)).take()
    done = study.snakemake("tables", "--forcerun", "tables")
    lock.release()
    assert done.code != 0
    assert "is in use by another call" in done.error

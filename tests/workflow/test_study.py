"""A tiny study from config to report, and what runs again after which change."""

import json
import os
import re
import shutil

import pytest

from whichdevice.records.schema import Record

TABLES = {
    "runs", "epochs", "summary", "speedups", "crossover", "saturation", "scaling", "published", "compiled", "limits",
    "roofline", "breakdown", "costs", "cost_choices", "time_to_target", "noise_floor", "fastest", "inference", "audit",
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
        path.parent.relative_to(results(study) / "runs").as_posix(): Record.model_validate_json(path.read_text())
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
    starts = re.findall(r"\[(\d)/6\] cpu (?:matmul|mnist_cnn) tensorflow-\S+ r(\d): starting", study.first.out)
    assert starts == [(str(number), "1" if number <= 3 else "2") for number in range(1, 7)]
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
    folder = results(study) / "runs" / record.run
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


def test_forcing_measures_that_kind_again_and_nothing_else(study):
    jobs = planned(study, "--forcerun", "measure", target="cpu")
    assert dict(jobs) == {"measure": RUNS, "cpu": 1, "total": RUNS + 1}


def test_another_batch_size_runs_only_what_is_new(study):
    study.write({**STUDY, "workloads": {**STUDY["workloads"], "matmul": {"batch_size": [64, 128, 256]}}})
    jobs = planned(study)
    assert jobs["measure"] == 2
    assert jobs["tables"] == 1


def test_another_time_budget_measures_everything_again(study):
    study.write({**STUDY, "measure": {**STUDY["measure"], "seconds": 0.3}})
    assert planned(study)["measure"] == RUNS


def test_touching_files_measures_nothing(study):
    for path in [*study.folder.glob("scripts/**/*.py"), *study.folder.glob("results/datasets/**/*.json")]:
        path.touch()
    assert planned(study)["measure"] == 0


def test_results_in_a_fresh_checkout_are_not_measured_again(study, tmp_path):
    fresh = type(study)(tmp_path / "fresh")
    shutil.copytree(study.folder, fresh.folder, ignore=shutil.ignore_patterns(".snakemake", "__pycache__"))
    assert planned(fresh)["measure"] == 0


@pytest.mark.parametrize(
    ("file", "old", "new", "measured", "figures"),
    [
        ("scripts/whichdevice/figures/matmul_tflops.py", "\nTITLE = ", "\nSHADE = 1\nTITLE = ", 0, 1),
        (
            "scripts/whichdevice/backends/tensorflow_training.py",
            "return sums / tf",
            "return 1.0 * sums / tf",
            RUNS,
            1,
        ),
        ("scripts/whichdevice/workloads/mnist_cnn.py", "layers.Dropout(0.5)", "layers.Dropout(0.45)", 2, 1),
        ("scripts/whichdevice/backends/tensorflow.py", '"""', '"""Now: ', 0, 0),
    ],
    ids=["a figure", "the backend", "a workload", "a comment"],
)
def test_code_runs_again_what_it_made(study, file, old, new, measured, figures):
    before = (study.folder / file).read_text()
    study.edit(file, old, new)
    try:
        jobs = planned(study)
        assert jobs["measure"] == measured
        assert jobs["figures"] == figures
    finally:
        (study.folder / file).write_text(before)


def test_a_stand_in_made_by_other_code_is_made_again_and_what_read_it_measured_again(study):
    study.edit("scripts/whichdevice/datasets/standin/digits.py", "import ", "SHADE = 1\nimport ")
    try:
        jobs = planned(study)
        assert jobs["dataset"] == 1
        assert jobs["measure"] == 2
    finally:
        study.edit("scripts/whichdevice/datasets/standin/digits.py", "SHADE = 1\nimport ", "import ")


def test_a_changed_config_and_a_missing_run_are_both_seen_at_once(study):
    study.write({**STUDY, "train": {"epochs": 2}})
    assert planned(study)["measure"] == 1  # the one that learns


def test_a_device_can_ask_its_scheduler_for_resources(study):
    study.write({**STUDY, "devices": {"cpu": {"kind": "cpu", "resources": {"slurm_partition": "short"}}}})
    done = study.snakemake("-n", "runs", "--forcerun", "measure", "--quiet", "host")
    assert "slurm_partition=short" in done.out


def test_a_lost_record_blocks_nothing(study):
    lost = results(study) / "runs/cpu/matmul/tensorflow-float32-b64/r2/record.json"
    kept = lost.read_bytes()
    lost.unlink()
    assert planned(study)["measure"] == 1
    assert planned(study, "--config", "only={workload: mnist_cnn}")["measure"] == 0
    lost.write_bytes(kept)


def test_one_run_can_be_measured_by_hand(study):
    import subprocess
    import sys

    record = "results/tiny/runs/cpu/matmul/tensorflow-float32-b64/r1/record.json"
    before = json.loads((study.folder / record).read_text())["started"]
    done = subprocess.run(
        [sys.executable, "scripts/measure.py", "results/tiny/config.yaml", record, "--log", "hand.log"],
        cwd=study.folder, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads((study.folder / record).read_text())["started"] > before


def test_two_studies_in_one_folder_do_not_meet(study):
    from whichdevice.locks import study_lock

    with study_lock(results(study)):
        done = study.snakemake("all", "--forcerun", "tables")
    assert done.code != 0
    assert "in use" in done.error

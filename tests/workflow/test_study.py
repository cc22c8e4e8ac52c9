"""One whole study from config to report, on a machine unlike the developer's, and what runs again after which change.

It is measured once for all tests of this file: workloads of every kind, own files, runs that fail or do not fit,
exported models and a forecast. The machine has one core, locale C, letters beyond ASCII and a home on another file
system; where this user may mount, everything beside the clone is read-only.
"""

import csv
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import synthetic
from beside import beside
from needs import may_mount
from workflow.conftest import FIGURES, Outcome, Project, copy_project

from whichdevice.measure.record import Record
from whichdevice.study.config.model import Device, Workload
from whichdevice.study.exporting.record import read_export
from whichdevice.study.records.store import read_record, write_record
from whichdevice.study.tables.make import TABLES

BESIDE = beside(__file__)

pytestmark = [pytest.mark.slow, pytest.mark.needs("linux")]  # taskset and mounts

OWN, ACTS, DECODER, STUDY = (BESIDE[name] for name in ("own", "acts", "decoder", "study"))
RUNS, MNIST = len(STUDY["workloads"]), "cpu/mnist_cnn/jax-float32-b128-fraction=0.005/r1"
KEPT = ("PATH", "TMPDIR", "WHICHDEVICE_LOCK_FOLDER", "JAX_DISABLE_MOST_OPTIMIZATIONS")  # of the environment
# The clone's parent and the old home are read-only, the new home is on another file system.
SEALED = (
    'mount --bind "$1" "$1" && mount --bind "$2" "$2" && mount -o remount,ro,bind "$1" && cd "$2" && '
    'shift 2 && exec "$@"'
)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Project]:
    """The study and what its call printed, in `said`."""
    parent = tmp_path_factory.mktemp("parent")
    project = copy_project(parent / "Mein Ordner für Messungen 測定")
    project.edit("scripts/whichdevice/models/datasets/mnist.py", '="70,000', '="Seventy thousand')
    for name, act in ACTS.items():
        (project.folder / f"{name}.py").write_text(OWN.format(act=act), encoding="utf-8")
    project.write(STUDY)
    prefix = ["taskset", "--cpu-list", str(min(os.sched_getaffinity(0)))]
    if may_mount():
        prefix += ["unshare", "-m", "sh", "-c", SEALED, "sh", str(parent), str(project.folder)]
    kept = {name: os.environ[name] for name in KEPT if name in os.environ}
    with tempfile.TemporaryDirectory(dir="/dev/shm" if os.access("/dev/shm", os.W_OK) else None) as home:
        done = subprocess.run(
            [*prefix, sys.executable, "-m", "snakemake", "--cores", "1", "all", "--configfile", "study.yaml"],
            cwd=project.folder,
            env={**kept, "HOME": home, "LC_ALL": "C"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            timeout=3600,
            check=False,
        )
    assert done.returncode == 0, done.stdout
    project.said = done.stdout
    yield project


@pytest.fixture
def study(finished: Project, tmp_path: Path) -> Project:
    """A copy that a test may change; nothing of it depends on where it is. Arrays are shared with the original."""
    folder = tmp_path / "moved (x)"

    def copy(source: str, target: str) -> None:
        (os.link if source.endswith(".npy") else shutil.copy2)(source, target)

    shutil.copytree(finished.folder, folder, copy_function=copy)
    return Project(folder)


def results(study: Project) -> Path:
    return study.folder / "results/tiny"


def records(study: Project) -> dict[str, Record]:
    """Record by run."""
    return {
        path.parents[1].relative_to(results(study) / "runs").as_posix(): Record.model_validate_json(path.read_text())
        for path in results(study).glob("runs/**/record.json")
    }


def record(study: Project, workload: str) -> Record:
    """The only record of a workload."""
    (found,) = [each for name, each in records(study).items() if name.split("/")[1] == workload]
    return found


def rows(study: Project, table: str) -> list[dict[str, str]]:
    with (results(study) / f"tables/{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


class TestFinished:
    """What the call leaves."""

    def test_every_run_is_a_record_and_every_table_figure_and_page_is_there(self, finished):
        assert len(records(finished)) == RUNS
        assert {path.stem for path in results(finished).glob("tables/*.csv")} == set(TABLES)
        assert {path.stem for path in results(finished).glob("figures/*.svg")} == set(FIGURES)
        assert (results(finished) / "report.html").read_text(encoding="utf-8").count("·")
        assert len(rows(finished, "runs")) == RUNS

    def test_the_call_counts_what_failed_and_says_how_to_repeat_it(self, finished):
        assert f"2 of {RUNS} runs failed (2 failed). 1 of {RUNS} runs refused" in finished.said
        assert "--config retry=failed -- --forcerun measure" in finished.said

    def test_progress_says_which_run_of_how_many_ended_how(self, finished):
        ended = re.findall(rf"\[(\d)/{RUNS}\] cpu (\w+) \S+ r1: (\w+)", finished.said)
        assert [int(number) for number, _, _ in ended] == list(range(1, RUNS + 1))
        assert {name: status for _, name, status in ended}["mnist_cnn"] == "ok"

    @pytest.mark.parametrize(
        ("workload", "status", "reason"),
        [
            ("matmul", "ok", None),
            ("mine", "ok", None),
            ("fails", "failed", "ValueError: no luck today (fails.py, line 11)"),
            ("dies", "failed", "killed from outside (signal 9), not for lack of memory, twice"),
        ],
    )
    def test_each_end_is_a_row_with_its_status_and_reason(self, finished, workload, status, reason):
        found = record(finished, workload)
        assert (found.status, found.reason) == (status, reason)

    def test_what_cannot_fit_is_refused_with_what_it_needs(self, finished):
        found = record(finished, "huge")
        assert found.status == "refused"
        assert "GB of memory (estimate)" in found.reason
        assert found.workload.estimated_memory > 1e12 and found.steady.windows == []

    def test_the_log_of_a_failed_run_holds_its_traceback_and_the_page_its_reason(self, finished):
        (log,) = (results(finished) / "logs/runs/cpu/fails").glob("**/*.log")
        assert "Traceback" in log.read_text(encoding="utf-8")
        assert "no luck today" in (results(finished) / "report.html").read_text(encoding="utf-8")

    def test_a_record_holds_what_it_takes_to_believe_it(self, finished):
        record = records(finished)[MNIST]
        assert record.cold.start > 0 and record.cold.first_step > 0
        assert record.steady.step_time == pytest.approx(record.steady.seconds / record.steady.steps)
        assert record.workload.parameters == 412_778
        assert record.machine.cpu and record.machine.threads == 1
        assert record.software.versions["jax"] and record.software.code_hash
        assert record.memory.peak_host > 1e8
        assert record.energy.joules is not None or record.energy.reason
        assert len(record.epochs) == 1
        assert set(record.artefacts) >= {"weights", "examples"}

    def test_no_result_names_the_host_or_a_path(self, finished):
        words = [re.escape(word.encode()) for word in (os.uname().nodename, str(finished.folder.parent))]
        named = re.compile(rb"(?<![A-Za-z])(" + b"|".join(words) + rb")(?![A-Za-z])")
        for path in [*results(finished).glob("runs/**/*"), *results(finished).glob("tables/*")]:
            assert not named.search(path.name.encode())
            if path.suffix in (".json", ".csv", ".pb"):
                assert not named.search(path.read_bytes()), path

    @pytest.mark.needs("mounts")
    def test_nothing_is_written_beside_the_clone(self, finished):
        assert [path.name for path in finished.folder.parent.iterdir()] == [finished.folder.name]

    def test_jobs_run_the_code_of_their_own_clone_and_not_of_the_environments(self, finished):
        (made,) = finished.folder.glob("results/datasets/mnist/standin-*/dataset.json")
        assert json.loads(made.read_text(encoding="utf-8"))["description"].startswith("Seventy thousand")

    def test_a_file_of_ones_own_is_measured_like_any_workload_with_its_options(self, finished):
        assert len((finished.folder / "docs/examples/my_model.py").read_text(encoding="utf-8").splitlines()) < 30
        (row,) = [row for row in rows(finished, "runs") if row["workload"] == "mine"]
        assert float(row["flops_per_step"]) > 0 and float(row["throughput"]) > 0
        assert (row["unit"], row["source"], row["learned_epochs"]) == ("image", "generated", "1")
        found = record(finished, "mine")
        assert found.asked.options == {"width": 4}
        assert found.workload.parameters == 4 * (27 + 1) + 15 * 15 * 4 * 10 + 10

    def test_it_has_a_forecast_for_a_device_that_is_not_here(self, finished):
        (forecast,) = rows(finished, "forecasts")
        assert (forecast["workload"], forecast["device"], forecast["evidence"]) == ("mine", "T4", "forecast")
        assert forecast["status"] == "ok"
        assert float(forecast["step_time_low"]) < float(forecast["step_time"]) < float(forecast["step_time_high"])
        assert "T4" in (results(finished) / "report.html").read_text(encoding="utf-8")


class TestExported:
    """Models that JAX trained, as TensorFlow's SavedModel."""

    def test_a_model_of_an_own_file_is_read_back_with_its_options(self, finished):
        export = read_export(next(results(finished).glob("models/mine/*/export.json")))
        assert (export.status, export.reason) == ("ok", None)
        assert export.check.saved_model <= export.check.tolerance

    @pytest.mark.long
    def test_an_image_model_and_one_with_layers_of_its_own_file_predict_the_same(self, study):
        learned = {"mnist_cnn": {**STUDY["workloads"]["mnist_cnn"], "export": True}, "decoder": DECODER}
        study.write({**STUDY, "workloads": {**STUDY["workloads"], **learned}})
        done = study.snakemake("models")
        assert done.code == 0, done.out
        (folder,) = results(study).glob("models/mnist_cnn/*")
        export = read_export(folder / "export.json")
        assert (export.status, export.reason) == ("ok", None)
        assert export.check.examples == 32 and export.check.saved_model <= export.check.tolerance
        for name, file in export.files.items():
            assert (folder / name).stat().st_size == file.size

        export = read_export(next(results(study).glob("models/decoder/*/export.json")))
        assert (export.status, export.reason) == ("ok", None)
        assert export.check.saved_model <= export.check.tolerance


class TestNextCall:
    """What the next call does with a finished study; which runs it has is tested on the planner (tests/planning)."""

    def test_in_a_moved_folder_nothing_is_left_to_do_and_planning_changes_no_file(self, study):
        before = tree(study.folder)
        assert "Nothing to be done" in study.snakemake("-n", "all").out
        assert tree(study.folder) == before

    def test_a_checkout_of_the_results_without_data_and_notes_measures_nothing(self, study):
        shutil.rmtree(study.folder / ".snakemake")
        shutil.rmtree(study.folder / "results/datasets")
        jobs = planned(study, "all")
        assert jobs["measure"] == jobs["dataset"] == jobs["export"] == 0

    def test_a_changed_figure_is_drawn_and_nothing_is_measured(self, study):
        study.edit("scripts/whichdevice/study/figures/roofline.py", "\n@draws(", "\nSHADE = 1\n@draws(")
        jobs = planned(study, "all")
        assert (jobs["measure"], jobs["tables"], jobs["figures"]) == (0, 0, 1)

    @pytest.mark.parametrize(
        ("edit", "jobs"),
        [
            ({"devices": {"cpu": {"kind": "cpu", "usd_per_hour": 2}}}, {"tables": 1, "figures": 1, "report": 1}),
            ({"measure": {**STUDY["measure"], "timeout": 800}}, {"report": 1}),  # which prints the config
            ({"storage": {"bucket": None}}, {}),
        ],
        ids=["a price", "a time-out", "nothing"],
    )
    def test_an_edited_key_makes_again_what_reads_it_and_nothing_else(self, study, edit, jobs):
        study.write({**STUDY, **edit})
        planned_jobs = planned(study, "all")
        assert {rule: planned_jobs[rule] for rule in planned_jobs if rule not in ("all", "total")} == jobs

    def test_what_changed_is_measured_alone_and_its_data_are_prepared(self, study):
        """A new workload whose data were deleted, and an edited model file."""
        shutil.rmtree(study.folder / "results/datasets")
        study.edit("docs/examples/my_model.py", "Adam(1e-3)", "Adam(2e-3)")
        study.write({**STUDY, "workloads": {**STUDY["workloads"], "mnist_official": {"batch_size": [64]}}})
        jobs = planned(study, "all")
        assert (jobs["measure"], jobs["dataset"], jobs["tables"]) == (2, 1, 1)

    def test_records_of_another_machine_join_the_tables_and_a_changed_one_makes_them_again(self, study):
        there = synthetic.small_study(
            devices={"cpu": Device(kind="cpu")}, workloads={"matmul": Workload(batch_size=[64], backend=["jax"])}
        )
        _, (path, *_) = synthetic.write_study(there, study.folder / "results/there", artefacts=False)
        asked = ("--config", "records=results/there", "rename={cpu: laptop}")
        made = results(study) / "tables/comparisons.csv"

        def call() -> int:
            """Bring the records and make tables; when these were made."""
            done = study.snakemake("tables", *asked)
            assert done.code == 0 and "records of results/there: " in done.out, done.out
            return made.stat().st_mtime_ns

        first = call()
        assert '"laptop' in made.read_text() or ",laptop" in made.read_text()
        assert call() == first and planned(study, "tables")["tables"] == 0, "they stay without being named"
        write_record(read_record(path).model_copy(update={"reason": "again"}), path)
        assert call() > first
        shutil.rmtree(results(study) / "merged")
        assert planned(study, "tables")["tables"] == 1

    def test_a_second_call_of_a_study_that_runs_is_one_line(self, study):
        from whichdevice.base.locks import StudyLock

        lock = StudyLock(results(study)).take()
        done = study.snakemake("tables", "--forcerun", "tables")
        lock.release()
        assert done.code != 0 and "is in use by another call" in done.error

    def test_failed_runs_are_measured_again_on_demand_and_only_they(self, study):
        before = {path: path.read_bytes() for path in results(study).glob("runs/**/record.json")}
        (study.folder / "results/lucky").touch()
        chosen = ("retry=failed", "only={workload: [fails, mine]}")
        done = study.snakemake("runs", "--forcerun", "measure", "--config", *chosen)
        assert done.code == 0, done.out
        assert record(study, "fails").status == "ok"
        assert [path for path in before if path.read_bytes() != before[path] and "fails" not in path.parts] == []

    def test_a_job_that_fails_keeps_the_record_that_was_there(self, study):
        """One fails before its record, one after it; neither is lost, and the next call has nothing to do."""
        before = {path: path.read_bytes() for path in results(study).glob("runs/**/record.json")}
        measure = "        measure(arguments.config"
        study.edit("scripts/measure.py", measure, "        if 'mnist' in str(arguments.record): return 3\n" + measure)
        study.edit("scripts/measure.py", "    return 0\n", "    return 3\n")
        chosen = "only={workload: [matmul, mnist_cnn]}"
        assert study.snakemake("runs", "--keep-going", "--forcerun", "measure", "--config", chosen).code != 0
        assert all(Record.model_validate_json(path.read_bytes()).status for path in before)
        assert [path for path in before if path.read_bytes() != before[path] and "matmul" not in str(path)] == []
        study.edit("scripts/measure.py", "    return 3\n", "    return 0\n")
        assert "Nothing to be done" in study.snakemake("runs").out

    def test_code_edited_after_planning_is_refused_and_leaves_no_record(self, study):
        (path,) = (results(study) / "runs/cpu/matmul/").glob("*/r1/*/record.json")
        before, other = path.read_bytes(), path.parents[1] / "0123456789ab" / "record.json"
        done = by_hand(study, other)
        assert done.returncode != 0 and not other.exists()
        assert "edited after this call was planned; make the same call again" in done.stderr
        done = by_hand(study, path)
        assert done.returncode == 0, done.stderr
        assert path.read_bytes() != before  # by hand it is measured once more

    @pytest.mark.long
    def test_the_workflows_own_report_holds_every_table_and_figure(self, study):
        from whichdevice.study.figures import figure_facts
        from whichdevice.study.tables import table_about

        done = study.snakemake("all", "--report", "own.html")
        assert done.code == 0, done.out
        page = (study.folder / "own.html").read_text(encoding="utf-8")
        facts = figure_facts("roofline")
        for words in ("Tables", facts.category, facts.title, facts.caption[:60]):
            assert words in page
        for name in TABLES:
            assert f"{name}.csv" in page
            assert table_about(name).split("`")[0].split("'")[0] in page


def planned(study: Project, *arguments: str) -> dict[str, int]:
    """Jobs of a dry run by rule."""
    done: Outcome = study.snakemake("-n", *arguments)
    assert done.code == 0, done.out
    return done.jobs


def by_hand(study: Project, path: Path) -> subprocess.CompletedProcess[str]:
    """Measure one run without Snakemake."""
    command = [sys.executable, "scripts/measure.py", "results/tiny/config.yaml", path.relative_to(study.folder)]
    return subprocess.run([*command, "--log", "hand.log"], cwd=study.folder, capture_output=True, text=True)


def tree(folder: Path) -> dict[Path, int]:
    """Every file with its time, but for Snakemake's own notes."""
    found = {}
    for path in folder.rglob("*"):
        if ".snakemake" not in path.parts and "__pycache__" not in path.parts:
            found[path] = path.stat().st_mtime_ns if path.is_file() else 0
    return found

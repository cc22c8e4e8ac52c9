"""Two machines' records in one report, through a bucket."""

import csv

import pytest
from remote.conftest import emulator  # noqa: F401
from workflow.machines import HOST, PROJECT, TOKEN, USER, bucket_at, machine, told, whichdevice

from whichdevice.records.store import read_record, write_record
from whichdevice.remote.place import open_place
from whichdevice.remote.publish import publish

pytestmark = pytest.mark.slow

STUDY = {
    "study": "both",
    "devices": {"cpu": {"kind": "cpu", "usd_per_hour": 3.0}},
    "measure": {"seconds": 0.1, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
    "workloads": {"matmul": {"batch_size": [64]}},
}
RUN = "matmul/tensorflow-float32-b64/r1"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the machines live."""
    return tmp_path_factory.mktemp("machines")


@pytest.fixture(scope="module")
def bucket(emulator, folder):  # noqa: F811
    """The bucket between them."""
    with bucket_at(emulator, folder) as address:
        yield address


@pytest.fixture(scope="module")
def box(folder, bucket):
    """A machine that measured and published under a study name of its own."""
    project = machine(folder, "box")
    project.write({**STUDY, "study": "box", "storage": {"bucket": bucket}})
    done = project.snakemake("publish", timeout=900)
    assert done.code == 0, done.out
    open_place(bucket).fs.rm(f"{bucket}/box", recursive=True)
    for path in (project.folder / "results/box/runs").rglob("record.json"):
        record = read_record(path)
        other = record.machine.model_copy(update={"cpu": "Other CPU", "identity": "0123456789ab"})
        write_record(record.model_copy(update={"machine": other}), path)
    publish(project.folder / "results/box", open_place(bucket))
    return project


@pytest.fixture(scope="module")
def laptop(folder, bucket, box):
    """A machine whose device has the same name."""
    project = machine(folder, "laptop")
    project.write({**STUDY, "devices": {"cpu": {"kind": "cpu"}}})
    return project


def rows(project, table: str) -> list[dict[str, str]]:
    with (project.folder / f"results/both/tables/{table}.csv").open(encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_one_name_for_two_machines_is_refused_with_the_rename_that_solves_it(laptop, bucket):
    done = whichdevice(laptop, "merge", f"{bucket}/box", "--configfile", "study.yaml")
    assert done.returncode != 0 and "Traceback" not in done.stdout
    assert "was measured on another machine (Other CPU" in done.stdout
    assert done.stdout.strip().endswith("give it another name: --rename cpu=cpu_2")
    assert not (laptop.folder / "results/both/merged").exists()


def test_renamed_they_are_in_one_report_and_no_ratio_hides_that_there_are_two(laptop, box, bucket):
    done = whichdevice(laptop, "merge", f"{bucket}/box", "--configfile", "study.yaml", "--rename", "cpu=box")
    assert done.returncode == 0, done.stdout
    done = laptop.snakemake("report", timeout=900)
    assert done.code == 0, done.out
    found = {row["run"]: row for row in rows(laptop, "runs")}
    theirs = read_record(next((box.folder / f"results/box/runs/cpu/{RUN}").rglob("record.json")))
    row = found[f"box/{RUN}"]
    assert (row["status"], row["cpu"], row["machine_id"]) == ("ok", "Other CPU", "0123456789ab")
    assert float(row["throughput"]) == pytest.approx(theirs.steady.throughput, rel=1e-5)
    assert found[f"cpu/{RUN}"]["status"] == "ok"
    between = [row for row in rows(laptop, "speedups") if row["comparison"] == "device"]
    assert [row["setting"].split(",")[0] for row in between] == ["2 machines"]
    assert {row["device"]: row["usd_per_hour"] for row in rows(laptop, "costs")} == {"cpu": "", "box": "3"}
    report = (laptop.folder / "results/both/report.html").read_text(encoding="utf-8")
    assert "Other CPU" in report and bucket not in report
    assert "Nothing to be done" in laptop.snakemake("report").out
    assert laptop.snakemake("-n", "all").jobs["measure"] == 0


def test_no_result_says_where_the_records_came_from(laptop, box, bucket):
    assert told(laptop.folder / "results", USER, HOST, PROJECT, TOKEN, bucket) == []


def test_the_studys_own_config_measures_no_merged_device(laptop):
    assert laptop.snakemake("-n", "all", "--configfile", "results/both/config.yaml").jobs["measure"] == 0


def test_a_dry_run_beside_a_running_study_changes_nothing(laptop):
    before = {path: path.stat().st_mtime_ns for path in (laptop.folder / "results").rglob("*")}
    assert laptop.snakemake("-n", "tables").code == 0
    assert {path: path.stat().st_mtime_ns for path in (laptop.folder / "results").rglob("*")} == before


def test_what_was_dropped_leaves_the_tables(laptop):
    source = whichdevice(laptop, "merge", "--list", "--configfile", "study.yaml").stdout.partition(":")[0]
    assert whichdevice(laptop, "merge", "--drop", source, "--configfile", "study.yaml").returncode == 0
    done = laptop.snakemake("tables", timeout=900)
    assert done.code == 0, done.out
    assert {row["device"] for row in rows(laptop, "runs")} == {"cpu"}

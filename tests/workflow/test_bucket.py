"""Machines that share nothing but a bucket: data and results go up on one, and another takes them from there."""

import re
from pathlib import Path

import pandas as pd
import pytest
from remote.conftest import emulator  # noqa: F401
from workflow.conftest import Project
from workflow.machines import HOST, PROJECT, TOKEN, USER, bucket_at, machine, told

from whichdevice.study.remote.transfer import open_place

pytestmark = pytest.mark.slow

STUDY = {
    "study": "tiny",
    "data": {"source": "standin"},
    "devices": {"cpu": {"kind": "cpu", "usd_per_hour": 3.0}},
    "measure": {"seconds": 0.1, "min_steps": 2, "repeats": 1, "retry_seconds": 0},
    "train": {"epochs": 0},
    "workloads": {"mnist_cnn": {"batch_size": [64], "fraction": [0.02], "backend": "jax"}},
}
RUN = "mnist_cnn/jax-float32-b64-fraction=0.02/r1"


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
def first(folder, bucket) -> Project:
    """A machine that measured and published."""
    project = machine(folder, "first")
    project.write({**STUDY, "storage": {"bucket": f"{bucket}/team"}})
    done = project.snakemake("publish")
    assert done.code == 0, done.out
    return project


def dataset(project: Project) -> Path:
    """The folder of the prepared dataset, which its source and recipe name."""
    (found,) = (project.folder / "results/datasets/mnist").glob("standin-*")
    return found


def test_datasets_and_results_are_in_the_bucket_as_in_the_results_folder(first, bucket):
    there = set(open_place(f"{bucket}/team").listing())
    assert {"tiny/config.yaml", "tiny/keys.json", "tiny/report.html"} <= there
    named = [rf"tiny/runs/cpu/{re.escape(RUN)}/[0-9a-f]{{12}}/record\.json"]
    named += [r"datasets/mnist/standin-[0-9a-f]{8}/dataset\.json"]
    assert all(any(re.fullmatch(pattern, name) for name in there) for pattern in named)
    assert {"tiny/tables/runs.csv", "tiny/figures/roofline.svg"} <= there
    for name in there:
        assert (first.folder / "results" / name).is_file()


def test_no_result_names_person_host_project_or_credential(first, bucket):
    assert told(first.folder / "results", USER, HOST, PROJECT, TOKEN) == []
    config = (first.folder / "results/tiny/config.yaml").read_text(encoding="utf-8")
    assert bucket not in config and "storage" not in config


def test_a_machine_with_only_the_bucket_has_the_same_dataset_and_tables(folder, bucket, first):
    second = machine(folder, "second")
    second.write({**STUDY, "storage": {"bucket": f"{bucket}/team"}})
    done = second.snakemake("datasets")
    assert done.code == 0, done.out
    (log,) = (second.folder / "results/datasets/logs").glob("mnist-standin-*.log")
    assert "mnist from standin fetched from the bucket" in log.read_text(encoding="utf-8")
    there, here = dataset(first), dataset(second)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {
        path.name: (here / path.name).read_bytes() for path in there.iterdir()
    }
    done = second.snakemake("tables", "--config", f'records=["{bucket}/team/tiny"]')
    assert done.code == 0, done.out
    assert "1 of cpu; to leave them out again, delete results/tiny/merged/" in done.out
    assert not (second.folder / "results/tiny/runs").exists(), "nothing is measured"
    assert told(second.folder / "results", bucket) == []
    own, theirs = (pd.read_csv(project.folder / "results/tiny/tables/runs.csv") for project in (second, first))
    own, theirs = (table.drop(columns=["record", "other_machine"]) for table in (own, theirs))
    pd.testing.assert_frame_equal(own, theirs)

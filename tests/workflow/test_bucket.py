"""Machines that share nothing but a bucket: data and results go up on one, and another has the same report."""

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from remote.conftest import emulator  # noqa: F401
from workflow.machines import HOST, PROJECT, TOKEN, USER, bucket_at, machine, told, whichdevice

from whichdevice.remote.place import open_place

pytestmark = pytest.mark.slow

STUDY = {
    "study": "tiny",
    "data": {"source": "standin"},
    "devices": {"cpu": {"kind": "cpu"}},
    "measure": {"seconds": 0.1, "min_steps": 2, "repeats": 1, "breakdown": False, "retry_disturbed": False},
    "train": {"epochs": 0},
    "workloads": {"mnist_cnn": {"batch_size": [64], "fraction": [0.01]}},
}


def dataset(machine) -> Path:
    """The folder of the prepared dataset, which its source and recipe name."""
    (found,) = (machine.folder / "results/datasets/mnist").glob("standin-*")
    return found


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
def first(folder, bucket):
    """A machine that measured and published."""
    project = machine(folder, "first")
    project.write({**STUDY, "storage": {"bucket": f"{bucket}/team"}})
    done = project.snakemake("publish", timeout=900)
    assert done.code == 0, done.out
    return project


def test_datasets_and_results_lie_in_the_bucket_as_in_the_results_folder(first, bucket):
    there = set(open_place(f"{bucket}/team").listing())
    assert {"tiny/config.yaml", "tiny/keys.json", "tiny/report.html"} <= there
    named = [r"tiny/runs/cpu/mnist_cnn/tensorflow-float32-b64-fraction=0\.01/r1/[0-9a-f]{12}/record\.json"]
    named += [r"datasets/mnist/standin-[0-9a-f]{8}/dataset\.json"]
    assert all(any(re.fullmatch(pattern, name) for name in there) for pattern in named)
    assert {"tiny/tables/runs.csv", "tiny/figures/images_per_second.svg"} <= there
    for name in there:
        assert (first.folder / "results" / name).is_file()


def test_a_second_time_nothing_is_uploaded_and_what_is_gone_comes_again(first, bucket):
    assert ": 0 files, 0.0 MB;" in first.snakemake("publish").out
    place = open_place(f"{bucket}/team")
    place.fs.rm_file(place.path("tiny/report.html"))
    assert ": 1 files, " in first.snakemake("publish").out


def test_no_result_names_person_host_project_or_credential(first, bucket):
    assert told(first.folder / "results", USER, HOST, PROJECT, TOKEN) == []
    config = (first.folder / "results/tiny/config.yaml").read_text()
    assert bucket not in config and "storage" not in config


def test_another_machine_takes_the_dataset_from_the_bucket_and_trusts_its_checksums_alone(folder, bucket, first):
    second = machine(folder, "second")
    second.write({**STUDY, "storage": {"bucket": f"{bucket}/team"}})
    done = second.snakemake("datasets")
    assert done.code == 0, done.out
    there, here = dataset(first), dataset(second)
    same = [path.name for path in there.iterdir()]
    assert {name: (here / name).read_bytes() for name in same} == {name: (there / name).read_bytes() for name in same}
    assert "mnist from standin fetched from the bucket" in done.out


def test_a_third_machine_with_only_the_bucket_has_the_same_report(folder, bucket, first):
    third = machine(folder, "third")
    fetched = whichdevice(third, "fetch", f"{bucket}/team/tiny")
    assert fetched.returncode == 0, fetched.stdout
    command = fetched.stdout.splitlines()[-1].partition("snakemake --cores 1 ")[2].split()
    done = third.snakemake(*command, timeout=900)
    assert done.code == 0, done.out
    assert done.jobs["measure"] == 0
    assert "Nothing to be done" in third.snakemake("-n", *command).out
    assert (third.folder / "results/tiny/config.yaml").read_bytes() == (
        first.folder / "results/tiny/config.yaml"
    ).read_bytes()
    ours, theirs = (pd.read_csv(project.folder / "results/tiny/tables/runs.csv") for project in (third, first))
    pd.testing.assert_frame_equal(ours.drop(columns="record"), theirs.drop(columns="record"))
    assert (third.folder / "results/tiny/report.html").is_file()


def test_without_a_bucket_publishing_is_one_line(first):
    done = first.snakemake("publish", "--config", "storage={bucket: }")
    assert done.error.startswith("publish: the config names no bucket")


def test_a_bucket_that_is_not_there_is_one_line_and_loses_nothing(first):
    before = (dataset(first) / "dataset.json").read_bytes()
    shutil.rmtree(first.folder / "results/datasets/uploaded")
    done = first.snakemake("datasets", "uploads", "--config", "storage={bucket: gs://nobody-made-this}")
    assert done.code != 0
    address = f"gs://nobody-made-this/datasets/mnist/{dataset(first).name}"
    line = f"{address}: no such bucket or object; make it: gcloud storage buckets create"
    assert line in done.out and "Traceback" not in done.out
    assert (dataset(first) / "dataset.json").read_bytes() == before

"""What a hurried person gets wrong: one clear line, no traceback, non-zero exit, nothing half-written."""

import gzip
import os
import re
import subprocess

import pytest

from whichdevice.errors import StudyError
from whichdevice.planning.study_plan import plan_study

pytestmark = pytest.mark.slow

SMALL = {
    "study": "errors",
    "data": {"source": "standin"},
    "measure": {"repeats": 1},
    "workloads": {"mnist_cnn": {"batch_size": [256]}},
}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"measure": {"secnds": 1}}, "measure.seconds"),
        ({"workloads": {"mnist_cn": {}}}, "mnist_cnn"),
        ({"workloads": {"mnist_cnn": {"batch_size": [-1]}}}, "batch_size"),
        ({"run_on": ["cpuu"]}, "cpu"),
        ({"only": {"device": "cpuu"}}, "cpu"),
        ({"measure": {"seconds": "long"}}, "measure.seconds"),
        (
            {"workloads": {"mnist_cnn": {"backend": ["theano"]}}},
            "workloads.mnist_cnn.backend: 'theano' is not known",
        ),
        ({"devices": {"cpu": {"kind": "cpu", "hardware": "TPU v22"}}}, "nearest: TPU v2"),
        ({"workloads": {"mnist_cnn": {"loop": ["fitt"]}}}, "workloads.mnist_cnn.loop: 'fitt' is not known"),
    ],
    ids=["key", "workload", "negative batch", "device", "only", "type", "backend", "hardware", "loop"],
)
def test_a_wrong_config_names_the_place_and_the_nearest_right_thing(working_folder, change, expected):
    with pytest.raises(StudyError, match=re.escape(expected)) as error:
        plan_study({**SMALL, **change})
    assert "\n" not in str(error.value)
    assert not list(working_folder.iterdir())


def test_an_error_of_the_planner_is_one_line_of_the_call_and_makes_no_folder(project):
    done = project.snakemake("-n", "all", config={**SMALL, "measure": {"secnds": 1}})
    assert done.code != 0
    assert "measure.seconds" in done.error
    assert not (project.folder / "results" / "errors").exists()


def test_yaml_that_does_not_parse_names_its_line(project):
    (project.folder / "study.yaml").unlink(missing_ok=True)
    default = project.folder / "config/config.yaml"
    before = default.read_bytes()
    default.write_text("study: errors\nmeasure: {seconds: 1\n", encoding="utf-8")
    try:
        done = project.snakemake("-n", "all")
    finally:
        default.write_bytes(before)
    assert done.code != 0
    assert done.error.startswith("config/config.yaml, line 2")


def test_a_file_named_on_the_command_line_that_does_not_parse_shows_no_traceback(project):
    (project.folder / "study.yaml").write_text("study: errors\nmeasure: {seconds: 1\n", encoding="utf-8")
    done = project.snakemake("-n", "all")  # Snakemake reads this file itself, before any of our code
    assert done.code != 0
    assert "Traceback" not in done.out
    assert "not valid JSON or YAML" in done.out


@pytest.mark.parametrize("damage", ["missing", "cut", "garbled"])
def test_a_damaged_archive_is_one_clear_line_and_leaves_no_dataset(project, tmp_path, damage):
    folder = tmp_path / "mnist"
    folder.mkdir()
    names = [f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")]
    for name in names:
        (folder / name).write_bytes(gzip.compress(os.urandom(5000)) if damage == "garbled" else b"")
    if damage == "cut":
        (folder / names[0]).write_bytes(gzip.compress(os.urandom(5000))[:2000])
    if damage == "missing":
        (folder / names[0]).unlink()
    config = {**SMALL, "data": {"source": "files", "dir": str(tmp_path)}}
    done = project.snakemake("datasets", config=config)
    assert done.code != 0
    assert "Traceback" not in done.out
    assert names[0] in done.out
    assert not list(project.folder.glob("results/datasets/mnist/files-*/dataset.json"))


def test_no_network_with_source_tfds_is_one_clear_line_soon(project, monkeypatch):
    for name in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    done = project.snakemake("datasets", config={**SMALL, "data": {"source": "tfds"}})
    assert done.code != 0
    assert "Traceback" not in done.out
    assert "standin" in done.out  # the way out
    assert done.seconds < 40  # TFDS by itself would retry for 200


@pytest.fixture
def small_disk(project):
    """A file system of 20 MB where the datasets go; the prepared MNIST needs 55."""
    folder = project.folder / "results/datasets/mnist"
    folder.mkdir(parents=True, exist_ok=True)
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=20m", "tmpfs", str(folder)], capture_output=True)
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_full_disk_is_one_clear_line_and_leaves_no_dataset(project, small_disk):
    done = project.snakemake("datasets", config=SMALL)
    assert done.code != 0
    assert "Traceback" not in done.out
    assert "disk" in done.out
    assert not list(small_disk.glob("standin-*/*.npy"))
    assert not list(small_disk.glob("standin-*/dataset.json"))

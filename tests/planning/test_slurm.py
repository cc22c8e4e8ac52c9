"""What a run is asked of Slurm by default, and what could never start there."""

from types import SimpleNamespace

import pytest
from beside import beside

from whichdevice.study.planning import slurm
from whichdevice.study.planning.slurm import never_starts, node_cores, parse_partitions
from whichdevice.study.planning.study_plan import plan_study

BESIDE = beside(__file__)

SINFO = """cpu*|2|4000|1:00:00|idle
cpu*|4|8000|1:00:00|mixed
gpu|8|64000|2-00:00:00|allocated
old|64|64000|infinite|down*
tpu|4|1000|infinite|idle
"""
KNOWN = parse_partitions(SINFO)


def test_a_run_takes_the_cores_that_every_node_of_its_partition_has():
    assert node_cores(KNOWN, None) == 2
    assert node_cores(KNOWN, "gpu") == 8
    assert node_cores(KNOWN, "old") is None  # none of its nodes takes a job
    assert node_cores((), "gpu") is None


@pytest.mark.parametrize(("asked", "why"), BESIDE["what no node has can never start"])
def test_what_no_node_has_can_never_start(asked, why):
    found = never_starts(KNOWN, asked)
    assert found is None if why is None else found.startswith(why)


def test_without_slurm_nothing_is_asked_and_nothing_is_reported():
    assert never_starts((), {"cpus_per_task": 10**6}) is None
    assert parse_partitions("sinfo: error\n") == ()


@pytest.fixture
def cluster(working_folder, monkeypatch):
    monkeypatch.setattr(slurm, "partitions", lambda: KNOWN)
    devices = {
        "small": {"kind": "cpu"},
        "large": {"kind": "cpu", "resources": {"slurm_partition": "gpu"}},
        "asks": {"kind": "cpu", "resources": {"cpus_per_task": 8}},
    }
    workloads = {"matmul": {"batch_size": [64]}}
    return lambda **changes: plan_study({"devices": devices, "workloads": workloads, "run_on": "all", **changes})


def test_a_scheduler_s_run_asks_for_its_node_s_cores_unless_its_device_names_them(cluster):
    cores = cluster().scheduler_resources(mem_mb=1, runtime=1)["cpus_per_task"]
    assert [cores(SimpleNamespace(device=device)) for device in ("small", "large", "asks")] == [2, 8, 8]


def test_what_can_never_start_is_one_line_at_the_start(cluster):
    lines = [line for line in cluster().notes() if line.startswith("Slurm")]
    assert lines == [
        "Slurm will never start the runs of device asks: it asks for 8 cores (cpus_per_task), and partition cpu has at "
        "most 4; change devices.asks.resources"
    ]
    assert not [line for line in cluster(run_on=["small", "asks"]).notes() if line.startswith("Slurm")]

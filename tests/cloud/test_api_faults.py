"""Whatever Google's API answers, the person reads one line and nothing stays alive."""

import time
from collections.abc import Callable

import pytest
from cloud import google_errors as google
from cloud.stage import Cloud

from whichdevice.cloud import machine, remote_run

ZONE, OTHER = "us-central1-b", "us-central1-f"
Fault = Callable[[Cloud], None]


def denied(cloud: Cloud) -> None:
    cloud.api.refusals["create nodes"] = [google.DENIED]


def not_enabled(cloud: Cloud) -> None:
    cloud.api.refusals["create nodes"] = [google.DISABLED]


def quota(cloud: Cloud) -> None:
    cloud.api.refusals["create nodes"] = [google.QUOTA]


def no_capacity(cloud: Cloud) -> None:
    cloud.api.operation_errors[ZONE] = google.NO_CAPACITY


def making_fails_and_leaves_a_wreck(cloud: Cloud) -> None:
    cloud.api.operation_errors[ZONE] = google.INTERNAL
    cloud.api.leaves_a_wreck = True


def answer_lost(cloud: Cloud) -> None:
    cloud.api.unanswered.add("create nodes")


def answer_lost_and_made_late(cloud: Cloud) -> None:
    cloud.api.unanswered.add("create nodes")
    cloud.api.late = 0.7


def never_ready(cloud: Cloud) -> None:
    cloud.write(ready_minutes=0.01)
    cloud.api.delay = 1.5


def taken_before_it_is_ready(cloud: Cloud) -> None:
    cloud.api.stuck_in = "PREEMPTED"


def queue_fails(cloud: Cloud) -> None:
    cloud.write(queued=True)
    cloud.api.queue_ends_in = "FAILED"


def queue_never_grants(cloud: Cloud) -> None:
    cloud.write(queued=True, queue_minutes=0.01)
    cloud.api.queue_ends_in = "WAITING_FOR_RESOURCES"


def queue_refused(cloud: Cloud) -> None:
    cloud.write(queued=True)
    cloud.api.refusals["create queuedResources"] = [google.QUOTA]


FAULTS: dict[Fault, str] = {
    denied: "roles/tpu.admin",
    not_enabled: "gcloud services enable tpu.googleapis.com",
    quota: "ask for quota",
    no_capacity: "another zone under tpu_vm.zone",
    making_fails_and_leaves_a_wreck: "an internal error has occurred",
    answer_lost: "no answer from the TPU API",
    answer_lost_and_made_late: "no answer from the TPU API",
    never_ready: "tpu_vm.ready_minutes",
    taken_before_it_is_ready: "was PREEMPTED before it was ready",
    queue_fails: "FAILED: There is no more capacity",
    queue_never_grants: "tpu_vm.queue_minutes",
    queue_refused: "ask for quota",
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_machine_that_is_refused_or_lost_is_one_line_and_none_alive(
    cloud: Cloud, fault: Fault, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "SETTLE_SECONDS", 1.5)
    fault(cloud)
    done = cloud.tpu("run", "--yes")
    assert done.code == 2, done.text
    assert FAULTS[fault] in done.err
    assert len(done.err.splitlines()) == 1, done.err
    assert cloud.records() == []
    time.sleep(cloud.api.late)  # what is still to come has come
    cloud.nothing_left()


def test_the_next_zone_is_tried_where_one_has_no_capacity(cloud: Cloud) -> None:
    cloud.write(zone=[ZONE, OTHER])
    cloud.api.operation_errors[ZONE] = google.NO_CAPACITY
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert cloud.api.zones == [ZONE, OTHER]
    assert cloud.records() == cloud.every
    cloud.nothing_left()


def test_a_queued_machine_goes_with_its_request(cloud: Cloud) -> None:
    cloud.write(queued=True, spot=True)
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert cloud.records() == cloud.every
    cloud.nothing_left()


def test_deleting_is_tried_until_it_is_done(cloud: Cloud) -> None:
    cloud.api.refusals["delete nodes"] = [google.BUSY, google.QUOTA, google.BUSY]
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert cloud.api.calls["delete nodes"] == 4
    assert "trying again" in done.out
    cloud.nothing_left()


def test_a_machine_that_cannot_be_deleted_is_named_with_the_command_that_deletes_it(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "DELETE_SECONDS", 0.5)
    cloud.api.refusals["delete nodes"] = [google.BUSY] * 100
    done = cloud.tpu("run", "--yes")
    assert done.code == 2
    [name] = cloud.api.alive()
    assert f"{name} COULD NOT BE DELETED and may cost money" in done.err
    assert f"gcloud compute tpus tpu-vm delete {name} --project=rent-a-tpu --zone={ZONE}" in done.err
    assert cloud.records() == cloud.every


@pytest.mark.parametrize("how", ["preempt", "delete"])
def test_a_machine_that_is_taken_while_it_measures_leaves_what_came_home_before(
    cloud: Cloud, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_run, "SYNC_SECONDS", 0.0)
    cloud.machine.on_run = (
        f"sleep 1; echo more; sleep 1; curl -s -X POST https://tpu.googleapis.com/test/{how}; sleep 60"
    )
    done = cloud.tpu("run", "--yes")
    assert done.code == 2, done.text
    assert ("taken away (PREEMPTED)" if how == "preempt" else "is gone: deleted by somebody") in done.err
    assert cloud.records() == cloud.every
    cloud.nothing_left()

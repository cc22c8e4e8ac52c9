"""The parent of counting processes: what it makes of one that dies or cannot start. The process is a stand-in."""

import json
import resource
import threading
from types import SimpleNamespace

import pytest

from whichdevice.base.supervisor import Finish
from whichdevice.forecast import counting, host
from whichdevice.forecast.counting import count_steps
from whichdevice.forecast.products import ProgramRequest

VERSIONS = dict.fromkeys(("jax", "jaxlib", "keras"), "1")
BATCHES = (128, 256, 512, 1024)


@pytest.fixture
def played(working_folder, monkeypatch):
    """The process that counts, the host's rates and its cores, as the test sets them."""
    played = SimpleNamespace(process=None, rates={}, cores=1)
    versions = lambda names: {name: "1" for name in names if name in VERSIONS}  # noqa: E731
    monkeypatch.setattr(counting, "installed_versions", versions)
    monkeypatch.setattr(counting, "supervise_module", lambda *given: played.process(*given))
    monkeypatch.setattr(counting, "usable_cores", lambda: played.cores)
    monkeypatch.setattr(host, "rates", lambda _: played.rates)
    return played


def asked(steps: int = 3) -> list[ProgramRequest]:
    common = {"workload": "matmul", "module": "matmul", "precision": "float32", "device": "T4", "timeout": 7.0}
    return [ProgramRequest(batch_size=batch, **common) for batch in BATCHES[:steps]]


def count(memory: float = 1e9) -> dict:
    """The message of a process about a step that needs so many bytes."""
    work = {"platform": "gpu", "items": [], "unknown_loops": 0, "unknown_calls": 0}
    size = {"batch": 64, "gpu": work, "tpu": work, "lasting": 0.0, "temporary": memory}
    sums = {"weights": 0.0, "optimizer": 0.0, "gradients": 0.0, "arrays": 100}
    return {"status": "ok", "count": {"sizes": [size], **sums}, "done": True}


def stand_in(played, ends: list[Finish], until: int = 0) -> list[int]:
    """Processes that end so, each in the middle of its step number `until`."""
    starts = []

    def process(module, job, variables, log, timeout, on_message):
        steps = json.loads(job)
        starts.append(len(steps))
        for place, [[number, _], *_] in enumerate(steps[: until + 1]):
            on_message({"event": "part", "place": str(number), "value": {"status": "failed", "reason": None}})
            if place != min(until, len(steps) - 1):
                on_message({"event": "part", "place": str(number), "value": count()})
        return ends.pop(0) if len(ends) > 1 else ends[0]

    played.process = process
    return starts


def test_a_process_that_is_killed_fails_one_step_and_the_rest_goes_on(played):
    killed = Finish("out_of_memory", "killed by the system (signal 9) for lack of memory", 1)
    starts = stand_in(played, [killed], until=1)
    records = count_steps(asked())
    assert [record.status for record in records] == ["ok", "out_of_memory", "out_of_memory"]
    assert "this host has too little memory to count it" in records[1].reason
    assert starts == [3, 1]


def test_a_crash_under_a_memory_limit_of_the_shell_names_the_limit(played):
    stand_in(played, [Finish("failed", "the process crashed: SIGABRT", 1)])
    before = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (64 * 10**12, before[1]))  # more than this process takes
    try:
        record = count_steps(asked(1))[0]
    finally:
        resource.setrlimit(resource.RLIMIT_AS, before)
    assert record.status == "failed"
    assert record.reason.startswith("the process crashed: SIGABRT; it may lack memory: this shell allows 64000.0 GB")


def test_without_the_framework_the_row_says_what_to_install(played, monkeypatch):
    monkeypatch.delitem(VERSIONS, "keras")
    records = count_steps(asked())
    assert {record.status for record in records} == {"unavailable"}
    assert records[0].reason == "JAX and Keras are not installed here: pip install keras"


def test_a_failure_is_not_kept(played):
    starts = stand_in(played, [Finish("failed", "the process crashed: SIGSEGV", 1)])
    count_steps(asked())
    count_steps(asked())
    assert starts == [3, 2, 1] * 2
    assert not list(counting.CACHE.glob("*.json"))


def test_where_nothing_is_measured_no_measurement_is_waited_for(played, monkeypatch):
    stand_in(played, [Finish("failed", "the process crashed: SIGSEGV", 1)])
    monkeypatch.setattr(counting, "beside_no_measurement", lambda what: pytest.fail(f"{what} waits"))
    count_steps(asked(), waits=False)


def test_a_step_that_hangs_names_the_key_of_its_time_limit(played):
    stand_in(played, [Finish("timed_out", "still running after 67 s; killed", 1)])
    record = count_steps(asked(1))[0]
    assert record.reason == "still counting after forecast.timeout = 7 s; killed"


def test_an_interrupt_ends_the_call(played):
    def process(*_):
        raise KeyboardInterrupt

    played.process = process
    with pytest.raises(KeyboardInterrupt):
        count_steps(asked())


def counted(played, memory: float, requests: list[ProgramRequest]):
    """Records of these requests, and how many steps were counted."""
    made: list[int] = []

    def process(module, job, variables, log, timeout, on_message):
        steps = json.loads(job)
        made.extend(number for [[number, _], *_] in steps)
        for [[number, _], *_] in steps:
            on_message({"event": "part", "place": str(number), "value": count(memory)})
        return Finish("ok", None, 0)

    played.process = process
    return count_steps(requests), len(made)


def on_devices(*devices: str, **settings) -> list[ProgramRequest]:
    values = {"workload": "matmul", "module": "matmul", "precision": "float32", "batch_size": 64, **settings}
    return [ProgramRequest(device=device, **values) for device in devices]


def test_all_devices_of_a_question_have_the_hosts_time_of_one_measurement(played):
    for seconds, devices, steps in ((1e-6, ["L4"], 1), (2e-6, ["L4", "A30"], 0)):  # the count is kept by then
        played.rates = {"array": seconds, "fit": 0.0}
        records, made = counted(played, 1e9, on_devices(*devices))
        assert [record.facts.host_time for record in records] == pytest.approx([100 * seconds] * len(devices))
        assert made == steps


def test_one_count_serves_all_devices_each_with_its_own_memory(played):
    records, made = counted(played, 13e9, on_devices("L4", "RTX 4070", "A100 SXM 80GB", "TPU v5e"))
    assert made == 1
    assert [record.status for record in records] == ["ok", "does_not_fit", "ok", "ok"]
    assert records[0].facts.memory_available == 23612293120 - 600e6
    assert records[1].facts.memory_missing == pytest.approx(13e9 - 12027203850)
    assert [record.facts.memory_tight for record in records] == [False, True, False, False]


def test_number_formats_with_the_same_kernels_share_a_count(played):
    halves = [*on_devices("T4", precision="mixed_float16"), *on_devices("L4", precision="mixed_bfloat16")]
    whole = [*on_devices("T4"), *on_devices("L4", precision="tf32")]
    assert counted(played, 1e9, [*halves, *whole])[1] == 2


def test_devices_that_share_a_batch_take_the_count_of_their_part(played):
    model = {"module": "mnist_cnn"}
    parts = [*on_devices("T4", **model), *on_devices("T4", devices=4, batch_size=256, **model)]
    records, made = counted(played, 1e9, parts)
    assert made == 1 and [record.asked.devices for record in records] == [1, 4]


def test_each_of_several_devices_does_a_whole_operation(played):
    records, made = counted(played, 1e9, [*on_devices("T4"), *on_devices("T4", devices=8)])
    assert made == 1 and [record.status for record in records] == ["ok", "ok"]


def test_two_processes_share_the_steps(played):
    both_started, lists = threading.Barrier(2), []

    def process(module, job, *_):
        lists.append([number for [[number, _], *_] in json.loads(job)])
        if len(lists) <= 2:
            both_started.wait(60)
        return Finish("failed", "it ended", 1)

    played.process = process
    played.cores = 2
    count_steps(asked(4))
    assert sorted(lists[0] + lists[1]) == [0, 1, 2, 3]

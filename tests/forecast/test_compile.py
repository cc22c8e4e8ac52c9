"""The parent of compiling processes: what it makes of one that dies or cannot start. The process is a stand-in."""

import json
import threading

import pytest

from whichdevice.base.supervisor import Finish
from whichdevice.forecast import host
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.xla import compile as compiling
from whichdevice.forecast.xla.compile import compile_programs

VERSIONS = dict.fromkeys(("jax", "jaxlib", "keras", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12"), "1")
DEVICES = ("T4", "L4", "A10G")


@pytest.fixture
def installed(working_folder, monkeypatch):
    found = lambda names: {name: "1" for name in names if name in VERSIONS}  # noqa: E731
    monkeypatch.setattr(compiling, "installed_versions", found)
    monkeypatch.setattr(compiling, "PARALLEL", 1)
    monkeypatch.setattr(host, "rates", lambda _: {})


def asked() -> list[ProgramRequest]:
    common = {"workload": "matmul", "module": "matmul", "precision": "float32", "batch_size": 64, "timeout": 7.0}
    return [ProgramRequest(device=device, **common) for device in DEVICES]


def stand_in(monkeypatch, ends: list[Finish], until: int = 0) -> list[int]:
    """Processes that end so; each compiles nothing but its program number `until`, in whose middle it ends."""
    starts = []

    def process(module, job, variables, log, timeout, on_message):
        requests = json.loads(job)["requests"]
        starts.append(len(requests))
        for number, _ in requests[: until + 1]:
            (compiling.Path(json.loads(job)["claims"]) / str(number)).touch()
            on_message({"event": "part", "place": str(number), "value": {"status": "failed", "reason": None}})
            if number != requests[min(until, len(requests) - 1)][0]:
                on_message({"event": "part", "place": str(number), "value": {"status": "ok", "done": True}})
        return ends.pop(0) if len(ends) > 1 else ends[0]

    monkeypatch.setattr(compiling, "supervise_module", process)
    return starts


def test_a_process_that_is_killed_fails_one_program_and_the_rest_goes_on(installed, monkeypatch):
    killed = Finish("out_of_memory", "killed by the system (signal 9) for lack of memory", 1)
    starts = stand_in(monkeypatch, [killed], until=1)
    records = compile_programs(asked())
    assert [record.status for record in records] == ["ok", "out_of_memory", "out_of_memory"]
    assert "this host has too little memory to compile it" in records[1].reason
    assert starts == [3, 1]


def test_a_crash_under_a_memory_limit_of_the_shell_names_the_limit(installed, monkeypatch):
    stand_in(monkeypatch, [Finish("failed", "the process crashed: SIGABRT", 1)])
    monkeypatch.setattr(compiling.resource, "getrlimit", lambda _: (1_800_000_000, 1_800_000_000))
    record = compile_programs(asked()[:1])[0]
    assert record.status == "failed"
    assert record.reason.startswith("the process crashed: SIGABRT; it may lack memory: this shell allows 1.8 GB")


def test_without_the_plugin_the_row_says_what_to_install(installed, monkeypatch):
    monkeypatch.delitem(VERSIONS, "jax-cuda12-pjrt")
    records = compile_programs(asked())
    assert {record.status for record in records} == {"unavailable"}
    assert "XLA for CUDA is not installed here" in records[0].reason
    assert "pip install jax-cuda12-pjrt" in records[0].reason


def test_a_failure_is_not_kept(installed, monkeypatch):
    starts = stand_in(monkeypatch, [Finish("failed", "the process crashed: SIGSEGV", 1)])
    compile_programs(asked())
    compile_programs(asked())
    assert starts == [3, 2, 1] * 2
    assert not list(compiling.CACHE.glob("*.json"))


def test_where_nothing_is_measured_no_measurement_is_waited_for(installed, monkeypatch):
    stand_in(monkeypatch, [Finish("failed", "the process crashed: SIGSEGV", 1)])
    monkeypatch.setattr(compiling, "beside_no_measurement", lambda what: pytest.fail(f"{what} waits"))
    compile_programs(asked(), waits=False)


def test_a_compiler_that_hangs_names_the_key_of_its_time_limit(installed, monkeypatch):
    stand_in(monkeypatch, [Finish("timed_out", "still running after 67 s; killed", 1)])
    record = compile_programs(asked()[:1])[0]
    assert record.reason == "still compiling after forecast.timeout = 7 s; killed"


def test_an_interrupt_ends_the_call(installed, monkeypatch):
    def process(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compiling, "supervise_module", process)
    with pytest.raises(KeyboardInterrupt):
        compile_programs(asked())


WORK = {"platform": "gpu", "items": [], "unknown_loops": 0, "unknown_calls": 0}


def compiled(monkeypatch, needs: dict[str, float], asked: list[str], precision: str = "float32"):
    """Records of these devices, and the devices whose programs were compiled, which need so much or fail."""
    made: list[str] = []

    def process(module, job, variables, log, timeout, on_message):
        for number, request in json.loads(job)["requests"]:
            (compiling.Path(json.loads(job)["claims"]) / str(number)).touch()
            made.append(request["device"])
            need = needs.get(request["device"], needs["others"])
            value = {"status": "failed", "reason": f"a fault on {request['device']}{need}", "done": True}
            if not isinstance(need, str):
                facts = {
                    "memory": 1e12,
                    "memory_available": 1e12,
                    "memory_needed": need,
                    "memory_tight": True,
                    "arrays": 100,
                }
                value = {"status": "ok", "reason": None, "facts": facts, "work": WORK, "done": True}
            on_message({"event": "part", "place": str(number), "value": value})
        return Finish("ok", None, 0)

    monkeypatch.setattr(compiling, "supervise_module", process)
    common = {"workload": "matmul", "module": "matmul", "precision": precision, "batch_size": 64}
    records = compile_programs([ProgramRequest(device=device, **common) for device in asked])
    return {record.asked.device: record for record in records}, made


def test_all_devices_of_a_question_have_the_hosts_time_of_one_measurement(installed, monkeypatch):
    for seconds, devices in ((1e-6, ["L4"]), (2e-6, ["L4", "A30"])):  # the L4's program is kept by then
        monkeypatch.setattr(host, "rates", lambda _, its=seconds: {"array": its, "fit": 0.0})
        records, made = compiled(monkeypatch, {"others": 1e9}, devices)
        assert [each.facts.host_time for each in records.values()] == pytest.approx([100 * seconds] * len(devices))
    assert made == ["A30"]


ADA = ["L4", "RTX 4090", "L40S", "RTX 4070"]


def test_cards_of_an_architecture_share_a_program_and_the_record_says_whose_it_is(installed, monkeypatch):
    records, made = compiled(monkeypatch, {"others": 1e9}, [*ADA, "RTX 6000 Ada", "A30"])
    assert made == ["RTX 6000 Ada", "A30"]
    assert [records[device].program_device for device in ADA] == ["RTX 6000 Ada"] * 4
    assert records["RTX 6000 Ada"].program_device is None and records["A30"].program_device is None
    assert records["L4"].facts.memory_available == 23612293120 - 600e6
    assert [records[name].facts.memory_tight for name in ("RTX 6000 Ada", "L4")] == [True, False]  # with its own memory


def test_another_cards_program_rules_a_card_out_only_where_it_misses_the_memory_by_far(installed, monkeypatch):
    needs = {"others": 15e9, "RTX 4070": 11e9}  # 12.03 GB are available on the 4070
    records, made = compiled(monkeypatch, needs, ADA)
    assert made == ["RTX 6000 Ada", "RTX 4070"]
    assert records["RTX 4070"].status == "ok" and records["RTX 4070"].program_device is None
    records, made = compiled(monkeypatch, {"others": 17e9}, ADA, "tf32")
    assert made == ["RTX 6000 Ada"]
    assert records["RTX 4070"].status == "does_not_fit" and records["RTX 4070"].facts.memory_missing == pytest.approx(
        17e9 - 12027203850
    )
    assert records["L4"].status == "ok"


def test_where_a_compile_fails_another_architectures_program_is_taken_and_the_row_says_so(installed, monkeypatch):
    records, _ = compiled(monkeypatch, {"RTX 6000 Ada": " ", "others": 1e9}, ["L4", "A100 SXM 80GB"])
    assert records["L4"].status == "ok" and records["L4"].program_device == "A100 SXM 80GB"
    note = "the program of the A100 SXM 80GB, of another architecture (a fault on L4 )"
    assert records["L4"].facts.notes == [note]
    unsupported = ": Unsupported algorithm on the current device(s)"
    records, _ = compiled(monkeypatch, {"P40": unsupported, "others": 1e9}, ["P4", "A100 SXM 80GB"], "mixed_float16")
    assert records["P4"].status == "failed" and records["P4"].reason == f"a fault on P4{unsupported}"


def test_a_second_process_begins_at_the_other_end(installed, monkeypatch):
    both_started, first_lists = threading.Barrier(2), {}

    def process(module, job, *_):
        if threading.get_ident() not in first_lists:
            first_lists[threading.get_ident()] = [request["device"] for _, request in json.loads(job)["requests"]]
            both_started.wait(60)
        return Finish("failed", "it ended", 1)

    monkeypatch.setattr(compiling, "supervise_module", process)
    monkeypatch.setattr(compiling, "PARALLEL", 2)
    monkeypatch.setattr(compiling, "usable_cores", lambda: 2)
    compile_programs(asked())
    one, other = first_lists.values()
    assert one == other[::-1] and len(one) == len(DEVICES)

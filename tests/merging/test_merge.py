"""Records of other machines come in under their new names; what clashes is refused with the rename that mends it."""

import json
import shutil
import zipfile
from datetime import timedelta
from pathlib import Path

import pytest
import synthetic

from whichdevice.config.load import load_study
from whichdevice.config.model import Device
from whichdevice.devices import absent_devices
from whichdevice.errors import StudyError
from whichdevice.merging.merge import merge_nothing, merge_records, with_devices, without_measured_here
from whichdevice.records.facts import Machine
from whichdevice.records.store import read_record, write_record

HERE = Machine(cpu="Own CPU", memory=2**34, operating_system="Linux", identity="aaaa")
OTHER = Machine(cpu="Other CPU", memory=2**34, operating_system="Linux", identity="bbbb")
CONFIG = synthetic.SMALL


def results(folder: Path, machine: Machine = OTHER, devices: tuple[str, ...] = ("cpu",), **more) -> Path:
    """A results folder of a machine."""
    study = synthetic.small_study(devices={name: Device(kind=name.split("_")[0], **more) for name in devices})
    synthetic.write_study(study, folder, change=lambda run, record: record.model_copy(update={"machine": machine}))
    return folder


def merged(*entries, config=CONFIG):
    """The call with merged devices, and its merged runs."""
    call = load_study({**config, "merge": list(entries)})
    found = merge_records(call)
    return with_devices(call, found), found


def counted(*entries, host=HERE):
    call, found = merged(*entries)
    return without_measured_here(found, call, absent_devices(call), host)


@pytest.fixture
def other(working_folder):
    """A results folder of another machine."""
    return results(working_folder / "other")


def test_renamed_records_are_of_another_device_with_its_price_and_never_measured_here(working_folder):
    results(working_folder / "other", usd_per_hour=0.5, hardware="TPU v2")
    call, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert {run.cell.device for run in found.runs} == {"laptop"} and len(found.runs) == 4
    laptop = call.devices["laptop"]
    assert (laptop.kind, laptop.usd_per_hour, laptop.hardware, laptop.elsewhere) == ("cpu", 0.5, "TPU v2", True)
    assert "laptop" in absent_devices(call) and "cpu" not in absent_devices(call)
    for run, each in found.runs.items():
        record = read_record(each.path)
        assert record.run == run.path and record.asked.device == "laptop"
        assert each.path.is_relative_to("results/small/merged")
    assert len(counted({"from": "other", "rename": {"cpu": "laptop"}})) == 4


@pytest.mark.parametrize("price", ["9" * 400, "-1", "0", ".nan", ".inf", "x", "[1]"])
def test_an_impossible_price_there_is_none_here(price, working_folder, other):
    config = other / "config.yaml"
    config.write_text(config.read_text("utf-8").replace("usd_per_hour: null", f"usd_per_hour: {price}"), "utf-8")
    call, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert len(found.runs) == 4 and call.devices["laptop"].usd_per_hour is None


def test_artefacts_come_along(working_folder, other):
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    learned = [each.path for each in found.runs.values() if read_record(each.path).artefacts]
    assert learned
    for path in learned:
        assert all((path.parent / artefact.file).is_file() for artefact in read_record(path).artefacts.values())


def test_the_price_can_also_stand_here(working_folder, other):
    devices = {"cpu": {"kind": "cpu"}, "laptop": {"kind": "cpu", "usd_per_hour": 2.0}}
    call, _ = merged({"from": "other", "rename": {"cpu": "laptop"}}, config={**CONFIG, "devices": devices})
    assert call.devices["laptop"].usd_per_hour == 2.0 and call.devices["laptop"].elsewhere


def test_what_did_not_change_is_not_read_again(working_folder, other, monkeypatch):
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    before = {each.path: each.path.stat().st_mtime_ns for each in found.runs.values()}
    merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert {path: path.stat().st_mtime_ns for path in before} == before
    first = sorted((other / "runs").rglob("record.json"))[0]
    write_record(read_record(first).model_copy(update={"reason": "again"}), first)
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert sum(before[each.path] != each.path.stat().st_mtime_ns for each in found.runs.values()) == 1


def test_a_record_that_its_source_no_longer_has_leaves(working_folder, other):
    merged({"from": "other", "rename": {"cpu": "laptop"}})
    sorted((other / "runs").rglob("record.json"))[0].unlink()
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert len(found.runs) == 3
    assert set(Path("results/small/merged").rglob("record.json")) == {each.path for each in found.runs.values()}


def test_without_refreshing_nothing_is_asked_of_the_source(working_folder, other):
    call = load_study({**CONFIG, "merge": [{"from": "other", "rename": {"cpu": "laptop"}}]})
    runs = set(merge_records(call).runs)
    shutil.rmtree(other)
    assert set(merge_records(call, refresh=False).runs) == runs
    with pytest.raises(StudyError, match=r"merge: no record.json of a run below other"):
        merge_records(call)


def test_a_source_no_longer_merged_leaves(working_folder, other):
    merged({"from": "other", "rename": {"cpu": "laptop"}})
    results(working_folder / "third")
    merged({"from": "third", "rename": {"cpu": "desktop"}})
    assert len(list(Path("results/small/merged").glob("*/index.json"))) == 1
    assert not list(Path("results/small/merged").rglob("laptop"))


def test_a_zip_is_a_results_folder_too(working_folder, other):
    with zipfile.ZipFile("other.zip", "w") as archive:
        for path in other.rglob("*"):
            archive.write(path, path.relative_to(other))
    assert len(counted({"from": "other.zip", "rename": {"cpu": "laptop"}})) == 4


def test_a_run_that_this_machine_would_measure_too_needs_another_name(working_folder, other):
    line = r"other is of another machine \(.*\) than this machine, .*merge: \[\{from: other, rename: \{cpu: cpu_2\}\}\]"
    with pytest.raises(StudyError, match=line):
        counted("other")


def test_records_of_this_very_machine_need_no_name_and_are_not_measured_again(working_folder):
    results(working_folder / "other", machine=HERE)
    assert len(counted("other")) == 4


def test_a_record_that_is_here_wins_over_the_same_machines_and_clashes_with_anothers(working_folder):
    results(working_folder / "results/small", machine=HERE)
    results(working_folder / "same", machine=HERE)
    assert counted("same") == {}
    results(working_folder / "other")
    with pytest.raises(StudyError, match=r"than the record here"):
        counted("other")


def test_two_sources_with_one_name_clash_unless_it_is_the_same_record(working_folder, other):
    entry = {"from": "other", "rename": {"cpu": "laptop"}}
    shutil.copytree(other, "copy")
    assert len(counted(entry, {**entry, "from": "copy"})) == 4
    results(working_folder / "third", machine=OTHER.model_copy(update={"identity": "cccc"}))
    with pytest.raises(
        StudyError, match=r"merge: laptop/.* of third is of another machine .* rename: \{cpu: laptop_2\}"
    ):
        counted(entry, {**entry, "from": "third"})


def test_of_two_records_of_one_machine_the_later_one_counts(working_folder, other):
    shutil.copytree(other, "later")
    first = sorted(Path("later/runs").rglob("record.json"))[0]
    record = read_record(first)
    write_record(record.model_copy(update={"ended": record.ended + timedelta(hours=1)}), first)
    entry = {"from": "other", "rename": {"cpu": "laptop"}}
    _, found = merged(entry, {**entry, "from": "later"})
    ends = {read_record(each.path).ended for each in found.runs.values()}
    assert record.ended + timedelta(hours=1) in ends


def test_twins_are_told_apart_by_their_identity(working_folder):
    results(working_folder / "other", machine=HERE.model_copy(update={"identity": "cccc"}))
    with pytest.raises(StudyError, match="of another machine"):
        counted("other")


def test_another_workload_of_the_same_name_is_left_out_and_said(working_folder, other):
    config = {**CONFIG, "workloads": {"mnist_cnn": {"module": "mnist_official"}}}
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}}, config=config)
    assert found.runs == {}
    assert found.notes == [
        "merge: other: 4 records left out: workload mnist_cnn is mnist_cnn there and mnist_official here"
    ]
    config = {**CONFIG, "workloads": {"matmul": {"batch_size": [64]}}}
    _, found = merged("other", config=config)
    assert found.notes == ["merge: other: 4 records left out: this study has no workload mnist_cnn"]


def test_a_renamed_device_is_never_measured_here_even_if_all_its_records_are_left_out(working_folder):
    results(working_folder / "other", devices=("tpu",))
    devices = {"cpu": {"kind": "cpu"}, "box": {"kind": "tpu", "replicas": 8}}
    call, found = merged({"from": "other", "rename": {"tpu": "box"}}, config={**CONFIG, "devices": devices})
    assert found.runs == {} and call.devices["box"].elsewhere
    assert not call.devices["cpu"].elsewhere


def test_the_hardware_can_also_stand_here_under_a_name_given_by_rename(working_folder):
    results(working_folder / "box", devices=("tpu",), hardware="TPU v2")
    devices = {"cpu": {"kind": "cpu"}, "box": {"kind": "tpu", "hardware": "TPU v5e"}}
    call, found = merged({"from": "box", "rename": {"tpu": "box"}}, config={**CONFIG, "devices": devices})
    assert len(found.runs) == 4 and call.devices["box"].hardware == "TPU v5e"


def test_two_devices_of_a_source_cannot_get_one_name_though_they_have_no_run_in_common(working_folder):
    results(working_folder / "other", devices=("cpu", "gpu"))
    for device, size in (("cpu", 256), ("gpu", 1024)):
        shutil.rmtree(working_folder / f"other/runs/{device}/mnist_cnn/tensorflow-float32-b{size}")
    with pytest.raises(StudyError, match="after renaming, box is two devices; rename both apart"):
        merged({"from": "other", "rename": {"cpu": "box", "gpu": "box"}})


@pytest.mark.parametrize("again", ["other", "other/", {"from": "other", "rename": {"gpu": "card"}}])
def test_a_source_named_twice_is_refused(working_folder, other, again):
    with pytest.raises(StudyError, match="config: merge names other twice; put both renames in one entry"):
        merged({"from": "other", "rename": {"cpu": "laptop"}}, again)


@pytest.mark.parametrize("later", ["other", "third"])
def test_of_one_run_that_a_source_merged_twice_the_later_record_comes(working_folder, other, later):
    results(working_folder / "third")
    for path in (working_folder / later).rglob("record.json"):
        record = read_record(path)
        write_record(record.model_copy(update={"ended": record.ended + timedelta(hours=1)}), path)
    merged(*({"from": source, "rename": {"cpu": "laptop"}} for source in ("other", "third")))
    shutil.copytree("results/small", "merging")
    _, found = merged("merging")
    assert {read_record(each.path).ended for each in found.runs.values()} == {record.ended + timedelta(hours=1)}


def test_what_a_source_no_longer_merges_does_not_come(working_folder, other):
    merged({"from": "other", "rename": {"cpu": "laptop"}})
    merge_nothing(load_study(CONFIG))
    shutil.copytree("results/small", "dropped")
    with pytest.raises(StudyError, match=r"no record.json of a run below dropped"):
        merged("dropped")


@pytest.mark.parametrize(
    ("entry", "line"),
    [
        ({"from": "gone"}, "merge: no record.json of a run below gone"),
        ({"from": "other", "rename": {"gpu": "x"}}, "merge: rename: other has no device gpu; did you mean cpu?"),
        ({"from": "other", "renam": {}}, r"config: merge\[1\].renam is not a key; did you mean merge\[1\].rename?"),
        ({"from": "other", "rename": {"cpu": "../x"}}, "merge"),
        ({"rename": {}}, r"config: merge\[1\].from is missing"),
    ],
)
def test_a_wrong_entry_is_one_line(working_folder, other, entry, line):
    with pytest.raises(StudyError, match=line):
        merged(entry)


def test_a_record_of_a_newer_schema_is_refused_by_name_and_the_others_count(working_folder, other):
    from whichdevice.tables.collect import collect

    first = sorted((other / "runs").rglob("record.json"))[0]
    newer = json.loads(first.read_text()) | {"schema_version": 99, "shiny": True}
    first.write_text(json.dumps(newer))
    call, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    rows, _ = collect(call, [each.path for each in found.runs.values()])
    bad = [row for row in rows if row["status"] == "unreadable"]
    assert len(bad) == 1 and bad[0]["device"] == "laptop"
    assert (
        "schema_version: is 99, written by a newer version of the project; update this one to read it"
        in bad[0]["reason"]
    )
    assert sum(row["status"] == "ok" for row in rows) == 3


def test_what_a_record_says_of_its_machine_or_workload_is_told_without_control_characters(working_folder):
    results(working_folder / "other", machine=Machine(cpu="Other\x1b[2J\nCPU"))
    with pytest.raises(StudyError, match="of another machine") as caught:
        counted("other")
    assert str(caught.value).isprintable()
    for path in (working_folder / "other/runs").rglob("record.json"):
        record = read_record(path)
        asked = record.asked.model_copy(update={"module": "x\x1b[2J\ny"})
        write_record(record.model_copy(update={"asked": asked}), path)
    _, found = merged({"from": "other", "rename": {"cpu": "laptop"}})
    assert len(found.notes) == 1 and found.notes[0].isprintable()

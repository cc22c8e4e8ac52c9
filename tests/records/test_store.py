"""Records are written whole, and checked before use."""

import json
from pathlib import Path

import pytest
import synthetic
from beside import beside

from whichdevice.base.errors import StudyError
from whichdevice.base.parts import without_paths
from whichdevice.forecast.products import CompiledRecord, ProgramRequest, read_compiled
from whichdevice.measure.record import Artefact, Machine, Record, Software
from whichdevice.study.cells import study_runs
from whichdevice.study.exporting.record import read_export
from whichdevice.study.records.store import artefact_path, foreign_record, foreign_run, read_record, same_machine
from whichdevice.study.tables.base import table
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.runs import run_row
from whichdevice.study.tables.summary import summary_table

BESIDE = beside(__file__)

STUDY = synthetic.small_study()
RUN, OTHER = study_runs(STUDY)[:2]


def test_an_artefact_that_is_a_link_to_elsewhere_is_not_there(tmp_path):
    folder = tmp_path / "r1"
    folder.mkdir()
    (tmp_path / "secret").write_text("secret")
    (folder / "linked").symlink_to("../secret")
    (folder / "own").write_text("own")
    assert artefact_path(folder / "record.json", "own") == folder / "own"
    assert artefact_path(folder / "record.json", "linked") is None
    assert artefact_path(folder / "record.json", "gone") is None


RUN_FOREIGN = study_runs(STUDY)[0]
NAME = f"runs/{RUN_FOREIGN.path}/record.json"


def content(**changes) -> bytes:
    return synthetic.record_of(STUDY, RUN_FOREIGN).model_copy(update=changes).model_dump_json().encode()


@pytest.mark.parametrize("name", BESIDE["a path that is not exactly a runs is none"])
def test_a_path_that_is_not_exactly_a_runs_is_none(name):
    assert foreign_run(name) is None


@pytest.mark.parametrize(
    "file",
    [
        "../x", "/etc/passwd", "a/../../x", ".hidden", "record.json", "a b", "a\\b", "", "a/", "x" * 400, "a\n",
        "a/record.json",
    ],
)  # fmt: skip
def test_an_artefact_stays_beside_its_record(file):
    with pytest.raises(StudyError, match="is no file beside the record"):
        foreign_record(content(artefacts={"a": Artefact(file=file, sha256="0")}), RUN_FOREIGN, NAME)


def test_a_huge_one_is_not_parsed():
    with pytest.raises(StudyError, match="is no record"):
        foreign_record(content() + b" " * 2**25, RUN_FOREIGN, NAME)


ONE = Machine(cpu="CPU", memory=16 * 2**30, operating_system="Linux 6.1", identity="aabbccddeeff")


@pytest.mark.parametrize(
    ("changes", "same"),
    [
        ({}, True),
        ({"memory": 16 * 2**30 + 2**20}, True),  # as a kernel that keeps some more for itself
        ({"operating_system": "Linux 6.12"}, True),  # an update, by the identity
        ({"identity": "001122334455"}, False),
        ({"cpu": "Other"}, False),
        ({"memory": 32 * 2**30}, False),
        ({"identity": None}, True),
        ({"identity": None, "operating_system": "Linux 6.12"}, False),
    ],
)
def test_same_machine(changes, same):
    assert same_machine(ONE, ONE.model_copy(update=changes)) is same


@pytest.mark.parametrize(("said", "kept"), BESIDE["a path keeps its last part"])
def test_a_path_keeps_its_last_part(said, kept):
    assert without_paths(said) == kept


def test_records_redact_reasons_and_flags():
    study = synthetic.small_study()
    values = synthetic.failed_record(study, synthetic.configured_runs(study)[0]).model_dump(mode="json")
    assert "/home" not in (Record.model_validate({**values, "reason": "no /home/NAME/x/y"}).reason or "")
    assert Software(flags={"XLA_FLAGS": "--dir=/home/NAME/x"}).flags["XLA_FLAGS"] == "--dir=.../x"
    asked = ProgramRequest(device="TPU v2", workload="m", module="m", precision="float32", batch_size=1)
    record = CompiledRecord(asked=asked, status="unavailable", reason="cannot open /opt/a/libtpu.so", code_hash="0")
    assert record.reason == "cannot open .../libtpu.so"


EARLIER = sorted((Path(__file__).parent / "earlier").glob("*.json"))


@pytest.mark.parametrize("path", EARLIER, ids=lambda path: path.stem)
def test_an_earlier_record_reaches_the_tables(path: Path) -> None:
    record = read_record(path)
    runs = table([run_row(record, "record.json")], TABLES["runs"])
    assert runs.loc[0, "status"] == "ok"
    assert summary_table(runs).loc[0, "step_time"] == pytest.approx(record.steady.seconds / record.steady.steps)


@pytest.mark.parametrize("kind", ["record", "compiled", "export"])
def test_a_record_of_a_later_schema_is_refused_by_name_whatever_else_it_holds(kind: str, tmp_path: Path) -> None:
    read, later = {
        "record": (read_record, json.loads(EARLIER[0].read_text(encoding="utf-8"))),
        "compiled": (read_compiled, {"asked": {}}),
        "export": (read_export, {"study": 7}),
    }[kind]
    later |= {"schema_version": 6, "steady": "in another shape", "new": [1]}
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(later), encoding="utf-8")
    told = r"schema \d: schema_version: is 6, written by a newer version of the project; update this one to read it$"
    with pytest.raises(StudyError, match=told) as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1

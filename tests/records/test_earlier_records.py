"""Records that earlier states of this project wrote (named by commit, of a made-up run) are read to the last table.

2be1955 is the first commit that wrote records; 73ec0f3's has every field of its time filled.
"""

import json
from pathlib import Path

import pytest

from whichdevice.errors import StudyError
from whichdevice.records.compiled import read_compiled
from whichdevice.records.exported import read_export
from whichdevice.records.store import read_record
from whichdevice.tables.columns import table
from whichdevice.tables.run_row import run_row
from whichdevice.tables.summary import summary_table
from whichdevice.tables.write import TABLES

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
    later |= {"schema_version": 3, "steady": "in another shape", "new": [1]}
    path = tmp_path / f"{kind}.json"
    path.write_text(json.dumps(later), encoding="utf-8")
    told = r"schema \d: schema_version: is 3, written by a newer version of the project; update this one to read it$"
    with pytest.raises(StudyError, match=told) as caught:
        read(path)
    assert len(str(caught.value).splitlines()) == 1

"""Records that earlier states of this project wrote (named by commit, of a made-up run) are read to the last table."""

from pathlib import Path

import pytest

from whichdevice.errors import StudyError
from whichdevice.records.schema import SCHEMA_VERSION
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


def test_a_record_of_a_later_schema_is_refused_by_name(tmp_path: Path) -> None:
    text = (
        EARLIER[0].read_text(encoding="utf-8").replace('"schema_version": 1', f'"schema_version": {SCHEMA_VERSION + 1}')
    )
    (tmp_path / "record.json").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=f"not readable as schema {SCHEMA_VERSION}: schema_version"):
        read_record(tmp_path / "record.json")

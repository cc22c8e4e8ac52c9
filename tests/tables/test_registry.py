"""Tables are found by their files, each of which says what it holds."""

from pathlib import Path

import pytest

from whichdevice.errors import StudyError
from whichdevice.tables import registry, table_about, table_names
from whichdevice.tables.make import TABLES


@pytest.mark.parametrize("name", table_names())
def test_a_table_says_what_it_holds(name: str) -> None:
    assert len(table_about(name)) > 20
    assert '"' not in table_about(name)


def test_tables_are_found_and_other_modules_are_not() -> None:
    assert list(TABLES) == table_names()
    assert {"runs", "summary", "forecasts", "time_to_target"} <= set(TABLES)
    assert not {"columns", "comparison", "intervals", "registry", "write"} & set(TABLES)


def test_a_new_file_is_a_new_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "moods.py").write_text('"""Table `moods`: how each device feels."""\n', encoding="utf-8")
    (tmp_path / "helpers.py").write_text('"""What tables share."""\n', encoding="utf-8")
    monkeypatch.setattr(registry, "FOLDER", tmp_path)
    assert table_names() == ["moods"]
    assert table_about("moods") == "how each device feels"


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(StudyError, match="no table 'nonsense'; tables are audit, "):
        table_about("nonsense")

"""Every table says in its own module what it holds."""

import pytest

from whichdevice.errors import StudyError
from whichdevice.tables.about import table_about
from whichdevice.tables.write import TABLES


@pytest.mark.parametrize("name", TABLES)
def test_a_table_says_what_it_holds(name: str) -> None:
    assert len(table_about(name)) > 20
    assert '"' not in table_about(name)


def test_an_unknown_table_is_named() -> None:
    with pytest.raises(StudyError, match="no table 'nonsense'"):
        table_about("nonsense")

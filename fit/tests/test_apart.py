"""The fit is apart from the product: neither the package nor its tests import anything of it."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("folder", ["scripts", "tests"])
def test_nothing_of_the_fit_is_imported_elsewhere(folder: str) -> None:
    files = list((ROOT / folder).rglob("*.py"))
    found = [path for path in files if re.search(r"^\s*(from|import) fit\b", path.read_text(encoding="utf-8"), re.M)]
    assert files and not found

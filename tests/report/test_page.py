"""The page's script cannot end early and is named by its hash."""

import base64
import hashlib
from pathlib import Path

import pytest

from whichdevice.report.page import TableLibrary, _without_exports, table_library


def test_the_script_is_whole_and_named_by_its_hash() -> None:
    library = table_library()
    digest = hashlib.sha256(library.script.text.encode()).digest()
    assert library.script.policy == f"sha256-{base64.b64encode(digest).decode()}"
    assert "</script" not in library.script.text.lower() and "</style" not in library.style.lower()
    assert "const DataTable=" in library.script.text and "export{" not in library.script.text


def test_a_bundle_of_another_form_is_an_error(tmp_path: Path) -> None:
    assert _without_exports("let a=1;export{a as default,b};/* licence */") == "let a=1;const DataTable=a;/* licence */"
    with pytest.raises(ValueError, match="no list of exports"):
        _without_exports("let a=1;")
    own = tmp_path / "own.js"
    own.write_text("// </ScRiPt>")
    assert "</script" not in TableLibrary(own).script.text.lower()

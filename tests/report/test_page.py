"""Markdown shows whatever a name holds as text; the page's script cannot end early and is named by its hash."""

import base64
import hashlib
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from whichdevice.report import page
from whichdevice.report.page import TableLibrary, _without_exports, table_library

NASTY = "<script>a|b</script> *x* [y](http://z) `c` _d_ \\e"


def test_what_stands_in_double_braces_stays_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "t.jinja").write_text(
        "| {{ name }} | {{ name | code }} |\n|---|---|\n| {{ name }} | {{ 'a' | block }} |"
    )
    monkeypatch.setattr(page, "HERE", tmp_path)
    page.render_markdown("t.jinja", tmp_path / "t.md", name=NASTY.replace("`", "") + " `c`")
    html = MarkdownIt("commonmark").enable("table").render((tmp_path / "t.md").read_text("utf-8").split("\n")[0])
    assert "<script" not in html and "<em>" not in html and "<a " not in html
    assert "&lt;script&gt;a|b&lt;/script&gt; *x* [y](http://z)" in html


def test_code_outlasts_the_backticks_in_it() -> None:
    assert page.code("a `b` c") == "``a `b` c``"
    assert page.block("```") == "````\n```\n````"


def test_the_script_is_whole_and_named_by_its_hash() -> None:
    library = table_library()
    digest = hashlib.sha256(library.script.encode()).digest()
    assert library.policy == f"sha256-{base64.b64encode(digest).decode()}"
    assert "</script" not in library.script.lower() and "</style" not in library.style.lower()
    assert "const DataTable=" in library.script and "export{" not in library.script


def test_a_bundle_of_another_form_is_an_error(tmp_path: Path) -> None:
    assert _without_exports("let a=1;export{a as default,b};/* licence */") == "let a=1;const DataTable=a;/* licence */"
    with pytest.raises(ValueError, match="no list of exports"):
        _without_exports("let a=1;")
    own = tmp_path / "own.js"
    own.write_text("// </ScRiPt>")
    assert "</script" not in TableLibrary(own).script.lower()

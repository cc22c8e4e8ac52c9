"""A script of a page cannot end early and is named by its hash."""

import base64
import hashlib

from whichdevice.study.report.page import Script


def test_a_script_is_named_by_its_hash_and_cannot_end_early() -> None:
    script = Script("a\r\n// </ScRiPt>")
    digest = hashlib.sha256(script.text.encode()).digest()
    assert script.policy == f"sha256-{base64.b64encode(digest).decode()}"
    assert "</script" not in script.text.lower() and "\r" not in script.text

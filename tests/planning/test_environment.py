"""A folder that cannot be written to is one line; any other passes."""

import os
from pathlib import Path
from typing import Any

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.study.planning import sources


def test_a_read_only_folder_is_one_line(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(StudyError, match=f"cannot write to {tmp_path}, where results/"):
        sources.require_writable(tmp_path)

"""A disk is full where the system says so, or where nothing fits any more."""

import errno
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from whichdevice.machine import limits


@pytest.mark.parametrize("code", [errno.ENOSPC, errno.EDQUOT])
def test_a_reason_in_the_words_of_the_system_says_so(code: int, tmp_path: Path) -> None:
    assert limits.is_full(f"OSError: [Errno {code}] {os.strerror(code)}: 'weights.h5'", tmp_path)
    assert limits.is_full(f"OSError: unable to create file (error message = '{os.strerror(code)}')")


def test_another_reason_with_room_left_does_not(tmp_path: Path) -> None:
    assert not limits.is_full("ValueError: no", tmp_path, tmp_path / "gone")
    assert not limits.is_full(None, tmp_path)


def test_no_room_left_says_so_without_a_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits.shutil, "disk_usage", lambda folder: SimpleNamespace(free=4096))
    assert limits.is_full("the process ended without a result (exit code 1); see its log", tmp_path)

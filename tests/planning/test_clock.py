"""Files of a clock that was ahead get the present as their time; the others keep theirs."""

import os
import time
from pathlib import Path

from whichdevice.planning.clock import from_the_future, set_to_now


def test_only_what_is_from_the_future_is_moved(tmp_path: Path) -> None:
    for name, offset in (("tomorrow", 86_400), ("yesterday", -86_400)):
        (tmp_path / name).write_text(name)
        os.utime(tmp_path / name, (time.time() + offset,) * 2)
    before = (tmp_path / "yesterday").stat().st_mtime
    found = from_the_future(tmp_path, tmp_path / "missing")
    assert found == [tmp_path / "tomorrow"]
    set_to_now([*found, tmp_path / "gone"])
    assert (tmp_path / "tomorrow").stat().st_mtime <= time.time()
    assert (tmp_path / "tomorrow").read_text() == "tomorrow"
    assert (tmp_path / "yesterday").stat().st_mtime == before
    assert from_the_future(tmp_path) == []

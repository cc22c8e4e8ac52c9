"""A workflow script ends with one line for a person; tracebacks stay in the log."""

import subprocess
import sys
from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.base.processes import job

SCRIPTS = Path(__file__).parents[2] / "scripts"


def test_a_study_error_is_its_own_line(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as end, job(tmp_path / "a.log"):
        raise StudyError("disk is 100% full: free some")
    assert end.value.code == "disk is 100% full: free some"
    assert (tmp_path / "a.log").read_text(encoding="utf-8") == "disk is 100% full: free some\n"


def test_any_other_fault_leaves_its_traceback_in_the_log_only(tmp_path: Path) -> None:
    with (
        pytest.raises(SystemExit, match=r"^KeyError: 'x' \(a fault of the program: see .*a\.log\)$"),
        job(tmp_path / "a.log"),
    ):
        raise KeyError("x")
    assert "Traceback" in (tmp_path / "a.log").read_text(encoding="utf-8")


def test_a_traceback_in_the_log_names_no_home_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "vqzuser"
    monkeypatch.setenv("HOME", str(home))
    with pytest.raises(SystemExit), job(tmp_path / "a.log"):
        raise OSError(2, "No such file", str(home / "data" / "x.npy"))
    text = (tmp_path / "a.log").read_text(encoding="utf-8")
    assert "~/data/x.npy" in text and "vqzuser" not in text


@pytest.mark.needs("linux")  # it has /dev/full
def test_where_the_log_has_no_room_the_line_comes_all_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.log").symlink_to("/dev/full")
    code = (
        f"from whichdevice.base.processes import job\nwith job({str(tmp_path / 'a.log')!r}) as log:\n"
        "    log.info('begun')\n    open('/dev/full', 'w').write('x' * 10**6)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={"PYTHONPATH": str(SCRIPTS)}
    )
    assert done.returncode == 1
    assert done.stderr == "begun\nno room left on the disk (while writing): make some and run again\n"


def test_a_log_that_cannot_be_opened_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "logs").write_text("a file")
    with pytest.raises(SystemExit, match=r"^cannot write the log .*logs/a\.log: "), job(tmp_path / "logs/a.log"):
        pass


def test_an_interrupt_ends_without_a_word(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught, job(tmp_path / "a.log"):
        raise KeyboardInterrupt
    assert caught.value.code == 130
    assert capsys.readouterr() == ("", "")

"""What is no fact of a run leaves no record of one: a process killed from outside, a full disk."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import synthetic

from whichdevice.base.supervisor import Finish
from whichdevice.measure import running
from whichdevice.measure.record import Record
from whichdevice.measure.running import RecordDraft
from whichdevice.study.cells import Run
from whichdevice.study.request import build_request

OK = Finish("ok", None, 1)
KILLED = Finish("failed", "killed from outside (signal 9), not for lack of memory", 1, killed=True)
Measure = Callable[..., tuple[Record, list[list[str]]]]


@pytest.fixture
def measure(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Measure:
    """One attempt whose processes end as given, having said `memory`; what lay in its folder when each began."""
    study = synthetic.small_study()
    run: Run = synthetic.configured_runs(study)[0]
    request = build_request(study, run).model_copy(update={"dataset": None})

    def attempted(*finishes: Finish, memory: dict[str, int] | None = None) -> tuple[Record, list[list[str]]]:
        found: list[list[str]] = []
        left = iter(finishes)
        folder = working_folder / "attempt"
        folder.mkdir()

        def supervised(request: Any, draft: RecordDraft, *_: Any) -> Finish:
            found.append([path.name for path in folder.iterdir()])
            (folder / "half").write_text("half")
            draft.merge("memory", memory or {})
            return next(left)

        monkeypatch.setattr(running, "_supervised", supervised)
        said: list[str] = []
        log = working_folder / "log"
        return running.run_attempt(study.study, run.path, request, folder, log, said.append), found

    return attempted


def test_a_process_killed_from_outside_is_started_once_more_in_an_empty_folder(measure: Measure) -> None:
    record, found = measure(KILLED, OK)
    assert (record.status, record.reason) == ("ok", None)
    assert found == [[], []]


@pytest.mark.parametrize("status", ["failed", "out_of_memory"])
def test_a_full_disk_leaves_no_record_and_says_what_to_do(measure: Measure, status: str) -> None:
    with pytest.raises(OSError, match=r"no room left on the disk \(OSError.*: make some and run again"):
        measure(Finish(status, "OSError: [Errno 28] No space left on device: 'weights.h5'", 1))


def test_a_crash_whose_log_tells_of_a_full_disk_leaves_no_record(measure: Measure) -> None:
    Path("log").write_text("RuntimeError: (file write failed: errno = 28, error message = 'No space left on device')\n")
    with pytest.raises(OSError, match=r"no room left on the disk \(the process crashed: SIGSEGV\)"):
        measure(Finish("failed", "the process crashed: SIGSEGV", 1))


def test_the_peak_that_a_process_says_itself_counts(measure: Measure) -> None:
    record, _ = measure(OK, memory={"peak_host": 7, "peak_device": 8})
    assert (record.memory.peak_host, record.memory.peak_device) == (7, 8)


def test_other_failures_are_records_at_once(measure: Measure) -> None:
    record, found = measure(Finish("failed", "ValueError: no", 1))
    assert (record.status, record.reason, len(found)) == ("failed", "ValueError: no", 1)

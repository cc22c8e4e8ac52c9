"""What lay on disk at any moment of a study, not only before and after: a record may be lost by the fault itself."""

import threading
import time
from collections.abc import Callable
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.records.schema import Record
from whichdevice.records.store import read_record

POLL_SECONDS = 0.01


class RecordWatch:
    """Looks at a study's records all the time and keeps each as it was when it first lay there whole."""

    def __init__(self, results: Path, wanted: Callable[[Record], bool]) -> None:
        """Of a study's folder; records that are not wanted are those of an earlier config, to be replaced."""
        self._results, self._wanted = results, wanted
        self._earlier: set[str] = set()
        self._versions: dict[str, tuple[int, int]] = {}
        self._at_work = threading.Lock()
        self._stop = threading.Event()
        self.seen: dict[str, bytes] = {}
        self.faults: list[str] = []
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.look()
            time.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Read every record that is new or another file than before, and note what is wrong with it."""
        with self._at_work:
            for path in self._results.glob("runs/*/*/*/r*/record.json"):
                name = str(path.relative_to(self._results))
                try:
                    facts = path.stat()
                    if self._versions.get(name) == (facts.st_ino, facts.st_mtime_ns):
                        continue
                    content = path.read_bytes()
                    self._versions[name] = facts.st_ino, facts.st_mtime_ns
                    if not self._wanted(read_record(path)) and name not in self.seen:
                        self._earlier.add(name)
                        continue
                except FileNotFoundError:
                    continue  # `lost` tells, if it was seen before
                except (StudyError, OSError) as error:
                    self.faults.append(f"{name} was not whole: {error}")
                    continue
                if self.seen.setdefault(name, content) != content and (fault := f"{name} changed") not in self.faults:
                    self.faults.append(fault)

    def lost(self) -> list[str]:
        """What is wrong by now: records that were seen whole and are gone, changed, or were ever half there."""
        self.look()
        gone = [f"{name} is gone" for name in self.seen if not (self._results / name).is_file()]
        kept = [f"{name} is still that of the earlier config" for name in self._earlier - self.seen.keys()]
        return [*self.faults, *gone, *kept]

    def damaged(self, path: Path, content: bytes) -> None:
        """Damage a record on purpose: neither that nor its next version is a fault."""
        with self._at_work:
            path.write_bytes(content)
            name, facts = str(path.relative_to(self._results)), path.stat()
            self._versions[name] = facts.st_ino, facts.st_mtime_ns
            self.seen.pop(name)

    def end(self) -> None:
        """Look no more."""
        self._stop.set()

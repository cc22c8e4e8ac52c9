"""What lay on disk at any moment of a study, not only before and after: a record may be lost by the fault itself."""

import threading
import time
from pathlib import Path

from whichdevice.errors import StudyError
from whichdevice.records.store import read_record

POLL_SECONDS = 0.01


class RecordWatch:
    """Looks at a study's records all the time and keeps each as it was when it was first there whole."""

    def __init__(self, results: Path) -> None:
        """Of a study's folder; records of an earlier config are other files, and are kept too."""
        self._results = results
        self._versions: dict[str, tuple[int, int]] = {}
        self._at_work = threading.Lock()
        self._stop = threading.Event()
        self.seen: dict[str, bytes] = {}
        self.faults: list[str] = []
        self.repeated: list[str] = []  # records that another whole one of the same key has replaced
        threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        while not self._stop.is_set():
            self.look()
            time.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Read every record that is new or another file than before, and note what is wrong with it."""
        with self._at_work:
            for path in self._results.glob("runs/*/*/*/r*/*/record.json"):
                name = str(path.relative_to(self._results))
                try:
                    facts = path.stat()
                    if self._versions.get(name) == (facts.st_ino, facts.st_mtime_ns):
                        continue
                    content = path.read_bytes()
                    self._versions[name] = facts.st_ino, facts.st_mtime_ns
                    read_record(path)
                except FileNotFoundError:
                    continue  # `lost` reports it, if it was seen before
                except (StudyError, OSError) as error:
                    self.faults.append(f"{name} was not whole: {error}")
                    continue
                if self.seen.setdefault(name, content) != content:
                    self.repeated.append(name)
                    self.seen[name] = content

    def lost(self, interrupted: int) -> list[str]:
        """What is wrong by now: records that were seen whole and are gone, or were ever half there.

        A job that is stopped between its record and Snakemake's note of it runs once more, so each of the `interrupted`
        calls may have one record replaced by another whole one.
        """
        self.look()
        gone = [f"{name} is gone" for name in self.seen if not (self._results / name).is_file()]
        often = [f"measured again: {self.repeated}"] if len(self.repeated) > interrupted else []
        return [*self.faults, *gone, *often]

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

"""Count steps in processes of their own, keep what was found, and make a record for each device. Imports no framework.

What is kept in results/programs/ has a name made of the step's contents. A step of JAX, Keras or TensorFlow is counted
once: its count serves every device. A PyTorch step has a record for each device that was asked for.
"""

import hashlib
import json
import queue
import resource
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import nullcontext, suppress
from itertools import groupby
from pathlib import Path
from typing import Any

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import RETURNED
from whichdevice.base.identity import installed_versions
from whichdevice.base.locks import beside_no_measurement
from whichdevice.base.supervisor import Finish, supervise_module
from whichdevice.forecast import host
from whichdevice.forecast.count.kept import (
    StepCount,
    counted_step,
    read_count,
    record_on,
    shares_batch,
    write_count,
)
from whichdevice.forecast.known import known_count
from whichdevice.forecast.products import CompiledRecord, ProgramRequest, read_compiled, write_compiled
from whichdevice.forecast.targets import environment, find_target, software_of
from whichdevice.forecast.work import Work
from whichdevice.models.loading import Model

CACHE = Path("results/programs")
NEEDED = {"xla": ("jax", "jaxlib", "keras"), "eager": ("torch",)}  # packages, by software
KEPT = ("ok", "does_not_fit", "refused")  # statuses that counting again would only repeat
PARALLEL = 2  # processes; one keeps little more than one core busy, and takes 1 to 4 GB of memory
FEW = 3  # steps that one process counts: it would take a second one as long to import its framework
MAX_BESIDE = 1.5e9  # bytes that a script takes to its first step, which each process runs
LENGTH = 24
Found = Callable[[int, CompiledRecord], None]
Group = list[int]  # numbers of the requests of one step


def count_steps(
    requests: Sequence[ProgramRequest], log: Path | None = None, on_record: Found = lambda *_: None, waits: bool = True
) -> list[CompiledRecord]:
    """A record for each request, in their order; `on_record` is called for each as soon as it is known.

    Where it `waits`, it does so while a measurement runs on this host, and lets none start meanwhile; not in a
    scheduler's job. A step that fails, hangs or does not fit is a record with that status, as is a machine without the
    framework (`unavailable`). Raises StudyError where a request is at fault.
    """
    records: dict[int, CompiledRecord] = {}

    def know(number: int, record: CompiledRecord) -> None:
        records[number] = _with_host_time(record)
        on_record(number, records[number])

    codes = {module: count_code_hash(module) for module in {request.module for request in requests}}
    drafts = {number: _draft(request, codes[request.module]) for number, request in enumerate(requests)}
    counts: dict[Path, StepCount | None] = {}
    for number, draft in drafts.items():
        if (known := _refused(draft) or _kept(draft, counts) or _without_framework(draft)) is not None:
            know(number, known)
    uncounted = {number: draft for number, draft in drafts.items() if number not in records}
    shipped = {number: known for number, draft in uncounted.items() if (known := _shipped(draft)) is not None}
    uncounted = {number: draft for number, draft in uncounted.items() if number not in shipped}
    if uncounted:
        traced = all(software_of(draft.asked.module) == "eager" for draft in uncounted.values())  # seconds of one core
        with (
            nullcontext() if traced or not waits else beside_no_measurement("counting for forecasts"),
            tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
        ):
            _Pool(uncounted, Path(folder), log, know).run()
    for number, known in shipped.items():  # after the others, which measure what this host takes to send a step off
        know(number, known)
    return [records[number] for number in range(len(requests))]


def count_code_hash(module: str) -> str:
    """Hash of the code that a step's count and its record depend on."""
    traced = software_of(module) == "eager"
    return Model.read(module).hash(f"whichdevice.forecast.{'torch.records' if traced else 'count.process'}")


def kept_path(draft: CompiledRecord) -> Path:
    """A name made of everything that what is kept depends on: not of the workload's name or the time allowed.

    A PyTorch step has one for each device.
    """
    asked = draft.asked
    if software_of(asked.module) == "xla":
        key: list[Any] = [counted_step(asked)]
    else:
        row = find_target(asked.device, asked.devices).facts
        key = [asked.model_dump(mode="json", exclude={"workload", "timeout", "module"}), row]
    key += [draft.versions, draft.code_hash, draft.schema_version]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return CACHE / f"{digest[:LENGTH]}.json"


def _one_go(asked: ProgramRequest) -> dict[str, Any]:
    """All of a request that others have that are counted with it: traces of PyTorch serve any number of devices."""
    step = counted_step(asked)
    return step if software_of(asked.module) == "xla" else step | {"batch_size": asked.batch_size}


def _with_host_time(record: CompiledRecord) -> CompiledRecord:
    """Add the time that this machine takes to send the step off; what is kept has none."""
    if record.facts is None or record.work is None:
        return record
    seconds = host.host_time(Work.from_dict(record.work), record.facts.arrays, record.facts.fit)
    return record.model_copy(update={"facts": record.facts.model_copy(update={"host_time": seconds})})


def _refused(draft: CompiledRecord) -> CompiledRecord | None:
    """A record that says why the device cannot run such a step; None where it can."""
    asked = draft.asked
    target = find_target(asked.device, asked.devices)
    if (reason := target.refusal(asked.precision, software_of(asked.module))) is not None:
        return draft.model_copy(update={"status": "refused", "reason": reason})
    if asked.batch_size % asked.devices and software_of(asked.module) == "xla" and shares_batch(asked):
        reason = f"batch size {asked.batch_size} does not divide over the {target.devices} devices of {target.label}"
        return draft.model_copy(update={"status": "failed", "reason": reason})
    return None


def _draft(request: ProgramRequest, code: str) -> CompiledRecord:
    versions = installed_versions(NEEDED[software_of(request.module)])
    return CompiledRecord(asked=request, status="failed", versions=versions, code_hash=code)


def _kept(draft: CompiledRecord, counts: dict[Path, StepCount | None]) -> CompiledRecord | None:
    """The record from what any study or command found before; `counts` has those that were read already."""
    path = kept_path(draft)
    if software_of(draft.asked.module) == "eager":
        with suppress(StudyError):
            return read_compiled(path).model_copy(update={"asked": draft.asked})
        return None
    if path not in counts:
        counts[path] = None
        with suppress(StudyError):
            counts[path] = read_count(path)
    count = counts[path]
    return None if count is None else record_on(count, draft.asked, draft)


def _shipped(draft: CompiledRecord) -> CompiledRecord | None:
    """The record from a count that comes with the package: of a step at the settings that its name stands for."""
    count = known_count(draft.asked)
    return None if count is None else record_on(count, draft.asked, draft)


def _without_framework(draft: CompiledRecord) -> CompiledRecord | None:
    """A record that says what is not installed, or None where all is."""
    missing = [name for name in NEEDED[software_of(draft.asked.module)] if name not in draft.versions]
    if not missing:
        return None
    named = "PyTorch is" if missing == ["torch"] else "JAX and Keras are"
    reason = f"{named} not installed here: pip install {' '.join(missing)}"
    return draft.model_copy(update={"status": "unavailable", "reason": reason})


class _Pool:
    """Counting processes, each with its share of the steps; one that dies is started again for the rest."""

    def __init__(self, drafts: dict[int, CompiledRecord], folder: Path, log: Path | None, know: Found) -> None:
        self._drafts, self._folder, self._log, self._know = drafts, folder, log, know
        steps = {number: json.dumps(_one_go(draft.asked), sort_keys=True) for number, draft in drafts.items()}
        of_step = groupby(sorted(drafts, key=steps.__getitem__), key=steps.__getitem__)
        self._groups = [list(numbers) for _, numbers in of_step]  # of one step side by side: it is traced once
        self._done: queue.Queue[tuple[int, CompiledRecord] | BaseException | None] = queue.Queue()

    def run(self) -> None:
        """Count all steps. Threads are daemons, so that an interrupt ends them and the processes with this one."""
        groups = self._groups
        modules = {draft.asked.module for draft in self._drafts.values()}
        trainings = [Model.read(module).found for module in modules]
        large = any(one.memory > MAX_BESIDE for one in trainings if one is not None)
        count = 1 if large or len(groups) <= FEW else min(PARALLEL, usable_cores())
        for worker in range(count):
            threading.Thread(target=self._work, args=(groups[worker::count], worker, count), daemon=True).start()
        running = count
        while running:
            item = self._done.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            else:
                self._know(*item)

    def _work(self, groups: list[Group], worker: int, workers: int) -> None:
        try:
            while groups:
                groups = self._process(groups, worker, workers)
        except BaseException as error:
            self._done.put(error)
        else:
            self._done.put(None)

    def _process(self, groups: list[Group], worker: int, workers: int) -> list[Group]:
        """One process, until all is counted or it dies; return what is left. What it leaves half done fails."""
        parts: dict[int, dict[str, Any]] = {}
        open_numbers = [number for group in groups for number in group]

        def on_message(message: dict[str, Any]) -> None:
            if message["event"] == "progress":
                print(message["phase"], file=sys.stderr)
            elif message["event"] == "part":
                number = int(message["place"])
                parts.setdefault(number, {}).update(message["value"])
                if parts[number].get("done"):
                    self._keep(number, parts.pop(number), open_numbers)

        finish = self._supervised(groups, worker, workers, on_message)
        if open_numbers:
            number = next(iter(parts), open_numbers[0])  # the one in whose middle it ended, or that it never began
            status, reason = _ended(finish, self._drafts[number])
            self._keep(number, {**parts.get(number, {}), "status": status, "reason": reason}, open_numbers)
        left = [[number for number in group if number in open_numbers] for group in groups]
        return [group for group in left if group]

    def _supervised(
        self, groups: list[Group], worker: int, workers: int, on_message: Callable[[dict[str, Any]], None]
    ) -> Finish:
        asked = [[(number, self._drafts[number].asked.model_dump(mode="json")) for number in group] for group in groups]
        variables = {**thread_environment(max(1, usable_cores() // workers)), **environment(), **RETURNED}
        variables["TMPDIR"] = str(self._folder)  # a process that is ended leaves its files there
        limit = sum(self._drafts[number].asked.timeout for group in groups for number in group) + 60
        log = self._log or self._folder / f"{worker}.log"
        module = "whichdevice.forecast.count.process"
        return supervise_module(module, json.dumps(asked), variables, log, limit, on_message)

    def _keep(self, number: int, part: dict[str, Any], open_numbers: list[int]) -> None:
        """Keep what was found of a request, and of others of the same step."""
        draft = self._drafts[number]
        if part.get("count") is not None:
            count = StepCount.model_validate(part["count"])
            self._write(lambda: write_count(count, kept_path(draft)))
            made = {one: record_on(count, self._drafts[one].asked, self._drafts[one]) for one in self._same(number)}
        else:
            known = {name: value for name, value in part.items() if name not in ("done", "count")}
            if known.get("status") == "out_of_memory":
                known["reason"] = f"{known['reason']}{_limited()}"
            record = CompiledRecord.model_validate({**draft.model_dump(mode="json"), **known})
            if record.status in KEPT:
                self._write(lambda: write_compiled(record, kept_path(draft)))
            shared = self._same(number) if software_of(draft.asked.module) == "xla" else [number]
            made = {one: record.model_copy(update={"asked": self._drafts[one].asked}) for one in shared}
        for one, record in made.items():
            if one in open_numbers:
                open_numbers.remove(one)
                self._done.put((one, record))

    def _same(self, number: int) -> Group:
        """Requests of the same step."""
        return next(group for group in self._groups if number in group)

    def _write(self, write: Callable[[], None]) -> None:
        with suppress(OSError, StudyError):  # a folder that cannot be written costs the next call its time
            write()


def _ended(finish: Finish, draft: CompiledRecord) -> tuple[str, str]:
    """Status and reason of a step in whose middle its process ended."""
    reason = finish.reason or "the counting process ended"
    if finish.status == "out_of_memory":
        return "out_of_memory", f"this host has too little memory to count it: {reason}"
    if finish.status == "timed_out":
        return "timed_out", f"still counting after forecast.timeout = {draft.asked.timeout:g} s; killed"
    return "failed", f"{reason}{_limited()}"


def _limited() -> str:
    """Name what a framework that crashes or does not load may lack: it says nothing where it is refused memory."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"; it may lack memory: this shell allows {limit / 1e9:.1f} GB (ulimit -v), counting takes 2 GB and more"

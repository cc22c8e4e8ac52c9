"""Compile programs in processes of their own, and keep what was found. Imports no framework.

What is kept of a program, in results/programs/, is the compiler's facts and its work, not its text: the same program is
compiled once, in whatever study or command. Several targets share a process, so that a model is built and traced once.
One program serves all GPUs of an architecture; a card has its own where that one does not settle whether it fits.
"""

import hashlib
import json
import queue
import resource
import sys
import tempfile
import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext, suppress
from pathlib import Path
from typing import Any

from whichdevice.base.cpu import thread_environment, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import RETURNED
from whichdevice.base.identity import installed_versions
from whichdevice.base.locks import beside_no_measurement
from whichdevice.base.supervisor import Finish, supervise_module
from whichdevice.forecast import host, tpu
from whichdevice.forecast.products import CompiledRecord, ProgramRequest, read_compiled, write_compiled
from whichdevice.forecast.targets import (
    COMPILER,
    COMPILER_PACKAGES,
    Target,
    environment,
    find_target,
    own_flags,
    program_device,
    software_of,
)
from whichdevice.forecast.work import Work
from whichdevice.forecast.xla.device_memory import RESERVE, UNSUPPORTED, OutOfDeviceMemoryError
from whichdevice.models.loading import Model

CACHE = Path("results/programs")
NEEDED = ("jax", "jaxlib", "keras")
KEPT = ("ok", "does_not_fit", "refused")  # statuses that a second compile would only repeat
PARALLEL = 2  # processes; one program's compile keeps little more than one core busy, and takes 1 to 4 GB of memory
MAX_BESIDE = 1.5e9  # bytes that a script takes to its first step, which each process runs
LENGTH = 24
# Of the memory: by so much another card's program must miss it to rule a card out. With less memory XLA computes more
# values twice: a step of OPT 1.3B needs 42.6 GB for an A100 of 80 GB, and 34.1 for one of 40 GB.
MARGIN = 0.3
SAME_STEP = {"devices", "workload", "module", "batch_size", "mode", "sequence_length", "options"}
ENDED = ("failed", "timed_out", "out_of_memory")  # without an answer, where another program may have one
Found = Callable[[int, CompiledRecord], None]
Draft = Callable[[CompiledRecord], object]


def compile_programs(
    requests: Sequence[ProgramRequest], log: Path | None = None, on_record: Found = lambda *_: None, waits: bool = True,
    on_draft: Draft | None = None,
) -> list[CompiledRecord]:  # fmt: skip
    """A record for each request, in their order; `on_record` is called for each as soon as it is known.

    `on_draft` is called with a first one of a step of many equal layers, where it is there earlier.

    A GPU's is made of the program of another card of its architecture (`program_device`), unless its largest batch is
    asked for or that program misses its memory by little. Where its architecture's compile fails, another's program is
    taken, and the record says so. Programs that were compiled before come from results/programs/.

    Where it `waits`, it does so while a measurement runs on this host, and lets none start meanwhile; not in a
    scheduler's job. A program that fails, hangs or does not fit is a record with that status, as is a machine without
    the compiler (`unavailable`). Raises StudyError where a request is at fault.
    """
    records: dict[int, CompiledRecord] = {}

    def know(number: int, record: CompiledRecord) -> None:
        record = _with_host_time(record)
        records[number] = record
        on_record(number, record)

    failed: dict[int, CompiledRecord] = {}
    for unshared in (False, True):  # the architectures' programs, then those that cards need of their own
        rest = {
            number: request for number, request in enumerate(requests) if number not in records and number not in failed
        }
        for number, request in list(rest.items()):
            if (refused := _refused(request)) is not None:
                know(number, refused)
                del rest[number]

        def keep(number: int, program: CompiledRecord, unshared: bool = unshared) -> None:
            record = borrowed(program, requests[number])
            if record is not None and record.status in ENDED:
                failed[number] = record
            elif record is not None or unshared:
                know(number, record or program)

        drafts = None if on_draft is None else lambda record: on_draft(_with_host_time(record))
        programs = {n: request if unshared else _shared(request) for n, request in rest.items()}
        _compile(programs, log, keep, waits, drafts)
    for number, record in failed.items():
        same = [other for other in records.values() if _step(other.asked) == _step(record.asked)]
        other = _from_elsewhere(record, same)
        know(number, record if other is None else other)
    return [records[number] for number in range(len(requests))]


def _with_host_time(record: CompiledRecord) -> CompiledRecord:
    """Add the time that this machine takes to send the step off; a kept program has none."""
    if record.facts is None or record.work is None:
        return record
    seconds = host.host_time(Work.from_dict(record.work), record.facts.arrays, record.facts.fit)
    return record.model_copy(update={"facts": record.facts.model_copy(update={"host_time": seconds})})


def borrowed(program: CompiledRecord, request: ProgramRequest) -> CompiledRecord | None:
    """The record of a request from a program that may be another card's: with its own memory.

    None where that settles nothing: it misses the memory by less than MARGIN.
    """
    device, facts = program.program_device or program.asked.device, program.facts
    record = program.model_copy(update={"asked": request})
    if device == request.device:
        return record
    record.program_device = device
    if find_target(request.device, request.devices).kind == "tpu":
        return _estimated(record)
    if facts is None or facts.memory_needed is None:
        record.reason = record.reason and record.reason.replace(device, request.device)
        return record
    record = on_memory_of(record, find_target(request.device, request.devices))
    assert record.facts is not None
    missing, available = record.facts.memory_missing or 0.0, record.facts.memory_available or 0.0
    return None if 0 < missing <= MARGIN * available else record


def on_memory_of(record: CompiledRecord, target: Target) -> CompiledRecord:
    """Return the record of a program with the memory of a target, which it may fit or not."""
    assert record.facts is not None and record.facts.memory_needed is not None
    available = target.available(RESERVE)
    missing = record.facts.memory_needed - available
    facts = record.facts.model_copy(
        update={
            "memory": target.memory,
            "memory_available": available,
            "memory_missing": missing if missing > 0 else None,
            "memory_tight": False,  # with the other card's memory, as are the changes
            "changes": [],
        }
    )
    reason = str(OutOfDeviceMemoryError(record.facts.memory_needed, available)) if missing > 0 else None
    status = "ok" if reason is None else "does_not_fit"
    return record.model_copy(update={"facts": facts, "status": status, "reason": reason})


def _estimated(record: CompiledRecord) -> CompiledRecord:
    """The first estimate of a step on a TPU, from a record of a GPU's program."""
    target, facts = find_target(record.asked.device, record.asked.devices), record.facts
    if facts is None or record.work is None:
        return record
    work = tpu.of_program(Work.from_dict(record.work_for_tpu or record.work), target.device)
    available = target.available(RESERVE)
    parts = (facts.arguments or 0.0) + (facts.outputs or 0.0) - (facts.aliased or 0.0)
    needed = tpu.memory_needed(work, parts, facts.temporary or 0.0)
    record.work, record.work_for_tpu = work.digest(), None
    record.facts = facts.model_copy(
        update={
            "memory": target.memory,
            "memory_available": available,
            "memory_needed": needed,
            "memory_missing": needed - available if needed > available else None,
            "memory_tight": tpu.is_tight(needed, target),
            "memory_is_lower_bound": False,
            "changes": [],
            "notes": [tpu.KERAS_ESTIMATE if facts.fit else tpu.ESTIMATE],  # in place of those of cuDNN's layers
            "largest_batch_reason": tpu.NOT_SEARCHED if record.asked.largest_batch else None,
            "operations": work.operations,
            "nbytes": work.bytes,
            "kernels": work.kernels,
        }
    )
    record.status, record.reason = "ok", None
    if needed > available:
        record.status, record.reason = "does_not_fit", str(OutOfDeviceMemoryError(needed, available))
    return record


def provisional(request: ProgramRequest, known: Iterable[CompiledRecord]) -> CompiledRecord | None:
    """A record from any GPU's program of the same step, until its own is known; None where there is none."""
    same = request.model_dump(include=SAME_STEP)
    on_tpu = find_target(request.device, request.devices).kind == "tpu"  # a trace is no program: it has its own there
    usable = (
        borrowed(record, request)
        for record in known
        if record.work
        and record.asked.model_dump(include=SAME_STEP) == same
        and not (on_tpu and record.facts is not None and record.facts.evidence == "traced")
    )
    return next((record for record in usable if record is not None), None)


def _from_elsewhere(record: CompiledRecord, others: list[CompiledRecord]) -> CompiledRecord | None:
    """Return the record of a program of another architecture, with a note that says so."""
    if UNSUPPORTED in (record.reason or ""):
        return None  # the card cannot run such a step
    for other in others:
        traced = other.facts is not None and other.facts.evidence == "traced"  # has a record for each device
        lent = borrowed(other, record.asked) if other.work is not None and not traced else None
        if lent is not None and lent.facts is not None:
            note = f"the program of the {lent.program_device}, of another architecture ({record.reason})"
            lent.facts = lent.facts.model_copy(update={"notes": [*lent.facts.notes, note]})
            return lent
    return None


def _shared(request: ProgramRequest) -> ProgramRequest:
    """The request for the program that its architecture shares; for a GPU's, of which a TPU has an estimate."""
    if software_of(request.module) != "xla":
        return request
    target = find_target(request.device, request.devices)
    if target.kind == "tpu":
        return request.model_copy(update={"device": tpu.CARD, "largest_batch": False})
    if request.largest_batch:
        return request
    device = program_device(target)
    return request if device == request.device else request.model_copy(update={"device": device})


def _step(asked: ProgramRequest) -> str:
    """All that a request has but the device, as a name; how many GPUs share the batch belongs to the step."""
    return asked.model_dump_json(exclude={"device", "workload", "timeout", "largest_batch"})


def _compile(
    requests: dict[int, ProgramRequest], log: Path | None, on_record: Found, waits: bool, on_draft: Draft | None
) -> None:
    """Find the record of each request, each program once."""
    drafts = {number: _draft(request) for number, request in requests.items()}
    same: dict[Path, list[int]] = {}  # requests for one program, which may have several names
    for number, draft in drafts.items():
        if record := _cached(draft) or _without_compiler(draft):
            on_record(number, record)
        else:
            same.setdefault(cache_path(draft), []).append(number)
    if not same:
        return

    def found(number: int, record: CompiledRecord) -> None:
        path = cache_path(record)
        if record.status in KEPT:
            with suppress(OSError, StudyError):  # a folder that cannot be written costs the next call its time
                write_compiled(record, path)
        for other in same[path]:
            on_record(other, record.model_copy(update={"asked": drafts[other].asked}))

    traced = all(software_of(draft.asked.module) == "eager" for draft in drafts.values())  # seconds of one core
    with (
        nullcontext() if traced or not waits else beside_no_measurement("compiling for forecasts"),
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder,
    ):
        for software in {software_of(draft.asked.module) for draft in drafts.values()}:
            host.rates(software)  # measured before processes compile beside it
        _Pool({numbers[0]: drafts[numbers[0]] for numbers in same.values()}, Path(folder), log, found, on_draft).run()


def compile_code_hash(module: str) -> str:
    """Hash of the code that a program of this workload, and what is read from it, depend on."""
    traced = software_of(module) == "eager"
    return Model.read(module).hash(f"whichdevice.forecast.{'torch.records' if traced else 'xla.process'}")


def cache_path(draft: CompiledRecord) -> Path:
    """A name made of everything that the outcome depends on: not of the workload's name or the time allowed."""
    asked = draft.asked.model_dump(mode="json", exclude={"workload", "timeout", "module"})
    row = find_target(draft.asked.device, draft.asked.devices).facts
    key = [asked, row, draft.versions, draft.code_hash, draft.schema_version, own_flags()]
    digest = hashlib.sha256(json.dumps(key, sort_keys=True).encode()).hexdigest()
    return CACHE / f"{digest[:LENGTH]}.json"


def _refused(request: ProgramRequest) -> CompiledRecord | None:
    """A record that says why the device cannot run such a step; None where it can."""
    reason = find_target(request.device, request.devices).refusal(request.precision, software_of(request.module))
    if reason is None:
        return None
    code = compile_code_hash(request.module)
    return CompiledRecord(asked=request, status="refused", reason=reason, code_hash=code)


def _draft(request: ProgramRequest) -> CompiledRecord:
    versions = installed_versions(_needed(request.module))
    return CompiledRecord(
        asked=request, status="failed", versions=versions, code_hash=compile_code_hash(request.module)
    )


def _needed(module: str) -> tuple[str, ...]:
    """Packages that the workload's step is compiled with; PyTorch's own is traced, which needs no compiler."""
    return ("torch",) if software_of(module) == "eager" else (*NEEDED, *COMPILER_PACKAGES)


def _cached(draft: CompiledRecord) -> CompiledRecord | None:
    """The same program, compiled before in any study, as this request names it."""
    try:
        kept = read_compiled(cache_path(draft))
    except StudyError:
        return None
    return kept.model_copy(update={"asked": draft.asked})


def _without_compiler(draft: CompiledRecord) -> CompiledRecord | None:
    """A record that says what is not installed, or None where all is."""
    missing = [name for name in _needed(draft.asked.module) if name not in draft.versions]
    if not missing:
        return None
    if missing == ["torch"]:
        reason = "PyTorch is not installed here: pip install torch"
    else:
        reason = f"{COMPILER} is not installed here (Linux on x86-64 only): "
        reason += f"pip install {' '.join(missing)}"
    return draft.model_copy(update={"status": "unavailable", "reason": reason})


class _Pool:
    """Compiling processes that share a list of programs; one that dies is started again for the rest."""

    def __init__(
        self, drafts: dict[int, CompiledRecord], folder: Path, log: Path | None, found: Found, on_draft: Draft | None
    ) -> None:
        self._drafts, self._folder, self._log, self._found, self._on_draft = drafts, folder, log, found, on_draft
        self._waiting = self._ordered()
        self._done: queue.Queue[tuple[int, CompiledRecord] | CompiledRecord | BaseException | None] = queue.Queue()
        (folder / "claims").mkdir()

    def _ordered(self) -> list[int]:
        """All targets of one step side by side; a second process begins at the other end: a step is traced once."""
        return sorted(self._drafts, key=lambda number: (_step(self._drafts[number].asked), number))

    def run(self) -> None:
        """Compile all of them. Threads are daemons, so that an interrupt ends them and the processes with this one."""
        drafts = self._drafts.values()
        traces = all(software_of(draft.asked.module) == "eager" for draft in drafts)  # one serves all devices
        modules = {draft.asked.module for draft in drafts}
        large = any(found.memory > MAX_BESIDE for module in modules if (found := Model.read(module).found) is not None)
        count = 1 if traces or large else min(PARALLEL, usable_cores(), len(self._waiting))
        threads = [threading.Thread(target=self._work, args=(worker, count), daemon=True) for worker in range(count)]
        for thread in threads:
            thread.start()
        running = count
        while running:
            item = self._done.get()
            if item is None:
                running -= 1
            elif isinstance(item, BaseException):
                raise item
            elif isinstance(item, CompiledRecord):
                if self._on_draft is not None:
                    self._on_draft(item)
            else:
                self._found(*item)

    def _work(self, worker: int, workers: int) -> None:
        try:
            while self._unclaimed():
                self._process(worker, workers)
        except BaseException as error:
            self._done.put(error)
        else:
            self._done.put(None)

    def _unclaimed(self) -> list[int]:
        return [number for number in self._waiting if not (self._folder / "claims" / str(number)).exists()]

    def _process(self, worker: int, workers: int) -> None:
        """One process, until it has nothing left to claim or dies; what it leaves half done fails."""
        parts: dict[int, dict[str, Any]] = {}
        began = False

        def on_message(message: dict[str, Any]) -> None:
            nonlocal began
            if message["event"] == "progress":
                print(message["phase"], file=sys.stderr)
            elif message["event"] == "part":
                began = True
                number = int(message["place"])
                if (draft := message["value"].get("draft")) is not None:
                    self._done.put(self._record(number, draft))
                    return
                parts.setdefault(number, {}).update(message["value"])
                if parts[number].get("done"):
                    self._done.put((number, self._record(number, parts.pop(number))))

        asked = [(number, self._drafts[number].asked.model_dump(mode="json")) for number in self._unclaimed()]
        asked = asked[:: -1 if worker % 2 else 1]
        compiles = any(software_of(draft.asked.module) == "xla" for draft in self._drafts.values())
        claims, drafts = str(self._folder / "claims"), self._on_draft is not None
        job = json.dumps({"requests": asked, "claims": claims, "drafts": drafts})
        threads = thread_environment(max(1, usable_cores() // workers))
        variables = {**threads, **environment(["cuda"] if compiles else []), **RETURNED}
        variables["TMPDIR"] = str(self._folder)  # a process that is ended leaves its files there
        limit = sum(self._drafts[number].asked.timeout for number, _ in asked) + 60
        log = self._log or self._folder / f"{worker}.log"
        finish = supervise_module("whichdevice.forecast.xla.process", job, variables, log, limit, on_message)
        for number, part in parts.items():
            status, reason = _ended(finish, self._drafts[number])
            self._done.put((number, self._record(number, {**part, "status": status, "reason": reason})))
        if not began and finish.status != "ok" and (unclaimed := self._unclaimed()):
            # It never came as far as a program: the next one would end in the same way.
            number = unclaimed[0]
            (self._folder / "claims" / str(number)).touch()
            status, reason = _ended(finish, self._drafts[number])
            self._done.put((number, self._record(number, {"status": status, "reason": reason})))

    def _record(self, number: int, part: dict[str, Any]) -> CompiledRecord:
        known = {name: value for name, value in part.items() if name != "done"}
        if known.get("status") in ("unavailable", "out_of_memory"):
            known["reason"] = f"{known['reason']}{_limited()}"
        return CompiledRecord.model_validate({**self._drafts[number].model_dump(mode="json"), **known})


def _ended(finish: Finish, draft: CompiledRecord) -> tuple[str, str]:
    """Status and reason of a program in whose middle its process ended."""
    reason = finish.reason or "the compiling process ended"
    if finish.status == "out_of_memory":
        doing = "trace" if software_of(draft.asked.module) == "eager" else "compile"
        return "out_of_memory", f"this host has too little memory to {doing} it: {reason}"
    if finish.status == "timed_out":
        return "timed_out", f"still compiling after forecast.timeout = {draft.asked.timeout:g} s; killed"
    return "failed", f"{reason}{_limited()}"


def _limited() -> str:
    """Name what a compiler that crashes or does not load may lack: it says nothing where it is refused memory."""
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY:
        return ""
    return f"; it may lack memory: this shell allows {limit / 1e9:.1f} GB (ulimit -v), a compiler takes 3 GB and more"

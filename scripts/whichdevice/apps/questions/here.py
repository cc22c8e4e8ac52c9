"""The step on this machine: measured in a few processes within a budget of seconds, or estimated from what was counted.

A step that is not measured whole in the budget is timed once, where its process came so far; one that would not be is
estimated by its operations and bytes. Records of earlier calls are read.
"""

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path

from whichdevice.apps.questions.question import Here, Question, config_name, first_backend
from whichdevice.apps.questions.time_left import BUDGET, TimeLeft
from whichdevice.base.code_hash import content_key
from whichdevice.base.cpu import cpu_model, usable_cores
from whichdevice.base.errors import StudyError
from whichdevice.base.files import can_be_written, write_atomically
from whichdevice.base.identity import machine_identity
from whichdevice.base.locks import measurement_lock
from whichdevice.base.memory import total_memory
from whichdevice.base.parts import read_as
from whichdevice.base.terminal import Countdown
from whichdevice.decide import MeasuredCell, Row
from whichdevice.decide.measured import cell_of
from whichdevice.decide.rows import PARTS, estimated, timed, without_time
from whichdevice.forecast.products import CompiledRecord
from whichdevice.forecast.targets import software_of
from whichdevice.measure.machine.calibration import host_flops
from whichdevice.measure.record import DataFacts, Record, Request
from whichdevice.measure.running import run_attempt, run_code_hash
from whichdevice.models.framework import KERAS, TORCH
from whichdevice.models.script.look import seconds_here
from whichdevice.models.torch_model import TorchFile
from whichdevice.models.workloads.base import Options

RECORDS = Path("results/ask/runs")
NAME = "this machine"
PROCESSES = 3  # that measure a step
START_SECONDS = 6.0  # of a process until its first step, a guess
FIRST_STEPS = 3  # that a process needs at least: the first one, one to warm up, one that counts
STEADY_SECONDS = 1.0
EFFICIENCY = 0.5  # of a step against a plain product, on a CPU
BYTES_PER_SECOND = 10e9  # of a CPU's memory, assumed


def measured_here(question: Question, counted: Sequence[CompiledRecord], left: TimeLeft) -> Here:
    """Return cells of the step here, or a row that says why there is none.

    Raises StudyError where the model fails here, and nothing that was counted shows that it runs elsewhere.
    """
    reasons = {record.status: record.reason for record in counted}
    eager = software_of(question.model.text) == "eager"
    if eager and "ok" not in reasons and (failed := reasons.get("failed")):  # a trace fails where the model does
        raise StudyError(failed)
    if question.model.found is not None:
        return Here(unmeasured=_estimate(counted) or _timed(question, left))
    if reason := _only_on_gpu(question):
        return Here(unmeasured=without_time(NAME, reason))
    try:
        requests = list(_requests(question))
    except StudyError as error:  # no framework is installed, and a known name needs none
        return Here(unmeasured=without_time(NAME, str(error)))
    paths = {number: _path(question, request) for number, request in enumerate(requests)}
    kept = {number: record for number, path in paths.items() if (record := _kept(path)) is not None}
    if not kept and (row := _estimate(counted)) is not None:
        return Here(unmeasured=row)
    made = kept or _measured(question, requests, paths, left)
    if failed := next((f"{record.reason}" for record in made.values() if record.status == "failed"), None):
        if "ok" not in reasons:
            raise StudyError(f"{question.model}: {failed}")
        return Here(unmeasured=without_time(NAME, failed))
    cells = _cells(requests, made)
    if made[0].status == "timed_out" and cells[0].step_time is None:
        return Here(unmeasured=_estimate(counted, always=True) or without_time(NAME, cells[0].status))
    ended = max(record.ended for record in made.values()).astimezone()
    return Here(cells, kept_from=ended.strftime("%d %B %Y, %H:%M") if kept else None)


def _requests(question: Question) -> Iterator[Request]:
    """Yield the runs: each batch size once, then again."""
    model, batch = question.model, question.batch_size()
    generates = question.mode == "generate"
    backend = "jax" if generates and model.framework == KERAS else first_backend(model)
    for repeat in range(1, PROCESSES + 1):
        for size in sorted({1, batch}) if generates else [batch]:
            yield Request(
                device="this_machine", kind="cpu", replicas=1, workload=config_name(model), module=model.text,
                mode=question.mode if model.has_model else None, backend=backend, precision="float32",
                batch_size=size, fraction=1.0, sequence_length=question.length, repeat=repeat, seed=repeat, epochs=0,
                steps_per_epoch=model.recipe.steps_per_epoch, validation=True, learn=False, seconds=STEADY_SECONDS,
                min_steps=1, timeout=BUDGET, dataset=model.dataset, source="standin" if model.dataset else None,
                options=dict(question.options),
            )  # fmt: skip


def _path(question: Question, request: Request) -> Path:
    """Return where the record of a run on this machine is or will be, by all that changes its numbers."""
    recipe = None
    if request.dataset is not None:
        from whichdevice.study.prepare import recipe_key

        recipe = recipe_key(request.dataset, "standin")
    asked = request.model_dump(mode="json", exclude={"timeout"})
    machine = [machine_identity(), cpu_model(), usable_cores()]
    key = content_key(asked, run_code_hash(question.model, request.backend), recipe, machine)
    return RECORDS / f"{request.workload}-{key}.json"


def _kept(path: Path) -> Record | None:
    """The record of an earlier call, or None."""
    with suppress(StudyError):
        return read_as(Record, path, "a record")
    return None


def _measured(
    question: Question, requests: Sequence[Request], paths: dict[int, Path], left: TimeLeft
) -> dict[int, Record]:
    """Run as many processes as end within the budget, one of each batch size at least, and keep their records."""
    made: dict[int, Record] = {}
    left.processes = Countdown(len(requests), BUDGET / len(requests))

    def doing() -> str:
        return f"measuring {question.model} here: process {len(made) + 1}"

    with (
        left.line(doing, f"measuring {question.model} here") as line,
        tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as scratch,
        measurement_lock(f"ask, {question.model.label}", line.line),
    ):
        data = _data(requests[0], Path(scratch))
        began, longest = time.monotonic(), 0.0
        for number, request in enumerate(requests):
            started = time.monotonic()
            known = request.batch_size in {record.asked.batch_size for record in made.values()}
            if known and left.passed + longest > BUDGET:
                break
            folder = Path(scratch) / str(number)
            folder.mkdir()
            run = f"this_machine/{request.workload}/{request.backend}-float32-b{request.batch_size}/r{request.repeat}"
            within = request.model_copy(update={"timeout": max(BUDGET - (started - began), START_SECONDS)})
            record = run_attempt("ask", run, within, folder, Path(scratch) / "run.log", lambda *_: None, data)
            made[number] = record
            if record.status in ("ok", "timed_out"):
                with suppress(OSError):  # a folder that cannot be written costs the next call its time
                    write_atomically(record.model_dump_json(indent=1), paths[number])
            left.processes.finish()
            longest = max(longest, time.monotonic() - started)
            if record.status != "ok":
                break
    left.processes.pieces = left.processes.done
    return made


def _data(request: Request, scratch: Path) -> "partial[tuple[Path, DataFacts]] | None":
    """Return what reads the dataset of a run through, which is made first; None where it has its own data.

    It is made in the scratch folder where the working folder cannot be written.
    """
    if request.dataset is None:
        return None
    from whichdevice.study.prepare import STANDIN_SEED, prepare_dataset, recipe_key, sound_dataset
    from whichdevice.study.request import DATASETS

    folder = DATASETS / request.dataset / f"standin-{recipe_key(request.dataset, 'standin')}"
    if not folder.joinpath("dataset.json").is_file():
        folder = folder if can_be_written(folder) else scratch / folder.name
        prepare_dataset(request.dataset, "standin", None, STANDIN_SEED, folder)

    def read(dataset: str) -> tuple[Path, DataFacts]:
        info = sound_dataset(dataset, "standin", None, folder)
        return folder, DataFacts(dataset=info.name, source=info.source, checksum=info.checksum)

    return partial(read, request.dataset)


def _cells(requests: Sequence[Request], records: dict[int, Record]) -> tuple[MeasuredCell, ...]:
    """One cell for each batch size, of its records."""
    by_size: dict[int, list[Record]] = {}
    for number, record in sorted(records.items()):
        by_size.setdefault(requests[number].batch_size, []).append(record)
    return tuple(cell_of(of_size) for of_size in by_size.values())


def _estimate(counted: Sequence[CompiledRecord], always: bool = False) -> Row | None:
    """This machine by the operations and bytes of a step on one device.

    None where the step may be measured in the budget, unless `always`, and where nothing of that kind was counted.
    """
    alone = (one for one in counted if one.facts and one.facts.operations and one.asked.devices == 1)
    one = next(alone, None)
    if one is None or one.facts is None or one.asked.mode in ("decode", "prefill"):
        return None
    wider = 2.0 if one.asked.precision != "float32" else 1.0  # a CPU takes the step in float32
    operations, nbytes = one.facts.operations or 0.0, (one.facts.nbytes or 0.0) * wider
    step = operations / (EFFICIENCY * host_flops()) + nbytes / BYTES_PER_SECOND
    needed, available = sum(one.facts.memory_parts.get(name, 0.0) for name in PARTS), float(total_memory() or 0)
    if needed <= available and START_SECONDS + FIRST_STEPS * step <= BUDGET and not always:
        return None
    return estimated(NAME, step, needed, available)


def _timed(question: Question, left: TimeLeft) -> Row:
    """This machine by a few steps of a script, which trains here for them."""

    def doing() -> str:
        return f"measuring {question.model} here"

    try:
        with left.line(doing, doing()) as line, measurement_lock(doing(), line.line):
            return timed(NAME, seconds_here(question.model.address))
    except StudyError as error:
        return without_time(NAME, str(error))


def _only_on_gpu(question: Question) -> str | None:
    """Why no CPU runs a PyTorch model's step; None where one does."""
    if question.model.framework != TORCH:
        return None
    workload = question.model.workload(Options(1, given=dict(question.options)))
    return workload.only_on_gpu if isinstance(workload, TorchFile) else None

"""List the steps that a study wants counted, and where their records are."""

from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from pathlib import Path

from whichdevice.base.code_hash import content_key
from whichdevice.base.errors import StudyError
from whichdevice.forecast.counting import KEPT, count_code_hash, count_steps
from whichdevice.forecast.products import (
    GENERATING,
    CompiledRecord,
    Mode,
    ProgramRequest,
    read_compiled,
    write_compiled,
)
from whichdevice.forecast.targets import Target, devices_in, find_target, targets_in, usual_precision
from whichdevice.study.cells import model_of
from whichdevice.study.claims import claim_requests
from whichdevice.study.config.model import Study


def program_requests(study: Study) -> list[ProgramRequest]:
    """Every device × workload × precision × batch × sequence length that the study forecasts, each once.

    Raises StudyError on an unknown device or workload.
    """
    return list({request.path: request for request in _requests(study)}.values())


def all_requests(study: Study) -> list[ProgramRequest]:
    """The study's own programs, and what was published of its workloads; a study without forecasts has none."""
    of_study = program_requests(study)
    modules = {request.module for request in of_study}
    return [*of_study, *claim_requests(modules)] if of_study else []


def study_targets(study: Study) -> list[Target]:
    """The study's devices, each in the numbers asked for; raises StudyError where one is unknown."""
    return targets_in(devices_in(study.forecast.devices), study.forecast.gpus, _target)


@cache
def _target(name: str, count: int | None) -> Target:
    try:
        return find_target(name, count)
    except StudyError as error:
        raise StudyError(f"config: forecast.devices: {error}") from None


def _requests(study: Study) -> Iterator[ProgramRequest]:
    settings = study.forecast
    targets = study_targets(study)
    for name in study.workloads if settings.workload is None else settings.workload:
        if name not in study.workloads:
            raise StudyError(f"config: forecast.workload: no {name}; there are {', '.join(study.workloads)}")
        workload = study.workloads[name]
        model = model_of(study, name)
        known = workload.batch_size or [model.recipe.batch_size]
        ends = (min, max) if workload.mode == "generate" else (max,)
        sizes = study.forecast.batch_size or sorted({end(known) for end in ends})
        modes: tuple[Mode, ...] = GENERATING if workload.mode == "generate" else (workload.mode,)
        lengths: Sequence[int | None] = workload.sequence_length or [None]
        for precision, size, length, target, mode in product(settings.precision, sizes, lengths, targets, modes):
            chosen = usual_precision(target, precision, model.usual_format)
            if size % target.devices == 0:
                yield ProgramRequest(
                    device=target.device,
                    devices=target.devices,
                    workload=name,
                    module=model.text,
                    precision=chosen,
                    batch_size=size,
                    mode=mode,
                    sequence_length=length,
                    options=workload.options,
                    largest_batch=settings.largest_batch,
                    longest_sequence=settings.longest_sequence,
                    timeout=settings.timeout,
                )


def compiled_path(study: Study, request: ProgramRequest) -> Path:
    """Return where the record is or will be, relative to the working directory.

    Its name is a hash of the request, the device's row of the sheet and the code; the time allowed does not count.
    """
    row = find_target(request.device, request.devices).facts
    asked = request.model_dump(mode="json", exclude={"timeout"})
    key = content_key(asked, row, _code(request.module))
    return Path(study.root) / "compiled" / request.path / f"{key}.json"


@cache
def _code(module: str) -> str:
    return count_code_hash(module)


def compile_study(
    study: Study,
    paths: Sequence[Path],
    log: Path | None,
    again: bool = False,
) -> list[CompiledRecord]:
    """Count the study's steps of these records, and write each record as soon as it is known.

    A record that says how the step was counted stays; with `again` it is made anew as well. Raises StudyError on a path
    of no program of the study.
    """
    requests = {compiled_path(study, request): request for request in all_requests(study)}
    for path in paths:
        if path not in requests:
            raise StudyError(
                f"{path}: not counted by this study; its code or config may have been edited after this call was "
                "planned: make the same call again"
            )
    missing = [path for path in paths if again or not _compiled(path)]

    def write(number: int, record: CompiledRecord) -> None:
        write_compiled(record, missing[number])

    if log is not None:
        log.parent.mkdir(parents=True, exist_ok=True)
    return count_steps([requests[path] for path in missing], log, write)


def _compiled(path: Path) -> bool:
    try:
        return read_compiled(path).status in KEPT
    except StudyError:
        return False

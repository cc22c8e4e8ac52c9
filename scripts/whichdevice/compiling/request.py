"""From a study to what the TPU compiler is asked: every topology × workload × precision × batch × sequence length."""

from collections.abc import Iterator, Sequence
from itertools import product
from pathlib import Path

from whichdevice.compiling.compile import compile_code_hash
from whichdevice.config.model import Study
from whichdevice.config.self_check import SELF_CHECKS
from whichdevice.datasets.prepare import recipe_key
from whichdevice.errors import StudyError
from whichdevice.measuring.request import content_key
from whichdevice.records.compiled import CompileRequest
from whichdevice.workloads import workload_class

__all__ = ["CompileRequest", "compile_requests", "compiled_path", "request_of"]


def compile_requests(study: Study) -> list[CompileRequest]:
    """Everything that the study compiles, in the order of its topologies; raises StudyError on an unknown workload."""
    return list(_requests(study))


def _requests(study: Study) -> Iterator[CompileRequest]:
    settings = study.compile
    studied = [name for name in study.workloads if name not in SELF_CHECKS]
    names = studied if settings.workload is None else settings.workload
    for topology, name in product(settings.topologies, names):
        if name not in study.workloads:
            raise StudyError(f"config: compile.workload: no {name}; there are {', '.join(study.workloads)}")
        workload = study.workloads[name]
        if workload.model is not None:
            continue  # it serves another workload's model
        module = workload.module or name
        chosen = workload_class(module)
        sizes = settings.batch_size or workload.batch_size or [chosen.recipe.batch_size]
        lengths: Sequence[int | None] = workload.sequence_length or [None]
        for precision, size, length in product(settings.precision, sizes, lengths):
            yield CompileRequest(
                topology=topology,
                workload=name,
                module=module,
                precision=precision,
                batch_size=size,
                sequence_length=length,
                options=workload.options,
                dataset=chosen.dataset,
                largest_batch=settings.largest_batch,
                timeout=settings.timeout,
            )


def compiled_path(study: Study, request: CompileRequest) -> Path:
    """Where the record is or will be, relative to the working directory.

    Its name is a hash of the request, the code and the dataset's recipe; the time allowed does not count.
    """
    source = study.data.sources.get(request.dataset) if request.dataset is not None else None
    recipe = recipe_key(request.dataset, source) if request.dataset is not None and source is not None else None
    asked = request.model_dump(mode="json", exclude={"timeout"})
    key = content_key(asked, compile_code_hash(request.module), recipe)
    return Path(study.root) / "compiled" / request.path / f"{key}.json"


def request_of(study: Study, record_path: Path) -> CompileRequest:
    """The request that a record's path names; raises StudyError where the study has none now."""
    for request in compile_requests(study):
        if compiled_path(study, request) == record_path:
            return request
    raise StudyError(
        f"{record_path}: not compiled by this study; its code or config may have been edited after this call was "
        "planned: make the same call again"
    )

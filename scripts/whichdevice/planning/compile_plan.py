"""What a call of the workflow compiles for TPUs."""

from pathlib import Path
from typing import Any

from whichdevice.forecast.compile import KEPT, NEEDED, compile_code_hash, compiler_versions
from whichdevice.forecast.request import compile_requests, compiled_path, request_of
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.records.compiled import read_compiled


def compiled_records(study: Study) -> list[str]:
    """Paths of all compiled records of the study."""
    return [str(compiled_path(study, request)) for request in compile_requests(study)]


def compile_parameters(study: Study, record: str) -> dict[str, Any]:
    """What a compiled record depends on beside its dataset; any change compiles anew."""
    request = request_of(study, Path(record))
    asked = request.model_dump(mode="json", exclude={"timeout"})
    return {"asked": asked, "code": compile_code_hash(request.module)}


def may_compile_now(study: Study, record: str) -> bool:
    """Whether a step that did not compile is worth another try: by a compiler of other versions, or with more time."""
    try:
        found, request = read_compiled(Path(record)), request_of(study, Path(record))
    except StudyError:
        return False
    here = compiler_versions()
    if found.status in KEPT or not set(NEEDED) <= set(here):
        return False
    return found.versions != here or found.asked.timeout < request.timeout

"""What a call of the workflow compiles for TPUs."""

from pathlib import Path
from typing import Any

from whichdevice.compiling.compile import compile_code_hash
from whichdevice.compiling.request import compile_requests, compiled_path, request_of
from whichdevice.config.model import Study


def compiled_records(study: Study) -> list[str]:
    """Paths of all compiled records of the study."""
    return [str(compiled_path(study, request)) for request in compile_requests(study)]


def compile_parameters(study: Study, record: str) -> dict[str, Any]:
    """What a compiled record depends on beside its dataset; any change compiles anew."""
    request = request_of(study, Path(record))
    asked = request.model_dump(mode="json", exclude={"timeout"})
    return {"asked": asked, "code": compile_code_hash(request.module)}

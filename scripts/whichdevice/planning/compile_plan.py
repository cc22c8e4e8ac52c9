"""What a call of the workflow compiles."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.compiling.compile import KEPT, NEEDED
from whichdevice.compiling.request import CompileRequest, compile_requests, compiled_path
from whichdevice.errors import StudyError
from whichdevice.records.compiled import read_compiled

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan

AXES = ("workload", "precision", "batch_size", "sequence_length")  # of `only`, that a program has


def compiled_records(plan: "StudyPlan") -> list[str]:
    """Paths of the compiled records that this call brings about, narrowed by `only` and `retry`.

    Where the compiler is not installed, or the study was fetched and is only shown, those that exist.
    """
    paths = [str(compiled_path(plan.study, asked)) for asked in compile_requests(plan.study) if _selected(plan, asked)]
    if plan.merged.fetched or (plan.study.run_on != "all" and not all(map(find_spec, NEEDED))):
        paths = [path for path in paths if Path(path).is_file()]
    return paths if plan.call.retry is None else [path for path in paths if _failed(Path(path))]


def other_compiled(plan: "StudyPlan") -> list[str]:
    """Existing compiled records of the study that this call does not bring about."""
    wanted = set(compiled_records(plan))
    paths = (str(compiled_path(plan.study, asked)) for asked in compile_requests(plan.study))
    return [path for path in paths if path not in wanted and Path(path).is_file()]


def _failed(record: Path) -> bool:
    """Whether there is a record, and it says neither that the program compiled nor that it does not fit."""
    try:
        return record.is_file() and read_compiled(record).status not in KEPT
    except StudyError:
        return True


def _selected(plan: "StudyPlan", asked: CompileRequest) -> bool:
    only = plan.call.only
    if only.device is not None and not any(plan.study.devices[name].kind == "tpu" for name in only.device):
        return False
    return all(wanted is None or getattr(asked, axis) in wanted for axis in AXES for wanted in [getattr(only, axis)])

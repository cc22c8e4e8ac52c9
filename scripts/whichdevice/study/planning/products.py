"""Products beside the runs of a call: counted steps, exported models, and what tables and page are drawn by."""

from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.base.code_hash import code_hash
from whichdevice.base.errors import StudyError
from whichdevice.base.files import CONFIG, HERE, INSTALLED
from whichdevice.base.sheets.prices import price_sheets
from whichdevice.forecast.counting import KEPT
from whichdevice.forecast.products import ProgramRequest, read_compiled
from whichdevice.study.config.model import Study
from whichdevice.study.exporting.export import export_path, learning_runs
from whichdevice.study.figures import figure_modules, figure_names
from whichdevice.study.programs import all_requests, compiled_path
from whichdevice.study.request import planned_record
from whichdevice.study.tables import table_modules

if TYPE_CHECKING:
    from whichdevice.study.planning.study_plan import StudyPlan

PROGRAM_AXES = ("workload", "precision", "batch_size", "sequence_length")  # of `only`, that a program has


def compiled_records(plan: "StudyPlan") -> list[str]:
    """Paths of the compiled records that this call brings about, narrowed by `only` and `retry`.

    Where JAX or Keras is not installed, those that exist.
    """
    paths = [str(compiled_path(plan.study, asked)) for asked in all_requests(plan.study) if _selected(plan, asked)]
    if plan.study.run_on != "all" and not all(map(find_spec, ("jax", "keras"))):
        paths = [path for path in paths if Path(path).is_file()]
    return paths if plan.call.retry is None else [path for path in paths if _failed(Path(path))]


def other_compiled(plan: "StudyPlan") -> list[str]:
    """Existing compiled records of the study that this call does not bring about."""
    wanted = set(compiled_records(plan))
    paths = (str(compiled_path(plan.study, asked)) for asked in all_requests(plan.study))
    return [path for path in paths if path not in wanted and Path(path).is_file()]


def _failed(record: Path) -> bool:
    """Whether a record exists, and its step must be counted again."""
    try:
        return record.is_file() and read_compiled(record).status not in KEPT
    except StudyError:
        return True


def _selected(plan: "StudyPlan", asked: ProgramRequest) -> bool:
    """Whether `only` selects it: by the axes that a program has, and devices of the study by their row of the sheet."""
    only = plan.call.only
    if only.device is not None and asked.device not in [plan.study.devices[name].hardware for name in only.device]:
        return False
    return all(
        wanted is None or getattr(asked, axis) in wanted for axis in PROGRAM_AXES for wanted in [getattr(only, axis)]
    )


def exported_models(plan: "StudyPlan") -> list[str]:
    """Paths of the export records that this call makes: of workloads that learn in it, or have learned.

    A call with `only` or `retry` exports the workloads of its runs alone.
    """
    narrowed = plan.call.retry is not None or bool(plan.call.only.model_dump(exclude_none=True))
    return [
        str(export_path(plan.study, name))
        for name, workload in plan.study.workloads.items()
        if workload.export and (export_inputs(plan, name) or (not narrowed and learned_records(plan.study, name)))
    ]


def export_inputs(plan: "StudyPlan", workload: str) -> list[str]:
    """Records of the workload's learning runs that this call brings about."""
    return plan.records(sorted(set(plan.wanted()) & set(learning_runs(plan.study, workload))))


def other_learned(plan: "StudyPlan", workload: str) -> dict[str, int]:
    """Existing records beside those inputs, and when each was written; another one exports anew."""
    others = set(map(str, learned_records(plan.study, workload))) - set(export_inputs(plan, workload))
    return {path: Path(path).stat().st_mtime_ns for path in sorted(others)}


def learned_records(study: Study, workload: str) -> list[Path]:
    """Existing records of the workload's learning runs."""
    paths = (Path(planned_record(study, run)) for run in learning_runs(study, workload))
    return [path for path in paths if path.is_file()]


def drawing_code(study: Study, package: Path = HERE, config: Path = CONFIG) -> dict[str, str]:
    """Hash of the code and files that tables, figures and report are made by, as each rule's parameter.

    Files count by what they hold: as inputs from the future (a clock set back) they would be newer than any table.
    """
    tables = ["whichdevice.study.tables.make", *table_modules()]
    figures = ["whichdevice.study.figures", *figure_modules(*figure_names())]
    page = _files(package / "study" / "report")
    data = [*_files(config), *price_sheets(study.prices), *(path for path in _files(package) if path not in page)]
    return {
        "tables": code_hash(*tables, files=data),
        "figures": code_hash(*figures, *tables, files=data),
        "report": code_hash("whichdevice.study.report.contents", *tables, files=[*data, *page]),
    }


def _files(folder: Path) -> list[Path]:
    """Return all below a folder but code, configs of studies and hidden files: sheets, constants, templates."""
    return [
        path
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.suffix not in (".py", ".yaml") and not path.name.startswith(".")
        if {"__pycache__", INSTALLED.name}.isdisjoint(path.relative_to(folder).parts)
    ]

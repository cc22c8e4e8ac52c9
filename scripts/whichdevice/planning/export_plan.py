"""What a call of the workflow exports: the trained models of the workloads that ask for it."""

from pathlib import Path
from typing import TYPE_CHECKING

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.exporting.export import export_path, learning_runs
from whichdevice.measuring.request import planned_record
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload
from whichdevice.workloads.framework import KERAS, NAMES

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan


def exported_models(plan: "StudyPlan") -> list[str]:
    """Paths of the export records that this call brings about: of workloads that learn in it, or have learned.

    Narrowed by `only` or `retry` it exports nothing but the workloads of its own runs.
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
    return [path for run in learning_runs(study, workload) if (path := Path(planned_record(study, run))).is_file()]


def check_export(study: Study) -> None:
    """Raise StudyError where a workload is exported that never learns."""
    for name, workload in study.workloads.items():
        if not workload.export:
            continue
        chosen = workload_class(workload.module or name)
        if chosen.framework != KERAS:
            raise StudyError(
                f"config: workloads.{name}.export: {NAMES[chosen.framework]} cannot be exported; only Keras' are"
            )
        epochs = next(
            value for value in (workload.epochs, study.train.epochs, chosen.recipe.epochs) if value is not None
        )
        if not issubclass(chosen, TrainingWorkload) or not epochs or not study.train.repeats:
            raise StudyError(f"config: workloads.{name}.export: it learns nothing (epochs, train.repeats)")

"""What a call of the workflow exports: the trained models of the workloads that ask for it."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.exporting.export import NEEDED, export_code_hash, export_path, export_versions, failed_export
from whichdevice.measuring.request import build_request
from whichdevice.study_runs import study_runs
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload

if TYPE_CHECKING:
    from whichdevice.planning.study_plan import StudyPlan


def exported_models(plan: "StudyPlan") -> list[str]:
    """Paths of the export records that this call brings about: of workloads that have learned or will."""
    return [
        str(export_path(plan.study, name))
        for name, workload in plan.study.workloads.items()
        if workload.export and (export_inputs(plan, name) or learned_records(plan.study, name))
    ]


def export_inputs(plan: "StudyPlan", workload: str) -> list[str]:
    """Records of the workload's learning runs that this call brings about."""
    return plan.records([run for run in plan.wanted() if run.cell.workload == workload and learns(plan.study, run)])


def export_parameters(plan: "StudyPlan", workload: str) -> dict[str, Any]:
    """What an export depends on beside those records; any change exports anew."""
    module = plan.study.workloads[workload].module or workload
    wanted = set(export_inputs(plan, workload))
    others = [path for path in learned_records(plan.study, workload) if str(path) not in wanted]
    return {
        "code": export_code_hash(module),
        "others": {str(path): path.stat().st_mtime_ns for path in others},
    }


def may_export_now(study: Study, workload: str) -> bool:
    """Whether the last export failed, and other versions of what it needs are installed here by now."""
    failed = failed_export(study, workload)
    return failed is not None and set(NEEDED) <= set(here := export_versions()) and failed.versions != here


def learned_records(study: Study, workload: str) -> list[Path]:
    """Records that are there of the workload's learning runs."""
    runs = [run for run in study_runs(study) if run.cell.workload == workload and learns(study, run)]
    return [path for run in runs if (path := Path(run.record(study))).is_file()]


def learns(study: Study, run: Run) -> bool:
    """Whether the run trains to the end."""
    return build_request(study, run).learn


def check_export(study: Study) -> None:
    """Raise StudyError where a workload is exported that never learns."""
    for name, workload in study.workloads.items():
        if not workload.export:
            continue
        chosen = workload_class(workload.module or name)
        epochs = next(
            value for value in (workload.epochs, study.train.epochs, chosen.recipe.epochs) if value is not None
        )
        if not issubclass(chosen, TrainingWorkload) or not epochs or not study.train.repeats:
            raise StudyError(f"config: workloads.{name}.export: it learns nothing (epochs, train.repeats)")

"""From a study and one of its runs to everything that was asked of that run."""

from pathlib import Path

from whichdevice.cells import Run
from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.records.request import Request
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import TrainingWorkload


def dataset_of(study: Study, workload: str) -> str | None:
    """The dataset that one of the study's workloads reads, or None."""
    return workload_class(study.workloads[workload].module or workload).dataset


DATASETS = Path("results/datasets")


def dataset_folder(study: Study, dataset: str) -> Path:
    """Where the prepared dataset lives, relative to the working directory; its source must be decided."""
    return DATASETS / dataset / study.data.sources[dataset]


def build_request(study: Study, run: Run) -> Request:
    """The request of one run; raises StudyError when the study holds no such run."""
    cell = run.cell
    if cell.device not in study.devices or cell.workload not in study.workloads:
        raise StudyError(f"{run.path}: the study has no such device or workload")
    device, workload = study.devices[cell.device], study.workloads[cell.workload]
    chosen = workload_class(workload.module or cell.workload)
    epochs = next(value for value in (workload.epochs, study.train.epochs, chosen.recipe.epochs) if value is not None)
    has_model = issubclass(chosen, TrainingWorkload)
    trains = has_model and workload.mode == "train"
    learn = trains and run.repeat <= study.train.repeats and epochs > 0
    return Request(
        device=cell.device,
        kind=device.kind,
        replicas=device.replicas,
        workload=cell.workload,
        module=workload.module or cell.workload,
        mode=workload.mode if has_model else None,
        backend=cell.backend,
        precision=cell.precision,
        batch_size=cell.batch_size,
        fraction=cell.fraction,
        loop=cell.loop,
        sequence_length=cell.sequence_length,
        repeat=run.repeat,
        seed=study.seed + run.repeat - 1,
        epochs=epochs if learn else 0,
        steps_per_epoch=workload.steps_per_epoch or chosen.recipe.steps_per_epoch,
        validation=workload.validation,
        learn=learn,
        seconds=study.measure.seconds,
        min_steps=study.measure.min_steps,
        timeout=study.measure.timeout,
        profile=trains and study.measure.profile and run.repeat == 1,
        breakdown=trains and study.measure.breakdown and run.repeat == 1,
        dataset=chosen.dataset,
        source=study.data.sources.get(chosen.dataset) if chosen.dataset else None,
        options=workload.options,
        slowdown=workload.slowdown,
    )

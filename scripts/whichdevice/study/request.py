"""The request of a run: everything that was asked of it, made from a study and the run."""

import hashlib
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from whichdevice.base.code_hash import content_key
from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Request
from whichdevice.measure.running import run_code_hash
from whichdevice.study.cells import Run, model_of
from whichdevice.study.config.model import Source, Study
from whichdevice.study.prepare import recipe_key
from whichdevice.study.records.store import OWN, RECORD


def dataset_of(study: Study, workload: str) -> str | None:
    """The dataset that one of the study's workloads reads, or None."""
    return model_of(study, workload).dataset


DATASETS = Path("results/datasets")


def dataset_folder(study: Study, dataset: str) -> Path:
    """The folder of the prepared dataset, relative to the working directory; its source must be decided.

    It is named by the source and the recipe: data made by other code or from other archives are another folder.
    """
    source = study.data.sources[dataset]
    return DATASETS / dataset / f"{source}-{_recipe(dataset, source)}"


def run_key(study: Study, run: Run) -> str:
    """12 hexadecimal digits of all that can change a run's numbers: its request, its code and its dataset's recipe.

    A pure function of config and code: files of this machine do not count, nor does the time that a run is allowed.
    """
    request = build_request(study, run)
    code = run_code_hash(model_of(study, run.cell.workload), request.backend)
    recipe = None if request.dataset is None or request.source is None else _recipe(request.dataset, request.source)
    return content_key(request.model_dump(mode="json", exclude={"timeout"}), code, recipe)


def planned_record(study: Study, run: Run) -> str:
    """Return where the run's record is or will be, relative to the working directory."""
    return f"{study.root}/{OWN}/{run.path}/{run_key(study, run)}/{RECORD}"


@cache
def _recipe(dataset: str, source: Source) -> str:
    return recipe_key(dataset, source)


def build_request(study: Study, run: Run) -> Request:
    """The request of one run; raises StudyError when the study holds no such run."""
    cell = run.cell
    if cell.device not in study.devices or cell.workload not in study.workloads:
        raise StudyError(f"{run.path}: the study has no such device or workload")
    device, workload = study.devices[cell.device], study.workloads[cell.workload]
    model = model_of(study, cell.workload)
    epochs = epochs_of(study, cell.workload)
    trains = model.has_model and workload.mode == "train"
    learn = trains and run.repeat <= study.train.repeats and epochs > 0
    return Request(
        device=cell.device,
        kind=device.kind,
        replicas=device.replicas,
        workload=cell.workload,
        module=model.text,
        mode=workload.mode if model.has_model else None,
        backend=cell.backend,
        precision=cell.precision,
        batch_size=cell.batch_size,
        fraction=cell.fraction,
        sequence_length=cell.sequence_length,
        repeat=run.repeat,
        seed=study.seed + run.repeat - 1,
        epochs=epochs if learn else 0,
        steps_per_epoch=workload.steps_per_epoch or model.recipe.steps_per_epoch,
        validation=workload.validation,
        learn=learn,
        learn_seconds=study.train.seconds if learn else None,
        seconds=study.measure.seconds,
        min_steps=study.measure.min_steps,
        timeout=study.measure.timeout,
        dataset=model.dataset,
        source=study.data.sources.get(model.dataset) if model.dataset else None,
        options=workload.options,
    )


def epochs_of(study: Study, workload: str) -> int:
    """The epochs that a workload learns: its own in the config, else the study's, else the recipe's."""
    settings = study.workloads[workload].epochs, study.train.epochs, model_of(study, workload).recipe.epochs
    return next(epochs for epochs in settings if epochs is not None)


def measuring_order(study: Study, runs: Iterable[Run]) -> list[Run]:
    """Randomised blocks: all first repeats, then all second ones, in each the shortest runs first, else at random.

    So drift hits all cells, and a study has numbers of every cell early. Runs differ in how long they may learn; those
    that do not differ are in an order that follows from the study's seed and from their names: the same at every call,
    and a cell more leaves the others' order as it was.
    """

    def place(run: Run) -> tuple[int, float, bytes]:
        request = build_request(study, run)
        learning = (request.learn_seconds or float("inf")) if request.learn else 0.0
        return run.repeat, learning, hashlib.sha256(f"{study.seed} {run.path}".encode()).digest()

    return sorted(runs, key=place)

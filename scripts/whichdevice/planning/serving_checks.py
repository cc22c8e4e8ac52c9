"""What a config may ask of serving that this version or this environment cannot do."""

from importlib.util import find_spec

from whichdevice.config.model import Study
from whichdevice.errors import StudyError
from whichdevice.measuring.request import model_of
from whichdevice.workloads import is_file_module, workload_class, workload_names
from whichdevice.workloads.base import ServedWorkload, TrainingWorkload

SERVING = "serving"  # stands for the backend of runs that serve
NEEDED = ("uvicorn", "starlette", "httptools")


def missing_serving(study: Study) -> dict[tuple[str, str], str]:
    """For each kind of device whose runs would serve here but for missing packages: what to do."""
    if not any(workload.model for workload in study.workloads.values()) or all(map(find_spec, NEEDED)):
        return {}
    how = "serving is not installed in this environment: sh envs/extra.sh serve"
    return {(device.kind, SERVING): how for device in study.devices.values()}


def check_serving(study: Study) -> None:
    """Raise StudyError where a workload serves no model, none that can be served, or not by TensorFlow."""
    for name, workload in study.workloads.items():
        serves = issubclass(workload_class(workload.module or name), ServedWorkload)
        place = f"config: workloads.{name}"
        if serves != (workload.model is not None):
            raise StudyError(
                f"{place}.model: module serve needs one, e.g. {{module: serve, model: mnist_cnn}}; other modules none"
            )
        if not serves:
            continue
        module = model_of(study, name)
        if not (is_file_module(module) or module in workload_names()):
            known = [other for other, chosen in study.workloads.items() if chosen.model is None]
            raise StudyError(f"{place}.model: no {module}; this study has {', '.join(known)}")
        if not issubclass(workload_class(module), TrainingWorkload):
            raise StudyError(f"{place}.model: {module} is a single operation and has no model")
        if workload.backend != ["tensorflow"] or workload.loop != ["epoch"]:
            raise StudyError(f"{place}: a SavedModel is served by TensorFlow alone: leave out backend and loop")

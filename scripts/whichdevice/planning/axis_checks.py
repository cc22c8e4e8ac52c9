"""Axes that mean nothing to a workload: their cells would be one program under several names."""

from whichdevice.config.model import Study, Workload
from whichdevice.errors import StudyError
from whichdevice.workloads import read_address, workload_class
from whichdevice.workloads.base import TrainingWorkload
from whichdevice.workloads.base import Workload as WorkloadClass
from whichdevice.workloads.model_file import ModelFile
from whichdevice.workloads.shapes import leaves


def check_axes(study: Study) -> None:
    """Raise StudyError where a workload varies what its module does not read."""
    for name, workload in study.workloads.items():
        module = workload.module or name
        for axis, reason in _meaningless(workload, module, workload_class(module)):
            raise StudyError(f"config: workloads.{name}.{axis}: {reason}; leave it out")


def _meaningless(workload: Workload, module: str, chosen: type[WorkloadClass]) -> list[tuple[str, str]]:
    """Each axis that is set and not read, with the reason."""
    has_model, predicts = issubclass(chosen, TrainingWorkload), workload.mode == "predict"
    what = f"{module} is a single operation and"
    loops = chosen.loops if issubclass(chosen, TrainingWorkload) else workload.loop
    learns_not = "mode predict learns nothing"
    return [
        (axis, reason)
        for axis, asked, reason in (
            ("mode", predicts and not has_model, f"{what} predicts nothing"),
            ("fraction", not has_model and workload.fraction != [1.0], f"{what} reads no training data"),
            ("loop", not has_model and workload.loop != ["epoch"], f"{what} has one loop alone"),
            (
                "loop",
                "loop" in workload.model_fields_set and not {*workload.loop} <= {*loops},
                f"the model of {module} has a train_step of its own, which only `fit` runs",
            ),
            (
                "sequence_length",
                workload.sequence_length is not None and not _has_sequences(module, chosen),
                f"{module} has no sequences",
            ),
            (
                "options",
                bool(workload.options) and not _may_read_options(module, chosen),
                f"{module} reads none",
            ),
            ("fraction", predicts and workload.fraction != [1.0], "mode predict reads no training data"),
            ("export", predicts and workload.export, learns_not),
            ("target", predicts and workload.target is not None, learns_not),
            ("epochs", predicts and workload.epochs is not None, learns_not),
            ("steps_per_epoch", predicts and workload.steps_per_epoch is not None, learns_not),
            ("validation", predicts and not workload.validation, learns_not),
        )
        if asked
    ]


def _may_read_options(module: str, chosen: type[WorkloadClass]) -> bool:
    """A model file says itself, when it runs, which it never read."""
    return read_address(module).kind == "file" or issubclass(chosen, ModelFile)


def _has_sequences(module: str, chosen: type[WorkloadClass]) -> bool:
    """Whether the workload may read a sequence length; of a person's own file, whether the file speaks of one."""
    if chosen.recipe.sequence_length is not None:
        return True
    if issubclass(chosen, ModelFile):
        stated = [array for tree in (chosen.declared.input, chosen.declared.target) for array in leaves(tree)]
        if any(None in array.shape for array in stated):
            return True
    files = [path for path in read_address(module).files() if path.suffix == ".py"]
    return any("sequence_length" in path.read_text(encoding="utf-8", errors="replace") for path in files)

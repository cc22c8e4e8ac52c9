"""An export in its own process: `python -m whichdevice.study.exporting.process JOB.json`.

It loads the weights that any backend saved into the same model on TensorFlow, writes the three forms, and compares what
the SavedModel predicts, read back, with what the run recorded. Nothing is unpickled.
"""

import shutil
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import BaseModel

from whichdevice.base.errors import StudyError
from whichdevice.base.events import Emitter, reason_line
from whichdevice.base.processes import quick_imports, supervised_job
from whichdevice.forecast.products import KERAS, SAVED_MODEL, WEIGHTS, ExportCheck
from whichdevice.measure.record import Request
from whichdevice.models.datasets.store import load_dataset
from whichdevice.models.loading import Model
from whichdevice.models.shapes import leaves
from whichdevice.models.workloads.base import TrainingWorkload

EXAMPLES_AT_ONCE = 500
TOLERANCE = {"float32": 1e-4}  # of the largest prediction: backends sum in another order
SHORT_TOLERANCE = 5e-2  # where products are shorter than float32


class Job(BaseModel):
    """The job of an export; its paths are of this machine and are in no record."""

    request: Request  # of the run whose model it is
    weights: Path
    examples: Path | None  # what the run predicted
    dataset: Path | None
    folder: Path  # of the export


def run_process() -> None:
    """Export on Keras with TensorFlow, as the job file of the first argument says."""
    asked, stream = supervised_job()
    emit = Emitter(stream)
    try:
        with quick_imports():
            import keras  # noqa: F401
            import tensorflow  # noqa: F401
        emit.part("check", export(Job.model_validate(asked)))
    except Exception as error:
        traceback.print_exc()
        emit.end("failed", str(error) if isinstance(error, StudyError) else reason_line(error))
    else:
        emit.end("ok")
    sys.exit(0)


def export(job: Job) -> ExportCheck:
    """Write weights, .keras file and SavedModel into the job's folder, and compare the SavedModel with the run."""
    import keras
    import tensorflow as tf

    workload = Model.read(job.request.module).asked(job.request)
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{job.request.workload}: a single operation has no model to export")
    validation = workload.splits({} if job.dataset is None else load_dataset(job.dataset).arrays)[1]
    keras.config.set_dtype_policy("float32" if job.request.precision == "tf32" else job.request.precision)
    model = workload.model()
    model.load_weights(job.weights)
    shutil.copyfile(job.weights, job.folder / WEIGHTS)
    model.save(job.folder / KERAS)
    model.export(str(job.folder / SAVED_MODEL), verbose=False)
    if job.examples is None:
        return ExportCheck(examples=0, largest=0.0, tolerance=0.0)
    with np.load(job.examples, allow_pickle=False) as kept:
        index, recorded = kept["index"], kept["predictions"]
    served = tf.saved_model.load(str(job.folder / SAVED_MODEL))
    parts = [index[start : start + EXAMPLES_AT_ONCE] for start in range(0, len(index), EXAMPLES_AT_ONCE)]
    predicted = np.concatenate([_one_array(served.serve(workload.batch(validation.arrays, part)[0])) for part in parts])
    largest, difference = float(np.abs(recorded).max()), float(np.abs(predicted - recorded).max())
    tolerance = TOLERANCE.get(job.request.precision, SHORT_TOLERANCE) * max(largest, 1e-6)
    return ExportCheck(examples=len(index), largest=largest, tolerance=tolerance, saved_model=difference)


def _one_array(prediction: Any) -> np.ndarray:
    """Predictions in float32; several outputs are flattened and joined, as a run records them."""
    arrays = [np.asarray(leaf, np.float32) for leaf in leaves(prediction)]
    return arrays[0] if len(arrays) == 1 else np.concatenate([leaf.reshape(len(leaf), -1) for leaf in arrays], axis=1)


if __name__ == "__main__":
    run_process()

"""The process that writes an export: `python -m whichdevice.exporting.write JOB.json`.

The weights that any backend saved are loaded into the same model on TensorFlow, which then writes all three forms.
"""

import shutil
from pathlib import Path

from whichdevice.exporting.process import run_process
from whichdevice.exporting.saved_model import write_saved_model
from whichdevice.exporting.trained import Job, set_precision, trained_workload
from whichdevice.measuring.events import Emitter
from whichdevice.records.exported import KERAS, SAVED_MODEL, WEIGHTS


def write(job: Job, emit: Emitter) -> None:
    """Write weights, .keras file and SavedModel into the job's folder, and send the signature."""
    trained = trained_workload(job)
    set_precision(job.request.precision)
    model = trained.workload.model()
    model.load_weights(job.weights)
    shutil.copyfile(job.weights, job.folder / WEIGHTS)
    model.save(job.folder / KERAS)
    signature = write_saved_model(trained.workload, model, Path(job.folder / SAVED_MODEL))
    emit.part("signature", {"input": signature.input.model_dump(), "output": signature.output.model_dump()})


if __name__ == "__main__":
    run_process(write)

"""Run one part of an export in its own process: `python -m whichdevice.exporting.process JOB.json`.

Part `write` loads the weights that any backend saved into the same model on TensorFlow and writes all three forms. The
SavedModel takes raw input: what `prepare` of the workload does to it, normalisation above all, is in the saved graph.
Part `check` reads them afresh: it compares the weights bit by bit, and what .keras file and SavedModel predict with
what the run recorded. Nothing is unpickled: Keras loads in its safe mode.
"""

import os
import shutil
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from pydantic import BaseModel

from whichdevice.datasets.store import load_dataset
from whichdevice.errors import StudyError
from whichdevice.measuring.events import Emitter, reason_line
from whichdevice.models.loading import Model
from whichdevice.processes import end_with_supervisor, quick_imports
from whichdevice.records.products import KERAS, SAVED_MODEL, WEIGHTS, ExportCheck, TensorSpecification
from whichdevice.records.schema import Request
from whichdevice.workloads.base import Options, Split, TrainingWorkload

SIGNATURE = "serving_default"
OUTPUT = "predictions"
PREDICTED_AT_ONCE = 500  # examples predicted at once
TOLERANCE = 1e-4  # of the largest prediction, in float32: backends sum in another order
SHORT_TOLERANCE = 5e-2  # where products are shorter than float32


class Signature(NamedTuple):
    """What goes into a served model and what comes out."""

    input: TensorSpecification
    output: TensorSpecification


def write_saved_model(workload: TrainingWorkload, model: Any, folder: Path) -> Signature:
    """Write `model` with the workload's raw input; the batch may have any size. Needs Keras on TensorFlow.

    Raises StudyError where the model has several inputs or outputs.
    """
    import tensorflow as tf
    from keras.export import ExportArchive

    if len(model.inputs) != 1 or len(model.outputs) != 1:
        raise StudyError(
            f"a SavedModel is made of models with one input and one output; this one has {len(model.inputs)} and "
            f"{len(model.outputs)}"
        )
    raw = workload.raw_input(model)

    def predict(inputs: Any) -> dict[str, Any]:
        return {OUTPUT: tf.cast(model(workload.prepare(inputs), training=False), tf.float32)}

    archive = ExportArchive()
    archive.track(model)
    archive.add_endpoint("serve", predict, input_signature=[tf.TensorSpec([None, *raw.shape], raw.dtype, raw.name)])
    archive.write_out(str(folder), verbose=False)
    output = TensorSpecification(name=OUTPUT, dtype="float32", shape=[None, *model.outputs[0].shape[1:]])
    return Signature(TensorSpecification(name=raw.name, dtype=raw.dtype, shape=[None, *raw.shape]), output)


class ServedModel:
    """A loaded SavedModel."""

    def __init__(self, folder: Path) -> None:
        import tensorflow as tf

        self._tf = tf
        try:
            self._loaded = tf.saved_model.load(str(folder))  # kept: it owns the variables
        except (OSError, tf.errors.OpError, ValueError) as error:
            raise StudyError(f"cannot load the SavedModel {folder}: {_first_line(error)}; export it again") from error
        if SIGNATURE not in self._loaded.signatures:
            raise StudyError(f"the SavedModel {folder} has no signature {SIGNATURE}; export it again")
        self._call = self._loaded.signatures[SIGNATURE]
        inputs = list(self._call.structured_input_signature[1].values())
        outputs = self._call.structured_outputs
        if len(inputs) != 1 or len(outputs) != 1:
            raise StudyError(f"the SavedModel {folder} has {len(inputs)} inputs and {len(outputs)} outputs, not one")
        [(self._output, output)] = outputs.items()
        self.input = _specification(inputs[0].name, inputs[0])
        self.output = _specification(self._output, output)

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """Predictions [batch, ...] of raw inputs [batch, ...] of the signature's type; waits for the device."""
        return self._call(**{self.input.name: self._tf.constant(inputs)})[self._output].numpy()


def _specification(name: str, tensor: Any) -> TensorSpecification:
    return TensorSpecification(name=name, dtype=tensor.dtype.name, shape=tensor.shape.as_list())


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)


class Job(BaseModel):
    """What one part of an export needs; its paths are of this machine and stay out of every record."""

    part: Literal["write", "check"] = "write"
    request: Request  # of the run whose model it is
    weights: Path
    examples: Path | None  # what the run predicted
    dataset: Path | None
    folder: Path  # of the export


class Trained(NamedTuple):
    """A workload with its validation data."""

    workload: TrainingWorkload
    validation: Split


@dataclass(frozen=True)
class Examples:
    """Validation examples int32 [n], and what the run predicted for them, float32 [n, ...]."""

    index: np.ndarray
    predictions: np.ndarray


def trained_workload(job: Job) -> Trained:
    """The workload with the options of its run; its splits are made, for scaling may be read off them.

    Without a dataset they are generated or the model file's own, the same as in the run.
    """
    asked = job.request
    workload = Model.read(asked.module).workload(
        Options(asked.batch_size, asked.precision, asked.fraction, asked.sequence_length, given=asked.options)
    )
    if not isinstance(workload, TrainingWorkload):
        raise StudyError(f"{asked.workload}: a single operation has no model to export")
    arrays = {} if job.dataset is None else load_dataset(job.dataset).arrays
    return Trained(workload, workload.splits(arrays)[1])


def set_precision(precision: str) -> None:
    """Keras builds in the number format of the run."""
    import keras

    keras.config.set_dtype_policy("float32" if precision == "tf32" else precision)


def recorded_examples(path: Path | None) -> Examples | None:
    """The run's own predictions, or None where it kept none."""
    if path is None:
        return None
    with np.load(path, allow_pickle=False) as arrays:
        return Examples(arrays["index"], arrays["predictions"])


def raw_inputs(trained: Trained, index: np.ndarray) -> Any:
    """Raw inputs of validation examples, one part after the other."""
    workload, validation = trained
    for start in range(0, len(index), PREDICTED_AT_ONCE):
        yield np.asarray(workload.raw_batch(validation.arrays, index[start : start + PREDICTED_AT_ONCE]))


def run_process() -> None:
    """Do one part of an export on Keras with TensorFlow, as the job file of the first argument says; then exit."""
    emit = Emitter(os.fdopen(int(os.environ["WHICHDEVICE_EVENTS"]), "w", encoding="utf-8"))
    end_with_supervisor()
    try:
        job = Job.model_validate_json(Path(sys.argv[1]).read_bytes())
        with quick_imports():
            import keras  # noqa: F401
            import tensorflow  # noqa: F401
        {"write": write, "check": check}[job.part](job, emit)
    except StudyError as error:
        emit.end("failed", str(error))
    except Exception as error:
        traceback.print_exc()
        emit.end("failed", reason_line(error))
    else:
        emit.end("ok")
    sys.exit(0)


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


def check(job: Job, emit: Emitter) -> None:
    """Send what was found, as an ExportCheck."""
    import keras

    trained = trained_workload(job)
    set_precision(job.request.precision)
    built = trained.workload.model()
    built.load_weights(job.folder / WEIGHTS)
    own = trained.workload.own_objects()
    loaded = keras.saving.load_model(job.folder / KERAS, own, compile=False, safe_mode=True)
    equal = _equal(loaded.get_weights(), built.get_weights())
    served = ServedModel(job.folder / SAVED_MODEL)
    examples = recorded_examples(job.examples)
    if examples is None:
        emit.part("check", ExportCheck(examples=0, largest=0.0, tolerance=0.0, weights_equal=equal))
        return
    largest = float(np.abs(examples.predictions).max())
    share = TOLERANCE if job.request.precision == "float32" else SHORT_TOLERANCE

    def by_keras(raw: np.ndarray) -> np.ndarray:
        return keras.ops.convert_to_numpy(loaded(trained.workload.prepare(raw), training=False))

    of_keras = _predicted(by_keras, trained, examples)
    of_served = _predicted(served.predict, trained, examples)
    found = ExportCheck(
        examples=len(examples.index),
        largest=largest,
        tolerance=share * max(largest, 1e-6),
        weights_equal=equal,
        keras=_largest_difference(of_keras, examples),
        saved_model=_largest_difference(of_served, examples),
        same_class=_same_class(of_served, examples) if trained.workload.metric == "accuracy" else None,
    )
    emit.part("check", found)


def _equal(weights: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return len(weights) == len(others) and all(map(np.array_equal, weights, others))


def _predicted(predict: Callable[[np.ndarray], Any], trained: Trained, examples: Examples) -> np.ndarray:
    parts = [np.asarray(predict(raw), np.float32) for raw in raw_inputs(trained, examples.index)]
    return np.concatenate(parts)


def _largest_difference(predictions: np.ndarray, examples: Examples) -> float:
    return float(np.abs(predictions - examples.predictions).max())


def _same_class(predictions: np.ndarray, examples: Examples) -> int:
    """How many examples have the same most probable class; of sequences, every step's."""
    same = predictions.argmax(axis=-1) == examples.predictions.argmax(axis=-1)
    return int(same.reshape(len(same), -1).all(axis=1).sum())


if __name__ == "__main__":
    run_process()

"""A Keras model as a TensorFlow SavedModel that takes raw input, and back as something that predicts.

What `prepare` of the workload does to raw input, normalisation above all, is a part of the saved graph.
"""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.records.exported import TensorSpecification
from whichdevice.workloads.base import TrainingWorkload

SIGNATURE = "serving_default"
OUTPUT = "predictions"


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

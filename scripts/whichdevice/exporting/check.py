"""The process that reads an export afresh: `python -m whichdevice.exporting.check JOB.json`.

The weights are compared bit by bit; what .keras file and SavedModel predict is compared with what the run recorded.
Nothing is unpickled: Keras loads in its safe mode.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from whichdevice.exporting.process import run_process
from whichdevice.exporting.saved_model import ServedModel
from whichdevice.exporting.trained import (
    Examples,
    Job,
    Trained,
    raw_inputs,
    recorded_examples,
    set_precision,
    trained_workload,
)
from whichdevice.measuring.events import Emitter
from whichdevice.records.exported import KERAS, SAVED_MODEL, WEIGHTS, ExportCheck

TOLERANCE = 1e-4  # of the largest prediction, in float32: backends sum in another order
SHORT_TOLERANCE = 5e-2  # where products are shorter than float32


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
        keras=_difference(of_keras, examples),
        saved_model=_difference(of_served, examples),
        same_class=_same_class(of_served, examples) if trained.workload.metric == "accuracy" else None,
    )
    emit.part("check", found)


def _equal(weights: list[np.ndarray], others: list[np.ndarray]) -> bool:
    return len(weights) == len(others) and all(map(np.array_equal, weights, others))


def _predicted(predict: Callable[[np.ndarray], Any], trained: Trained, examples: Examples) -> np.ndarray:
    parts = [np.asarray(predict(raw), np.float32) for raw in raw_inputs(trained, examples.index)]
    return np.concatenate(parts)


def _difference(predictions: np.ndarray, examples: Examples) -> float:
    return float(np.abs(predictions - examples.predictions).max())


def _same_class(predictions: np.ndarray, examples: Examples) -> int:
    """How many examples have the same most probable class; of sequences, every step's."""
    same = predictions.argmax(axis=-1) == examples.predictions.argmax(axis=-1)
    return int(same.reshape(len(same), -1).all(axis=1).sum())


if __name__ == "__main__":
    run_process(check)

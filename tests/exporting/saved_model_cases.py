"""A SavedModel predicts what the run recorded; backends/test_tensorflow.py runs this file with Keras on TensorFlow."""

import numpy as np
import pytest
from backends.scenario import request_for

from whichdevice.base.errors import StudyError
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options
from whichdevice.study.exporting.export import write_forms

OPTIONS = {"layers": 1, "width": 16, "heads": 2, "vocabulary": 20}
ASKED = request_for("decoder", batch_size=2, sequence_length=8, options=OPTIONS)


@pytest.mark.parametrize("shift", [0.0, 0.5])
def test_the_saved_model_is_compared_with_what_the_run_recorded(tmp_path, shift):
    workload = Model.read("decoder").workload(Options(2, sequence_length=8, given=OPTIONS))
    model, validation = workload.model(), workload.splits({})[1]
    model.save_weights(tmp_path / "w.weights.h5")
    index = np.arange(2, dtype=np.int32)
    predictions = np.asarray(model(workload.batch(validation.arrays, index)[0])) + shift
    np.savez(tmp_path / "examples.npz", index=index, predictions=predictions)
    folder = tmp_path / "out"
    folder.mkdir()
    check = write_forms(ASKED, {}, tmp_path / "w.weights.h5", tmp_path / "examples.npz", folder)
    assert (check.examples, check.saved_model <= check.tolerance) == (2, shift == 0)
    assert {path.name for path in folder.iterdir()} == {"model.weights.h5", "model.keras", "saved_model"}


def test_a_single_operation_has_no_model(tmp_path):
    asked = ASKED.model_copy(update={"workload": "matmul", "module": "matmul"})
    with pytest.raises(StudyError, match="matmul: a single operation has no model to export"):
        write_forms(asked, {}, tmp_path, None, tmp_path)

"""A SavedModel takes raw input and predicts what the model does.

backends/test_tensorflow.py runs this file with Keras on TensorFlow.
"""

import numpy as np
import pytest

from whichdevice.datasets.mnist import draw_digits
from whichdevice.errors import StudyError
from whichdevice.exporting.process import ServedModel, write_saved_model
from whichdevice.models.loading import Model
from whichdevice.workloads.base import Options

IMAGES, PART = 1_000, 250


@pytest.fixture(scope="module")
def keras():
    """Keras on TensorFlow."""
    import keras

    keras.utils.set_random_seed(1)
    return keras


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """Stand-in test images, uint8 [1000, 28, 28]."""
    return draw_digits(1, {"train": 1, "test": IMAGES})["test_images"]


@pytest.fixture(scope="module")
def written(keras, tmp_path_factory):
    """The workload, its model with initial weights, and the SavedModel's folder."""
    workload = Model.read("mnist_cnn").workload(Options(PART))
    model = workload.model()
    folder = tmp_path_factory.mktemp("model") / "1"
    write_saved_model(workload, model, folder)
    return workload, model, folder


@pytest.fixture(scope="module")
def loaded(written) -> ServedModel:
    return ServedModel(written[2])


def test_the_signature_takes_pixels_and_gives_probabilities(loaded):
    assert (loaded.input.dtype, loaded.input.shape) == ("uint8", [None, 28, 28])
    assert (loaded.output.name, loaded.output.shape) == ("predictions", [None, 10])


def test_predictions_equal_those_of_the_keras_model_for_all_test_images(written, loaded, images):
    workload, model, _ = written
    saved, by_keras = [], []
    for start in range(0, IMAGES, PART):
        part = images[start : start + PART]
        saved.append(loaded.predict(part))
        by_keras.append(np.asarray(model(workload.prepare(part), training=False)))
    saved, by_keras = np.concatenate(saved), np.concatenate(by_keras)
    assert saved.shape == (IMAGES, 10)
    assert np.abs(saved - by_keras).max() < 1e-6
    assert (saved.argmax(axis=1) == by_keras.argmax(axis=1)).all()


def test_models_with_several_inputs_are_refused(keras, written, tmp_path):
    left, right = keras.Input((2,)), keras.Input((2,))
    model = keras.Model([left, right], keras.layers.add([left, right]))
    with pytest.raises(StudyError, match="one input and one output; this one has 2 and 1"):
        write_saved_model(written[0], model, tmp_path / "1")


def test_a_garbled_saved_model_is_named(keras, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(StudyError, match=r"cannot load the SavedModel .*; export it again"):
        ServedModel(tmp_path)

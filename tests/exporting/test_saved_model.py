"""A SavedModel predicts what the Keras model does, offline and served, image for image."""

import json
import urllib.request

import numpy as np
import pytest

pytest.importorskip("tensorflow")
pytest.importorskip("uvicorn", reason="sh envs/extra.sh serve installs it")

from whichdevice.datasets.standin.digits import draw_digits
from whichdevice.errors import StudyError
from whichdevice.serving.application import Limits, application
from whichdevice.serving.saved_model import RefusedInputsError, ServedModel, write_saved_model
from whichdevice.serving.server import background_server
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options

pytestmark = pytest.mark.slow

IMAGES, PART = 10_000, 500


@pytest.fixture(scope="module")
def keras():
    """Keras on TensorFlow."""
    import keras

    if keras.backend.backend() != "tensorflow":
        pytest.skip("this process runs Keras on another backend")
    keras.utils.set_random_seed(1)
    return keras


@pytest.fixture(scope="module")
def images() -> np.ndarray:
    """As many stand-in test images as MNIST has, uint8 [10000, 28, 28]."""
    return draw_digits(1, {"train": 1, "test": IMAGES})["test_images"]


@pytest.fixture(scope="module")
def written(keras, tmp_path_factory):
    """The workload, its model with initial weights, and the SavedModel's folder."""
    workload = workload_class("mnist_cnn")(Options(PART))
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


def test_served_predictions_equal_offline_ones_for_all_test_images(written, loaded, images):
    workload, model, _ = written
    served, offline, by_keras = [], [], []
    with background_server(application({"digits": loaded}, Limits())) as port:
        address = f"http://127.0.0.1:{port}/v1/models/digits:predict"
        for start in range(0, IMAGES, PART):
            part = images[start : start + PART]
            body = json.dumps({"instances": part.tolist()}).encode()
            with urllib.request.urlopen(urllib.request.Request(address, body), timeout=120) as answer:
                served.append(np.array(json.load(answer)["predictions"], np.float32))
            offline.append(loaded.predict(part))
            by_keras.append(np.asarray(model(workload.prepare(part), training=False)))
    served, offline, by_keras = (np.concatenate(parts) for parts in (served, offline, by_keras))
    assert served.shape == (IMAGES, 10)
    assert (served == offline).all()  # bit by bit
    assert np.abs(served - by_keras).max() < 1e-6
    assert (served.argmax(axis=1) == by_keras.argmax(axis=1)).all()


def test_models_with_several_inputs_are_refused(keras, written, tmp_path):
    left, right = keras.Input((2,)), keras.Input((2,))
    model = keras.Model([left, right], keras.layers.add([left, right]))
    with pytest.raises(StudyError, match="one input and one output; this one has 2 and 1"):
        write_saved_model(written[0], model, tmp_path / "1")


def test_numbers_that_the_model_refuses_are_the_senders_fault(keras, project_root, tmp_path):
    model = keras.Sequential([keras.Input((3,), dtype="int32"), keras.layers.Embedding(10, 2), keras.layers.Flatten()])
    plain = workload_class(str(project_root / "docs/examples/my_model.py"))(Options(1))
    write_saved_model(plain, model, tmp_path / "1")
    with pytest.raises(RefusedInputsError, match=r"^the model refuses these inputs: .*10"):
        ServedModel(tmp_path / "1").predict(np.array([[1, 2, 10]], np.int32))


def test_a_garbled_saved_model_is_named(keras, tmp_path):
    (tmp_path / "saved_model.pb").write_bytes(b"\xff" * 100)
    with pytest.raises(StudyError, match=r"cannot load the SavedModel .*; export it again"):
        ServedModel(tmp_path)

"""A saved model with layers of its own file is read back by what that file defines."""

import pytest

from whichdevice.models.loading import workload_class
from whichdevice.workloads.base import Options

OWN = """
import keras
from keras import layers

INPUT, TARGET = {"shape": (4,)}, {"shape": (2,)}
LOSS, OPTIMIZER = "mean_squared_error", "sgd"


class Scale(layers.Layer):
    def build(self, shape):
        self.factor = self.add_weight(shape=(shape[-1],), initializer="ones")

    def call(self, inputs):
        return inputs * self.factor


def model(options):
    return keras.Sequential([keras.Input((4,)), Scale(), layers.Dense(2)])
"""


@pytest.mark.slow  # Keras is imported
def test_layers_that_nobody_registered_are_found_in_the_model_file(tmp_path):
    import keras

    (tmp_path / "own.py").write_text(OWN, encoding="utf-8")
    workload = workload_class(str(tmp_path / "own.py"))(Options(8))
    workload.model().save(tmp_path / "m.keras")
    with pytest.raises(TypeError, match="Could not locate class 'Scale'"):
        keras.saving.load_model(tmp_path / "m.keras", compile=False, safe_mode=True)
    found = workload.own_objects()
    assert set(found) == {"Scale", "model"}
    loaded = keras.saving.load_model(tmp_path / "m.keras", found, compile=False, safe_mode=True)
    assert [type(layer).__name__ for layer in loaded.layers] == ["Scale", "Dense"]


def test_a_built_in_workload_names_what_its_own_module_defines():
    assert set(workload_class("mnist_cnn")(Options(8)).own_objects()) >= {"MnistCnn"}

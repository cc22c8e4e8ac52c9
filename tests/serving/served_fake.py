"""A stand-in for a loaded SavedModel: takes bytes [batch, 2, 3], predicts their sum and their first one."""

import threading

import numpy as np

from whichdevice.records.exported import TensorSpecification
from whichdevice.serving.saved_model import RefusedInputsError


class FakeModel:
    """What `whichdevice.serving.saved_model.ServedModel` offers, without TensorFlow."""

    input = TensorSpecification(name="images", dtype="uint8", shape=[None, 2, 3])
    output = TensorSpecification(name="predictions", dtype="float32", shape=[None, 2])

    def __init__(self) -> None:
        self.calls = 0
        self.go_on = threading.Event()
        self.go_on.set()

    def predict(self, inputs: np.ndarray) -> np.ndarray:
        """[sum, first] of each example; waits while `go_on` is not set; a sum of 253 is refused, 255 makes it fail."""
        assert inputs.dtype == np.uint8
        assert inputs.shape[1:] == (2, 3)
        self.calls += 1
        self.go_on.wait(30)
        flat = inputs.reshape(len(inputs), -1).astype(np.float32)
        if (flat.sum(axis=1) == 255).any():
            raise RuntimeError("a secret of the server")
        if (flat.sum(axis=1) == 253).any():
            raise RefusedInputsError("the model refuses these inputs: 253 is too much")
        if (flat.sum(axis=1) == 254).any():
            return np.full((len(inputs), 2), np.nan, np.float32)
        return np.stack([flat.sum(axis=1), flat[:, 0]], axis=1)


EXAMPLE = [[1, 2, 3], [4, 5, 6]]
PREDICTION = [21.0, 1.0]

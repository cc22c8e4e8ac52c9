"""What a trained model predicted, kept beside its record, so that an export can be compared with it."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

FILE = "examples.npz"
MOST_BYTES = 2_000_000  # of predictions; all 10,000 test images take 400,000


class RecordedPredictions:
    """Calls `predict` (validation example numbers to float32 predictions) and keeps the first predictions."""

    def __init__(self, predict: Callable[[Any], np.ndarray]) -> None:
        self._predict = predict
        self._index: list[np.ndarray] = []
        self._predictions: list[np.ndarray] = []
        self._left = MOST_BYTES

    def __call__(self, index: Any) -> np.ndarray:
        """As `predict`."""
        predictions = self._predict(index)
        fit = self._left // max(1, predictions[:1].nbytes)
        if not self._index:
            fit = max(1, fit)  # one in any case
        if kept := min(fit, len(index)):
            self._index.append(np.asarray(index)[:kept])
            self._predictions.append(predictions[:kept])
            self._left -= self._predictions[-1].nbytes
        return predictions

    def write(self, folder: Path, examples: int) -> str:
        """Write `index` int32 [n] and `predictions` float32 [n, ...]; the file's name."""
        if not self._index:
            self(np.arange(min(examples, 32), dtype=np.int32))
        predictions = np.concatenate(self._predictions).astype(np.float32)
        np.savez_compressed(folder / FILE, index=np.concatenate(self._index), predictions=predictions)
        return FILE

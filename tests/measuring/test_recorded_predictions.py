"""What a model predicted after training is kept, up to a size, for an export to be compared with."""

import numpy as np

from whichdevice.measuring import training_run
from whichdevice.measuring.training_run import RecordedPredictions


def predict(index) -> np.ndarray:
    return np.stack([index, index * 2], axis=1).astype(np.float32)


def kept(recorded: RecordedPredictions, folder, examples: int = 1000):
    with np.load(folder / recorded.write(folder, examples)) as arrays:
        return arrays["index"], arrays["predictions"]


def test_what_was_predicted_anyway_is_kept_in_order(tmp_path):
    recorded = RecordedPredictions(predict)
    for start in (0, 5):
        assert recorded(np.arange(start, start + 5)).shape == (5, 2)
    index, predictions = kept(recorded, tmp_path)
    assert index.tolist() == list(range(10))
    assert (predictions == predict(index)).all()


def test_where_nothing_was_predicted_the_first_examples_are(tmp_path):
    index, _ = kept(RecordedPredictions(predict), tmp_path, examples=20)
    assert index.tolist() == list(range(20))


def test_no_more_is_kept_than_fits_but_one_example_always(tmp_path, monkeypatch):
    monkeypatch.setattr(training_run, "MOST_BYTES", 3 * 8 + 1)
    recorded = RecordedPredictions(predict)
    recorded(np.arange(5))
    recorded(np.arange(5, 9))
    assert kept(recorded, tmp_path)[0].tolist() == [0, 1, 2]
    monkeypatch.setattr(training_run, "MOST_BYTES", 1)
    recorded = RecordedPredictions(predict)
    recorded(np.arange(5))
    assert kept(recorded, tmp_path)[0].tolist() == [0]

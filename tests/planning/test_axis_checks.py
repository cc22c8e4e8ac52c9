"""Axes that a model file reads, and one that it does not; those of workloads are rows of wrong_configs.yaml."""

from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError

MODEL = """INPUT = {"shape": (8,), "dtype": "float32"}
TARGET = {"shape": (), "dtype": "int32", "below": 3}
LOSS, OPTIMIZER = "sparse_categorical_crossentropy", "sgd"


def model(options):
    return None
"""


def test_an_axis_that_a_file_does_not_read_is_one_line(plan):
    Path("mine.py").write_text(MODEL, encoding="utf-8")
    with pytest.raises(StudyError, match=r"^config: workloads\.mine\.sequence_length: mine\.py has no .*leave it out$"):
        plan(workloads={"mine": {"module": "mine.py", "batch_size": [64], "sequence_length": 5}})


def test_axes_that_mean_something_pass(plan):
    Path("mine.py").write_text(MODEL.replace("(8,)", "(None, 8)"), encoding="utf-8")
    Path("follows.py").write_text(MODEL + "# of options.sequence_length\n", encoding="utf-8")
    sequences = {"batch_size": [64], "sequence_length": [8, 16]}
    plan(
        workloads={
            "shakespeare_lstm": {**sequences, "fraction": [0.5, 1.0]},
            "decoder": sequences,
            "mine": {"module": "mine.py", **sequences},
            "follows": {"module": "follows.py", **sequences},
            "predicted": {"module": "shakespeare_lstm", "mode": "predict", **sequences},
            "generated": {"module": "decoder", "mode": "generate", "backend": "jax", **sequences},
            "matmul": {"batch_size": [64], "epochs": 3},
        }
    )

"""Axes that a workload does not read are refused: each would be the same program under another name."""

from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError

MODEL = """INPUT = {"shape": (8,), "dtype": "float32"}
TARGET = {"shape": (), "dtype": "int32", "below": 3}
LOSS, OPTIMIZER = "sparse_categorical_crossentropy", "sgd"


def model(options):
    return None
"""
GENERATE = {"mode": "generate", "backend": "jax"}
PREDICT = {"module": "mnist_cnn", "mode": "predict"}


@pytest.mark.parametrize(
    ("name", "asked", "told"),
    [
        ("memory_stream", {"fraction": [0.1, 1.0]}, "fraction: memory_stream is a single operation and reads no"),
        ("matmul", {"sequence_length": 50}, "sequence_length: matmul has no sequences"),
        ("mnist_cnn", {"sequence_length": [50, 100]}, "sequence_length: mnist_cnn has no sequences"),
        ("mnist_cnn", {"options": {"width": 8}}, "options: mnist_cnn reads none"),
        ("matmul", {"mode": "predict"}, "mode: matmul is a single operation and predicts nothing"),
        ("again", {**PREDICT, "fraction": 0.1}, "fraction: mode predict reads no training data"),
        ("again", {**PREDICT, "export": True}, "export: mode predict learns nothing"),
        ("again", {**PREDICT, "epochs": 3}, "epochs: mode predict learns nothing"),
        ("again", {**PREDICT, "steps_per_epoch": 3}, "steps_per_epoch: mode predict learns nothing"),
        ("again", {**PREDICT, "validation": False}, "validation: mode predict learns nothing"),
        ("matmul", {"mode": "generate"}, "mode: matmul is a single operation and generates nothing"),
        ("again", {"module": "resnet50", **GENERATE}, "mode: resnet50 is no model that generates tokens"),
        ("decoder", {**GENERATE, "epochs": 3}, "epochs: mode generate learns nothing"),
        ("mine", {"module": "mine.py", "sequence_length": 5}, "sequence_length: mine.py has no sequences"),
    ],
)
def test_an_axis_that_means_nothing_is_one_line_with_its_place(plan, name, asked, told):
    Path("mine.py").write_text(MODEL, encoding="utf-8")
    with pytest.raises(StudyError) as raised:
        plan(workloads={"mnist_cnn": {"batch_size": [256]}, name: {"batch_size": [64], **asked}})
    assert str(raised.value).startswith(f"config: workloads.{name}.{told}")
    assert str(raised.value).endswith("; leave it out")
    assert "\n" not in str(raised.value)


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
            "generated": {"module": "decoder", **GENERATE, **sequences},
            "matmul": {"batch_size": [64], "epochs": 3},
        }
    )

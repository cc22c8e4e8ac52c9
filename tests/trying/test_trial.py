"""`ask FILE --here`: a few steps on this machine, and what is wrong, in plain lines."""

from pathlib import Path
from typing import Any

import pytest

from whichdevice.__main__ import main
from whichdevice.measure.trying.trial import Tried, findings

NO_MODEL = """
INPUT, TARGET = {"shape": (8,)}, {"shape": (1,)}
LOSS, OPTIMIZER = "sparse_categorical_crossentropy", "sgd"
"""
DENSE = """
import keras
def model(options):
    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(4, "softmax")])
"""
FACTS: dict[str, Any] = {
    "input_shape": [64, 32, 32, 3],
    "target_shape": [64, 10],
    "parameters": 72906,
    "training_examples": 1024,
    "validation_examples": 128,
    "flops_counted": "every product of the traced step",
    "estimated_memory": 9.2e8,
}
MODEL = {
    "kind": "Sequential", "inputs": ["uint8 (32, 32, 3)"], "outputs": ["float32 (10,)"], "forward_flops": 1.7e6,
    "training_flops": 3.5e6,
}  # fmt: skip


def tried(*losses: float | None) -> Tried:
    return Tried("ok", None, {"workload": FACTS, "model": MODEL, "losses": {"of_steps": list(losses)}})


def lines(trial: Tried) -> str:
    return "\n".join(findings("mine.py", "jax", trial, ()))


def test_the_model_its_data_work_and_memory_come_first():
    text = lines(tried(2.0, 1.0))
    assert "Sequential with 72,906 parameters: uint8 (32, 32, 3) to float32 (10,)" in text
    assert "1,024 training and 128 validation examples" in text
    assert "0.0017 GFLOP an example forward, 0.0035 to train on it (every product of the traced step)" in text
    assert "about 0.9 GB on a CPU at batch 64 (estimate)" in text


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        ((2.0, 1.5), "ok: loss 2 to 1.5 in 2 steps"),
        ((2.0, 2.0), "ok, but the loss does not fall"),
        ((-1.0, -1.5), "ok: loss -1 to -1.5 in 2 steps"),
        ((-1.5, -1.499), "ok, but the loss does not fall"),
    ],
)
def test_it_says_whether_the_loss_falls(losses, words):
    assert words in lines(tried(*losses))


def test_a_failure_is_its_reason():
    text = lines(Tried("failed", "mine.py: model() fails on jax: no such layer"))
    assert text.splitlines() == ["mine.py", "  jax         failed: mine.py: model() fails on jax: no such layer"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no_such_file.py"], "workload file no_such_file.py: not found"),
        (["no_model.py"], "no_model.py: it defines no function model(options)"),
        (["wrong_target_type.py"], "targets are float32, but LOSS"),
        (["decoder", "--option", "layers"], "--option layers: needs KEY=VALUE, e.g. layers=2"),
        (["decoder", "--option", "layers=["], "--option layers=[: expected the node content"),
        (["matmul"], "matmul: no training workload; only those are tried"),
        (["./model.txt"], "its name must end in .py"),
    ],
)
def test_a_wrong_question_is_one_line_before_anything_starts(arguments, words, working_folder, capsys):
    Path("model.txt").write_text("def model(options): ...")
    Path("no_model.py").write_text(NO_MODEL)
    Path("wrong_target_type.py").write_text(NO_MODEL + DENSE)
    assert main(["ask", *arguments, "--here"]) == 2
    lines = capsys.readouterr().err.strip().splitlines()
    assert words in lines[-1]
    assert not any("Traceback" in line for line in lines)


@pytest.mark.slow
def test_a_model_is_built_and_trained_for_a_few_steps_here(working_folder, project_root, capsys):
    assert main(["ask", str(project_root / "docs/examples/my_model.py"), "--here", "--backend", "jax"]) == 0
    shown = capsys.readouterr().out
    assert "Sequential with 72,906 parameters: uint8 (32, 32, 3) to float32 (10,)" in shown
    assert "  jax         ok: loss " in shown

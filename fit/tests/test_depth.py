"""Deep models of equal layers: the work of one and of two layers gives that of more."""

import os
import subprocess
import sys

import pytest
from needs import require

require("gpu compiler")

LAYERS = """
from whichdevice.forecast.xla.programs import compile_program
from whichdevice.forecast.xla.hlo_operations import read_work
small = {"width": 64, "heads": 2, "vocabulary": 500, "optimizer": "sgd"}
def work(layers):
    options = small | {"layers": layers}
    model = "fit/compiled/gpt2.py"
    made = compile_program(model, "V100 SXM2", "float32", 2, options=options, sequence_length=64)
    return read_work(made.text, "gpu")
one, two, five = work(1), work(2), work(5)
found = one.deepened(two, 5)
print(found.operations / five.operations, found.bytes / five.bytes, found.kernels / five.kernels)
"""


@pytest.mark.slow
def test_five_layers_are_one_and_four_times_the_difference_to_two():
    path = os.pathsep.join(filter(None, sys.path))
    command = [sys.executable, "-c", LAYERS]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env={**os.environ, "PYTHONPATH": path})
    operations, nbytes, kernels = map(float, done.stdout.splitlines()[-1].split())
    assert operations == pytest.approx(1)
    assert nbytes == pytest.approx(1, rel=0.01)
    assert kernels == pytest.approx(1, rel=0.02)

"""Requests have the shape that the model is used with, numbers that it takes, and no more digits than needed."""

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from whichdevice.errors import StudyError
from whichdevice.measuring.serving_inputs import request_body, request_inputs
from whichdevice.workloads import workload_class
from whichdevice.workloads.base import Options, RawInput

REQUEST = SimpleNamespace(batch_size=4, seed=1)
SIGNALS = RawInput("inputs", "float32", (None, 8))
FILE = """
import numpy as np

LOSS = OPTIMIZER = "mse"
{constants}


def model(options):
    pass
"""
DATA = """

def data(options):
    length = options.sequence_length or 50
    return np.{numbers}, np.zeros(80)
"""


def model_file(folder: Path, constants: str = "", numbers: str = "", length: int | None = None):
    """The workload of a model file with these constants, or with a data function that gives these numbers."""
    path = folder / f"mine_{len(list(folder.iterdir()))}.py"  # a file is imported once
    path.write_text(FILE.format(constants=constants) + (DATA.format(numbers=numbers) if numbers else ""))
    return workload_class(str(path))(Options(4, sequence_length=length))


def stated(shape: str) -> str:
    return f'INPUT = {{"shape": {shape}}}\nTARGET = {{"shape": (1,)}}'


def built_in(length: int | None, recipe: int | None):
    return SimpleNamespace(
        options=Options(4, sequence_length=length), recipe=SimpleNamespace(sequence_length=recipe), dataset="any"
    )


@pytest.mark.parametrize(("asked", "recipe", "length"), [(128, None, 128), (128, 50, 128), (None, 50, 50)])
def test_a_request_is_as_long_as_the_config_says_else_as_the_recipe(asked, recipe, length):
    served = built_in(asked, recipe)
    assert request_inputs(served, SIGNALS, REQUEST).shape == (4, length, 8)


@pytest.mark.parametrize(
    ("shape", "length", "made"),
    [
        ("(None, 8)", 128, (128, 8)),
        ("(128, 8)", None, (128, 8)),
        ("(128, 8)", 128, (128, 8)),
    ],
)
def test_what_the_model_leaves_open_is_as_the_file_says(working_folder, shape, length, made):
    served = model_file(working_folder, stated(shape), length=length)
    assert request_inputs(served, SIGNALS, REQUEST).shape == (4, *made)


def test_open_sides_of_an_image_are_those_of_the_file(working_folder):
    served = model_file(working_folder, stated("(32, 48, 3)"))
    pixels = RawInput("inputs", "float32", (None, None, 3))
    assert request_inputs(served, pixels, REQUEST).shape == (4, 32, 48, 3)


def test_no_request_is_one_step_long_because_nobody_said_how_long(working_folder):
    with pytest.raises(StudyError, match=r"takes inputs of shape \(any, 8\): set sequence_length, or give INPUT"):
        request_inputs(model_file(working_folder, stated("(None, 8)")), SIGNALS, REQUEST)


def test_a_length_that_the_requests_would_not_have_is_refused(working_folder):
    fixed = model_file(working_folder, stated("(128, 8)"), length=64)
    with pytest.raises(StudyError, match=r"sequence_length is 64, but one input has shape \(128, 8\): write None"):
        request_inputs(fixed, SIGNALS, REQUEST)


def test_whole_numbers_stay_below_the_bound_of_the_input():
    raw = RawInput("inputs", "int32", (None,), below=7)
    inputs = request_inputs(built_in(None, 50), raw, REQUEST)
    assert inputs.shape == (4, 50) and inputs.max() == 6


TOKENS = RawInput("inputs", "int32", (None,))


def test_without_a_stated_input_requests_are_the_files_own_examples(working_folder):
    pytest.importorskip("keras")
    own = "tile(np.array([3, 97], np.int64), (80, length // 2))"
    served = model_file(working_folder, numbers=own)
    inputs = request_inputs(served, TOKENS, REQUEST)
    assert (inputs.shape, inputs.dtype) == ((4, 50), np.int32)
    assert set(inputs.ravel()) == {3, 97}
    assert served.example_shape(None) == (50,)  # of which operations are counted
    assert request_inputs(model_file(working_folder, numbers=own, length=20), TOKENS, REQUEST).shape == (4, 20)


def test_examples_of_another_length_or_shape_are_refused(working_folder):
    pytest.importorskip("keras")
    served = model_file(working_folder, numbers="zeros((80, 50), np.int32)", length=128)
    with pytest.raises(StudyError, match=r"sequence_length is 128, .* let data\(options\) follow"):
        request_inputs(served, TOKENS, REQUEST)
    with pytest.raises(StudyError, match=r"data\(\) gives inputs of shape \(128,\), the model takes \(any, 8\)"):
        request_inputs(model_file(working_folder, numbers="zeros((80, length))", length=128), SIGNALS, REQUEST)


def test_a_body_has_four_decimals_and_reads_back_as_what_the_model_is_given():
    inputs = request_inputs(built_in(100, None), SIGNALS, REQUEST)
    body = request_body(inputs)
    assert len(body) < 9 * inputs.size
    assert (np.array(json.loads(body)["instances"], np.float32) == inputs).all()


def test_every_float32_and_every_whole_number_survives_the_body():
    numbers = np.array([[1e-30, 3.4028235e38, -0.1, 1 / 3, 16777217.0, 0.0]], np.float32)
    assert (np.array(json.loads(request_body(numbers))["instances"], np.float32) == numbers).all()
    assert request_body(np.array([[1, 255]], np.uint8)) == '{"instances": [[1, 255]]}'

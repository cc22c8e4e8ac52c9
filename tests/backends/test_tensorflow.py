"""The TensorFlow backend: what Keras does on it is in tensorflow_cases.py, SavedModels are in saved_model_cases.py."""

import pytest
from backends.scenario import request_for, run_cases, variables_for

FILES = ("backends/tensorflow_cases.py", "exporting/saved_model_cases.py")


@pytest.mark.parametrize(
    "which", [pytest.param("not long", marks=pytest.mark.slow), pytest.param("long", marks=pytest.mark.long)]
)
def test_cases_in_a_process_with_keras_on_tensorflow(which: str) -> None:
    run_cases(variables_for(request_for()), which, *FILES)

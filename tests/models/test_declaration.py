"""The constants of a model file are read without running it, and what is wrong with them is said in one line."""

import pytest
from beside import beside

from whichdevice.models.declaration import is_model_file, read_declaration
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options

BESIDE = beside(__file__)

MODEL = "def model(options):\n    return None\n"


def declared(tmp_path, text: str, model: str = MODEL):
    path = tmp_path / "mine.py"
    path.write_text(text + "\n" + model)
    return read_declaration(path)


@pytest.mark.parametrize(
    ("text", "higher"),
    [
        ('METRIC = "accuracy"', True),
        ('METRIC = "mean_absolute_error"', False),
        ('METRIC = "mean_absolute_error"\nHIGHER_IS_BETTER = True', True),
        ("def metric(target, prediction): ...", True),
        ("def metric(target, prediction): ...\nHIGHER_IS_BETTER = False", False),
    ],
)
def test_a_loss_as_metric_is_better_low_unless_the_file_says_otherwise(tmp_path, text, higher):
    (tmp_path / "mine.py").write_text(f"{text}\n{MODEL}")
    assert Model.read(str(tmp_path / "mine.py")).workload(Options(1)).higher_is_better is higher


def test_nothing_of_the_file_runs(tmp_path):
    found = declared(tmp_path, "BATCH_SIZE = 7\nimport sys\nsys.exit('ran')\nraise SystemExit")
    assert found.batch_size == 7


FAULTS = BESIDE["faults"]


@pytest.mark.parametrize("text", FAULTS)
def test_a_wrong_constant_is_named_with_its_line(tmp_path, text):
    assert declared(tmp_path, text).fault == f"{FAULTS[text]} (line 1)"


def test_a_constant_that_is_changed_has_its_last_value(tmp_path):
    assert declared(tmp_path, "BATCH_SIZE = 8\nBATCH_SIZE *= 4").batch_size == 32
    changed = declared(tmp_path, "INPUT = {'shape': (8,)}\nINPUT |= {'dtype': 'uint8'}")
    assert changed.fault == "INPUT must be a plain value: it is read without running the file (line 2)"


def test_a_file_with_a_workload_class_is_no_model_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("from whichdevice.models.workloads.matmul import Matmul\nclass Mine(Matmul):\n    pass\n")
    assert not is_model_file(path)
    path.write_text("import keras\nclass Mine(keras.layers.Layer):\n    pass\n")
    assert is_model_file(path)


def test_a_study_knows_batch_size_and_epochs_without_importing_the_file(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("BATCH_SIZE = 12\nEPOCHS = 3\nMETRIC = 'accuracy'\nUNIT = 'image'\nraise ValueError\n" + MODEL)
    chosen = Model.read(str(path))
    workload = chosen.workload(Options(batch_size=12))
    assert (chosen.recipe.batch_size, chosen.recipe.epochs) == (12, 3)
    assert (workload.metric, chosen.unit) == ("accuracy", "image")
    assert workload.dataset is None


def test_a_changed_file_is_read_again(tmp_path):
    path = tmp_path / "mine.py"
    for size in (8, 16):
        path.write_text(f"BATCH_SIZE = {size}\n" + MODEL + "#" * size)
        assert Model.read(str(path)).recipe.batch_size == size

"""Each built-in workload is the model of its recipe, and a step of it fills a batch."""

from inspect import isabstract
from math import prod

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.models.address import built_in_names
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options, TrainingWorkload

PARAMETERS = {
    "mnist_official": (1_643_370, 1_643_370),
    "mnist_cnn": (412_778, 412_778),
    "fashion_cnn": (1_619_470, 1_619_084),
    "shakespeare_lstm": (4_460_800, 4_460_800),
    "weather_gru": (821_763, 821_763),
}


def workload(name: str, **options) -> TrainingWorkload:
    chosen = Model.read(name)
    return chosen.workload(Options(**{"batch_size": chosen.recipe.batch_size, **options}))


@pytest.mark.parametrize("name", built_in_names())
def test_a_workload_keeps_its_contract(name):
    chosen = Model.read(name)
    assert not isabstract(chosen.kind)
    assert chosen.recipe.source and chosen.recipe.batch_size > 0 and chosen.unit


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameter_counts_are_those_of_the_recipe(name):
    model = workload(name).model()
    trainable = sum(prod(weight.shape) for weight in model.trainable_weights)
    assert (model.count_params(), trainable) == PARAMETERS[name]


def test_a_fraction_that_fills_no_batch_is_an_error_in_one_line():
    with pytest.raises(StudyError, match=r"^batch_size 1024: only 600 training examples \(fraction 0.01\)"):
        workload("mnist_cnn", fraction=0.01).steps_per_epoch(600)


def test_a_number_of_steps_that_was_asked_for_fills_no_batch_either():
    with pytest.raises(StudyError, match=r"^batch_size 1024: only 500 training examples"):
        workload("mnist_cnn", batch_size=1024).steps_per_epoch(500, 20)
    assert workload("mnist_cnn", batch_size=16).steps_per_epoch(500, 20) == 20


def test_windows_that_are_drawn_again_and_again_fill_any_batch():
    assert workload("weather_gru", sequence_length=100, batch_size=1024).steps_per_epoch(500, 20) == 20


def test_the_gru_refuses_a_sequence_within_its_warm_up():
    with pytest.raises(StudyError, match="the loss ignores 50 steps"):
        workload("weather_gru", sequence_length=50)


def test_an_unknown_workload_names_those_that_are_there():
    with pytest.raises(StudyError, match=r"no built-in workload 'mnist'; did you mean mnist_cnn\?"):
        Model.read("mnist")


def test_a_workload_file_of_ones_own_is_found_by_its_path(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        "from whichdevice.models.workloads.base import Recipe\nfrom whichdevice.models.workloads.matmul import Matmul\n"
        "class Mine(Matmul):\n    recipe = Recipe('me', 8)\n"
    )
    assert Model.read(str(path)).recipe.batch_size == 8


def test_a_broken_workload_file_is_one_line(tmp_path):
    path = tmp_path / "broken.py"
    text = "from whichdevice.models.workloads.matmul import Matmul\nclass Mine(Matmul):\n    recipe = nothing\n"
    path.write_text(text)
    with pytest.raises(StudyError, match=r"broken.py: NameError: name 'nothing' is not defined \(line 3\)$"):
        _ = Model.read(str(path)).kind

"""Model files of PyTorch and JAX: which framework a file is of, what their parts may be, and what is refused."""

import sys
from pathlib import Path

import numpy as np
import pytest
from beside import beside
from needs import require

from whichdevice.apps.questions.question import first_backend
from whichdevice.base.errors import StudyError
from whichdevice.measure.training_run import own_formats
from whichdevice.models.loading import Model
from whichdevice.models.workloads.base import Options
from whichdevice.study.cells import with_model_settings
from whichdevice.study.config.load import load_study
from whichdevice.study.planning.checks import check_backends

TEXT = beside(__file__)
needs_torch = pytest.mark.needs("torch")


def file_of(folder: Path, text: str) -> str:
    folder.mkdir(exist_ok=True)
    path = folder / "mine.py"
    path.write_text(text, encoding="utf-8")
    return str(path)


def made(folder: Path, text: str, batch: int = 4):
    return Model.read(file_of(folder, text)).workload(Options(batch))


@pytest.mark.parametrize(("text", "framework"), TEXT["frameworks"])
def test_imports_or_a_constant_say_which_framework_a_file_is_of(tmp_path, text, framework):
    assert Model.read(file_of(tmp_path, f"{text}\ndef model():\n    pass\n")).framework == framework
    assert "mine" not in sys.modules  # nothing of it ran


@pytest.mark.parametrize(
    ("imported", "framework", "backend"),
    [
        pytest.param("transformers", "torch", "torch", marks=needs_torch),
        *[("flax", "jax", "jax"), ("keras", "keras", "tensorflow"), ("keras\nimport jax", "keras", "jax")],
    ],
)
def test_a_file_is_measured_on_its_framework(tmp_path, imported, framework, backend):
    model = Model.read(file_of(tmp_path, f"import {imported}\n\ndef model():\n    pass\n"))
    assert (model.framework, first_backend(model)) == (framework, backend)


@pytest.mark.parametrize(("text", "line"), TEXT["refused before an import"])
def test_what_constants_show_is_refused_before_anything_is_imported(tmp_path, text, line):
    with pytest.raises(StudyError, match=r"mine\.py") as caught:
        made(tmp_path, text).splits({})
    assert line in str(caught.value)


def test_a_config_need_not_name_the_backend_and_may_not_name_another(tmp_path):
    module = file_of(tmp_path, TEXT["torch"])
    study = with_model_settings(load_study({"workloads": {"mine": {"module": module}}}))
    assert study.workloads["mine"].backend == ["torch"]
    wrong = with_model_settings(load_study({"workloads": {"mine": {"module": module, "backend": ["jax"]}}}))
    with pytest.raises(StudyError, match="is a PyTorch model, which jax does not run; take torch"):
        check_backends(wrong)


def test_nested_inputs_are_generated_by_path_and_come_back_nested(tmp_path):
    workload = made(tmp_path, TEXT["pair"])
    train, validation = workload.splits({})
    assert set(train.arrays) == {"inputs/ids", "inputs/kinds", "targets/labels"}
    assert train.examples == 1024 and validation.examples == 128
    inputs = workload.host_inputs(train, np.arange(3))
    assert {name: array.shape for name, array in inputs.items()} == {"ids": (3, 5), "kinds": (3, 5)}


@needs_torch
def test_a_loaders_first_examples_are_enough_to_train_and_to_validate(tmp_path):
    workload = made(tmp_path, TEXT["loader"])
    assert {name: array.shape for name, array in workload.few().items()} == {"inputs": (2, 6), "targets": (2, 1)}
    assert workload.has_pipeline


@needs_torch
def test_a_module_has_parameters_with_statistics_and_a_shape_of_its_output(tmp_path):
    model = made(tmp_path, TEXT["torch"]).model()
    assert model.sizes() == (4 * 3 * 9 + 8 + 50 + 8, 4 * 3 * 9 + 8 + 50)
    assert model.output_shape == [10]


@needs_torch
def test_a_module_with_a_loss_of_its_own_is_given_its_targets_by_name(tmp_path):
    workload = made(tmp_path, TEXT["pair"])
    model = workload.model()
    assert model.sizes() == (7 * 4 + 2 * 4,) * 2  # the shared weights once
    inputs, target = workload.tried_on("cpu")
    output = workload.forward(model.module, inputs, target)
    assert workload.loss(target, output).item() == pytest.approx(output.loss.item())
    assert model.output_shape == [5, 7]


@needs_torch
@pytest.mark.parametrize(("old", "new", "line"), TEXT["mistakes in a file of PyTorch"])
def test_a_mistake_in_a_file_of_pytorch_is_one_line(tmp_path, old, new, line):
    workload = made(tmp_path, TEXT["torch"].replace(old, new))
    with pytest.raises(StudyError) as caught:
        workload.optimizer(workload.model().module)
    assert line in str(caught.value) and "\n" not in str(caught.value)


@needs_torch
@pytest.mark.parametrize(
    ("inputs", "last"),
    [
        ('{"shape": (5,), "dtype": "int32", "below": 9}', True),  # words
        ('{"shape": (5, 3)}', True),  # features of each place of a sequence
        ('{"shape": (3, 5)}', False),  # channels first, as convolutions take them
    ],
)
def test_as_many_classes_as_places_lie_where_the_inputs_have_no_places(inputs, last, tmp_path):
    """Scores [batch, 5, 5] of 5 classes in sequences of 5 were compared along the wrong axis."""
    import torch

    text = f"import torch\nINPUT = {inputs}\nTARGET = {{'shape': (5,), 'dtype': 'int32', 'below': 5}}\n"
    text += "LOSS = 'cross_entropy'\nOPTIMIZER = 'SGD'\ndef model():\n    pass\n"
    workload = made(tmp_path, text)
    scores, target = torch.arange(50.0).reshape(2, 5, 5) ** 0.5, torch.tensor([[0, 1, 2, 3, 4], [4, 4, 2, 1, 0]])
    right = scores.transpose(1, 2) if last else scores
    assert workload.loss(target, scores) == torch.nn.functional.cross_entropy(right, target)


def test_mistakes_in_a_jax_function_are_one_line(tmp_path):
    model = made(tmp_path, TEXT["jax"]).model()
    assert model.output_shape == [3] and model.sizes() == (12, 12)
    with pytest.raises(StudyError, match="the first training step fails: TypeError: "):
        made(tmp_path / "sizes", TEXT["jax"].replace("(4, 3)", "(5, 3)")).model()
    with pytest.raises(StudyError, match="returns a int; a pair"):
        made(tmp_path / "none", TEXT["jax"].replace('return {"kernel"', 'return 3\n    return {"kernel"')).model()


@needs_torch
@pytest.mark.slow
def test_a_pytorch_model_hides_no_layers_of_another_number_format(tmp_path):
    """A run of it failed here: its record was looked through for layers of Keras."""
    model = made(tmp_path, TEXT["torch"], batch=2).model()
    assert own_formats(model, "float32") is None


@pytest.mark.parametrize(
    ("text", "package", "trained", "moving"),  # parameters, and arrays that a step changes
    [("linen", "flax", 6 * 8 + 8 + 16 + 8 + 1, 8), ("equinox", "equinox", 6 + 1 + 2, 5)],
)
def test_a_module_trains_with_its_statistics_and_its_dropout(tmp_path, text, package, trained, moving):
    if package == "equinox":
        require(package)
    import jax

    from whichdevice.measure.backends.jax_function import State
    from whichdevice.models.steps.jax_function import function_step

    workload = made(tmp_path, TEXT[text])
    train, _ = workload.splits({})
    model = workload.model()
    first, optimizer = State(model.trained, model.held, None), workload.optimizer()
    first = first._replace(optimizer=optimizer.init(model.trained))
    state, _ = jax.jit(function_step(workload, model, optimizer))(first, *workload.batch(train.arrays, np.arange(4)))
    moved = [(one != two).any() for one, two in zip(*map(jax.tree.leaves, (first, state)), strict=True)]
    assert sum(moved) >= moving and model.sizes()[1] == trained  # no gradient of a bias before a norm
    after = *state[:2], train.arrays["inputs"][:4]
    outputs = [model.apply(*after, mode)[0] for mode in (True, False)]
    assert outputs[0].shape == (4, 1) and (outputs[0] != outputs[1]).any()


def test_two_functions_are_no_model_of_jax(tmp_path):
    text = TEXT["linen"].replace("return Net()", "return (lambda key, shape: None), (lambda parameters, x: x)")
    with pytest.raises(StudyError, match=r"returns two functions; return \(parameters, apply\)"):
        made(tmp_path, text).model()

"""Ordinary training scripts: stopped where they start to train, taken as they are, or refused in one line."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from whichdevice.errors import StudyError
from whichdevice.models import scripts
from whichdevice.models.address import read_address
from whichdevice.models.loading import workload_class
from whichdevice.models.script_run import Found
from whichdevice.models.scripts import is_script, known, probe
from whichdevice.workloads.base import Options

SCRIPTS = Path(__file__).parents[1] / "scripts"
FOUND = {
    "keras_fit.py": Found("keras", 128, 540, 5),
    "keras_dataset.py": Found("keras", 32, 320, 3, precision="mixed"),
    "keras_words.py": Found("keras", 10, 200, 2),
    "jax_loop.py": Found("jax", 50, 500, 6),
    "jax_nnx.py": Found("jax", 32, 256, 4),
    "torch_loop.py": Found("torch", 64, 512, 5),
    "torch_gan.py": Found("torch", 50, 1000, 7, precision="float32"),
    "torch_hub.py -- --num_train_epochs 4 --batch 8": Found("torch", 8, 256, 4, precision="mixed", compiled=True),
}
JAX_LOSS = "import jax\nloss = lambda w, x: (w * x).sum()\nx = jax.numpy.ones((4, 3))\n"
REFUSED = {
    "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])\nmodel.fit([[1.0]], [1.0])": "not compiled",
    "import keras\nclass Own(keras.Sequential):\n    def train_step(self, data):\n        pass\n"
    "model = Own([keras.layers.Dense(1)])\nmodel.compile()\nmodel.fit([[1.0]])": "line 7: .* write compute_loss",
    "import keras\nif False:\n    keras.Model().fit()": "nothing called fit: give its arguments after --, or name",
    "import keras\nkeras.optimizers.Adam(lr=1)\nx.fit()": r"not recognized: .*\(line 2\); Keras 3: learning_rate=$",
    "import keras\nkeras.Sequential().fit_generator()": r"\(line 2\); Keras 3: fit\(",
    "from keras.layers.core import Dense\nx.fit()": r"\(line 1\); Keras 3: import from keras.layers",
    "import torch\ntorch.zeros(1).step()": "AttributeError",
    "import torch\nif False:\n    x.step()": "no optimiser stepped: give its arguments after --",
    "import sys, torch\nif len(sys.argv) < 2:\n    raise SystemExit(2)\nx.step()": "exit code 2",
    "import jax\nif False:\n    jax.grad(abs)": "no function under jax.jit",
    JAX_LOSS
    + "jax.grad(loss)(x, x)": "line 4: the gradient is taken outside of jax.jit: put the step into one function",
    JAX_LOSS
    + "jax.jit(lambda w: jax.lax.scan(lambda w, x: (jax.grad(loss)(w, x), x), w, x))(x[0])": "inside of jax.lax.scan",
    JAX_LOSS + "jax.jit(lambda w, x: jax.grad(loss)(w, x).sum())(x, x)": "line 4: the jitted step returns neither new",
}


@pytest.fixture(autouse=True, scope="module")
def in_one_folder(tmp_path_factory):
    """Each script is run once: later tests know what it showed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scripts"))
        patch.setenv("KERAS_BACKEND", "tensorflow")
        yield


def address_of(name: str):
    if name.startswith("torch"):
        pytest.importorskip("torch")
    return read_address(f"{SCRIPTS}/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_script_shows_its_training(name):
    address = address_of(name)
    found = probe(address)
    assert found == known(address)
    assert replace(found, line=None, pipeline=(), notes=()) == FOUND[name]
    streams = name in ("keras_dataset.py", "keras_words.py", "torch_loop.py")
    assert bool(found.pipeline) == streams and all(rate.examples_per_second > 100 for rate in found.pipeline)
    line = address.path.read_text().splitlines()[found.line - 1]
    assert any(call in line for call in ("fit(", ".step(", "update(", "train_step("))


@pytest.mark.slow
def test_words_are_looked_up_on_the_host_and_lengths_are_the_mean(monkeypatch):
    """Other processes read what was kept of the script, in their own number format, and do not run it."""
    keras = pytest.importorskip("keras")
    address = address_of("keras_words.py")
    found = known(address) or probe(address)
    assert found.notes == (
        "StringLookup: on the host, with the input pipeline.", "Lengths vary from 3 to 9; steps are of the mean, 6."
    )  # fmt: skip
    monkeypatch.setattr(scripts, "start", lambda *_: pytest.fail("the script runs again"))
    keras.config.set_dtype_policy("mixed_bfloat16")
    try:
        workload = workload_class(address.text)(Options(batch_size=10))
        train, _ = workload.splits({})
        model = workload.model()
    finally:
        keras.config.set_dtype_policy("float32")
    assert {each.shape[1:] for each in train.arrays.values()} == {(6,), (4,), ()}
    assert model.layers[-1].dtype_policy.name == "mixed_bfloat16" and model.optimizer.learning_rate == 0.01


@pytest.mark.slow
def test_a_script_that_trains_on_tensorflow_alone_is_refused_with_its_line():
    with pytest.raises(StudyError, match=r"keras_tape.py, line 8: a loop with tf.GradientTape .* call fit"):
        probe(address_of("keras_tape.py"))


@pytest.mark.slow
@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_train_is_refused_in_one_line(text, tmp_path):
    if "torch" in text:
        pytest.importorskip("torch")
    path = tmp_path / "train.py"
    path.write_text(text)
    assert is_script(path)
    with pytest.raises(StudyError, match=REFUSED[text]) as refused:
        probe(read_address(str(path)))
    assert str(refused.value).startswith("train.py") and "\n" not in str(refused.value)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["torch_loop.py", "torch_gan.py"])
def test_a_pytorch_script_is_a_workload_whose_loss_is_the_scripts_own(name):
    torch = pytest.importorskip("torch")
    address = address_of(name)
    found = known(address) or probe(address)
    workload = workload_class(address.text)(Options(batch_size=found.batch_size))
    train, _ = workload.splits({})
    model = workload.model()
    inputs, target = workload.batch(
        {key: torch.from_numpy(each) for key, each in train.arrays.items()}, slice(found.batch_size)
    )
    before = float(workload.loss(target, workload.forward(model.module, inputs, target)))
    optimizer = workload.optimizer(model.module)
    workload.loss(target, workload.forward(model.module, inputs, target)).backward()
    optimizer.step()
    assert float(workload.loss(target, workload.forward(model.module, inputs, target))) < before
    assert optimizer.defaults["weight_decay"] == (0.1 if name == "torch_loop.py" else 0)


@pytest.mark.slow
def test_an_edited_script_or_other_arguments_are_looked_at_anew(tmp_path):
    path = tmp_path / "train.py"
    path.write_text((SCRIPTS / "keras_fit.py").read_text())
    assert known(read_address(str(path))) is None
    probe(read_address(str(path)))
    assert known(read_address(f"{path} -- --fast")) is None
    path.write_text(path.read_text().replace("epochs=5", "epochs=6"))
    assert known(read_address(str(path))) is None
    with pytest.raises(StudyError, match="was not looked at yet: whichdevice ask"):
        workload_class(str(path))(Options(batch_size=32)).splits({})


def test_a_few_examples_of_a_long_stream_are_read():
    """All of a short one: its last batch may be smaller, so that its examples are not known exactly."""
    assert Found("keras", 32, 320).declaration().examples is None
    assert Found("keras", 64, 20032).declaration().examples == Found("keras", 64).declaration().examples == 1024
    assert Found("keras", 4096, 10**6).declaration().examples == 8192


def test_a_model_file_is_no_script(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def model(options):\n    return options.fit()\n")
    assert not is_script(path)
    assert all(map(is_script, SCRIPTS.glob("*.py")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax_loop.py", "jax_nnx.py"])
def test_a_jitted_step_is_a_workload_that_trains_as_the_script_does(name):
    import jax

    from whichdevice.backends.jax_function import State, function_step

    address = address_of(name)
    found = known(address) or probe(address)
    workload = workload_class(address.text)(Options(batch_size=found.batch_size))
    train, _ = workload.splits({})
    model = workload.model()
    step = jax.jit(function_step(workload, model, workload.optimizer()))
    state, losses = State(model.trained, model.held, ()), []
    for _ in range(20):
        state, means = step(state, *workload.batch(train.arrays, np.arange(found.batch_size)))
        losses.append(float(means[0]))
    assert losses[-1] < losses[0] and 3 < model.costs.training_flops / model.count_params() < 6

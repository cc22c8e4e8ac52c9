"""Ordinary training scripts: stopped where they start to train, taken as they are, or refused in one line."""

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import yaml
from needs import require

from whichdevice.base.errors import StudyError
from whichdevice.models.address import read_address
from whichdevice.models.loading import Model
from whichdevice.models.script import look as scripts
from whichdevice.models.script.found import Evaluation, Found
from whichdevice.models.script.look import is_script, is_scripts_own, known, last_line, library_of, probe
from whichdevice.models.script.run import ScriptRun, others_like, run_watched
from whichdevice.models.script.several import SHARED
from whichdevice.models.shapes import leaves
from whichdevice.models.workloads.base import Options

FILE = "train.py"
SCRIPTS = Path(__file__).parents[1] / "scripts"
TEXTS = yaml.safe_load(Path(__file__).with_name("scripts.yaml").read_text(encoding="utf-8"))
TEXT = {name: f"\n{text}" for name, text in TEXTS.items()}
TORCH_NET, JAX_LINEAR, JAX_STEP, KERAS_FILE, KERAS_GENERATOR = (
    TEXT[name] for name in ("torch net", "jax linear", "jax step", "keras file", "keras generator")
)
FOUND = {
    "keras_fit.py": Found("keras", 128, 540, 5, evaluations=(Evaluation(10, 1, 60, 1),)),
    "keras_dataset.py": Found("keras", 32, 320, 3, precision="mixed"),
    "keras_words.py": Found("keras", 10, 200, 2),
    "keras_gan.py": Found("jax", 8, 8, 30),
    "keras_tape.py": Found("jax", 8, 64, 3, precision="mixed"),
    "keras_train_step.py": Found("jax", 8, 64, 3),
    "jax_loop.py": Found("jax", 50, 500, 6),
    "jax_pmap.py": Found("jax", 50, 500, 6),
    "jax_nnx.py": Found("jax", 32, 256, 4),
    "torch_loop.py": Found("torch", 64, 512, 5),
    "torch_gan.py": Found("torch", 50, 1000, 7, precision="float32"),
    "torch_hub.py -- --num_train_epochs 4 --batch 8": Found("torch", 8, 256, 4, precision="mixed", compiled=True),
}
JAX_LOSS = "import jax\nloss = lambda w, x: (w * x).sum()\nx = jax.numpy.ones((4, 3))\n"
REFUSED = {
    "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])\nmodel.fit([[1.0]], [1.0])": "not compiled",
    "import keras\nclass Own(keras.Sequential):\n    def train_step(self, data):\n        pass\n"
    "model = Own([keras.layers.Dense(1)])\nmodel.compile()\nmodel.fit([[1.0]])": "line 7: the step changes no",
    "import keras\nmodel = keras.Sequential([keras.layers.Dense(1)])\nmodel.compile('sgd', 'mse')\n"
    "model.fit([[1.0]], [[1.0]], epochs=5, initial_epoch=10)": r"line 4: fit\(epochs=5, initial_epoch=10\) trains no",
    "import keras\nif False:\n    keras.Model().fit()": r"nothing called fit \(Keras\): give its arguments",
    "import keras\nmodel = keras.Sequential()\nif False:\n    model.fit()": "nothing called fit",
    "import keras\nkeras.optimizers.Adam(lr=1)\nx.fit()": r"not recognized: .*\(line 2\); Keras 3: learning_rate=$",
    "import keras\nkeras.Sequential().fit_generator()": r"\(line 2\); Keras 3: fit\(",
    "from keras.layers.core import Dense\nx.fit()": r"\(line 1\); Keras 3: import from keras.layers",
    "import torch\ntorch.zeros(1).step()": "AttributeError",
    "import torch, argparse\np = argparse.ArgumentParser()\np.add_argument('--data', required=True)\n"
    "p.parse_args().step()": "required: --data: give its arguments after --",
    "import torch\nif False:\n    x.step()": r"torch.optim stepped \(PyTorch\): give .*, or put its step",
    "import torch\nget_ipython().system('pip install x')\nx.step()": "name 'x' is not defined",
    "import torch\ntorch.nn.Linear(8, 2)(torch.zeros(4, 8)).sum().backward()": "line 2, and no optimiser of torch",
    "import torch\nx = torch.zeros(4, 8)\ntorch.nn.Linear(8, 2)(x).sum().backward()"
    "\ntorch.optim.SGD([x]).step()": "line 4: its optimiser changes no weights of a module: put what is trained into",
    "import sys, torch\nif len(sys.argv) < 2:\n    raise SystemExit(2)\nx.step()": "exit code 2: give its arguments",
    "import jax\nif False:\n    jax.grad(abs)": "no function under jax.jit .*: give its arguments after --",
    JAX_LOSS
    + "jax.grad(loss)(x, x)": "line 4: the gradient is taken outside of jax.jit: put the step of one batch into",
    JAX_LOSS
    + "jax.jit(lambda w: jax.lax.fori_loop(0, 9, lambda i, w: jax.grad(loss)(w, x), w))(x)": "jax.lax.fori_loop",
    JAX_LOSS + "jax.jit(lambda w, x: jax.grad(loss)(w, x).sum())(x, x)": "line 4: the jitted step returns neither new",
}

DISTRIBUTED = "torch.distributed.init_process_group('gloo')\nnet = torch.nn.parallel.DistributedDataParallel(net)\n"
FOUR = "    for _ in range(4):\n        loss(torch.zeros(32, 8)).backward()\n    optimizer.step()\n"
ANEW = FOUR.replace("loss(torch.zeros(32, 8))", "torch.nn.MSELoss()(net(torch.zeros(32, 8)), torch.zeros(32, 2))")
ONE = "    loss(torch.zeros(32, 8)).backward()\n    optimizer.step()\n"
TWO = "    loss(first).backward()\n    loss(second).backward()\n    optimizer.step()\n"
FOURTH = "    loss(torch.zeros(32, 8)).backward()\n    if it % 4 == 3:\n        optimizer.step()\n"
PARTS = "import keras\nclass Twice(keras.layers.Layer):\n    def call(self, x):\n        return 2 * x\n"
LOSS = "def loss(target, output):\n    return keras.ops.mean((target - output) ** 2)\ndef model"
KERAS_OWN_LOSS = KERAS_FILE.replace("LOSS, OPTIMIZER", "OPTIMIZER").replace('"mse", ', "").replace("def model", LOSS)
STEPS = {  # script: framework, batch size, examples, epochs, and shapes of the data without the batch
    TORCH_NET + "for it in range(500):\n" + FOUR: ("torch", 128, 64000, 1, []),
    TORCH_NET + "for it in range(500):\n" + FOURTH: ("torch", 128, 16000, 1, []),
    TORCH_NET + "for it in range(500):\n" + ANEW: ("torch", 128, 64000, 1, []),
    TORCH_NET + "for trial in range(9):\n" + TWO + "for it in range(500):\n" + ONE: ("torch", 32, 16000, 1, []),
    TORCH_NET + "it = 0\nwhile True:\n" + ONE + "    it += 1\n    if it > 400:\n        break\n": (
        "torch", 32, 12832, 1, []
    ),
    TORCH_NET + "net.cuda()\nfor it in range(500):\n" + ONE.replace(" 8", " 8, device='cuda'"): (
        "torch", 32, 16000, 1, []
    ),
    TORCH_NET + DISTRIBUTED + "for it in range(500):\n" + ONE: ("torch", 32, 16000, 1, []),
    TORCH_NET + "for it in range(500):\n" + TWO: ("torch", 32, 16000, 1, []),
    TEXT["time first"]: ("torch", 35, 700, 3, []),  # parts of as many time steps
    JAX_STEP: ("jax", 64, 640, 1, [(8,), (2,)]),
    JAX_STEP.replace("jnp.ones(2))", "jnp.arange(2))"): ("jax", 64, 640, 1, [(8,), (2,)]),  # numbers of classes
    **{
        JAX_LINEAR + step + TEXT["jax batches"]: ("jax", 64, 640, 3, [(8,), (2,)])
        for step in (
            "step = jax.jit(jax.value_and_grad(loss))",
            "step = jax.grad(jax.jit(loss))",
            "inner = jax.jit(loss)\nstep = jax.jit(lambda p, x, y: down(p, jax.grad(inner)(p, x, y)))",
            TEXT["equinox"],
        )
    },
    JAX_LINEAR + "step = jax.jit(jax.grad(loss))\nfor i in range(50):\n    step(params, x, y)": (
        "jax", 640, 640, 50, [(8,), (2,)]
    ),
    JAX_LINEAR + "step = jax.jit(lambda p, x, y, rows: down(p, jax.grad(loss)(p, x[rows], y[rows])))\n"
    "order = jax.random.permutation(jax.random.key(0), 640)\n"
    "for epoch in range(9):\n    for i in range(10):\n        step(params, x, y, order[i * 64 :][:64])": (
        "jax", 64, 640, 9, [()]
    ),
    TEXT["jax scan"]: ("jax", 64, 640, 3, [()]),
    KERAS_GENERATOR: ("keras", 16, 320, 2, [(8,), (2,)]),
    KERAS_GENERATOR.replace("model.fit", "for fold in range(5):\n    model.fit"): ("keras", 16, 320, 10, [(8,), (2,)]),
    TEXT["keras loop"]: ("keras", 128, 1000, 3, [(8,), (2,)]),
}  # fmt: skip


@pytest.fixture(autouse=True, scope="module")
def in_one_folder(tmp_path_factory):
    """Each script is run once: later tests know what it showed. This process keeps Keras on JAX for other tests."""
    import keras

    assert keras.backend.backend() == "jax"
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("scripts"))
        patch.setenv("KERAS_BACKEND", "tensorflow")
        yield


def address_of(name: str):
    if name.startswith("torch"):
        require("torch")
    return read_address(f"{SCRIPTS}/{name}")


@pytest.mark.slow
@pytest.mark.parametrize("name", FOUND)
def test_a_script_shows_its_training(name):
    address = address_of(name)
    found = probe(address)
    assert found == known(address)
    assert replace(found, line=None, pipeline=(), notes=()) == FOUND[name]
    streams = name in ("keras_dataset.py", "keras_words.py", "keras_tape.py", "torch_loop.py")
    assert bool(found.pipeline) == streams and all(rate.examples_per_second > 100 for rate in found.pipeline)
    line = address.path.read_text().splitlines()[found.line - 1]
    assert any(call in line for call in ("fit(", ".step(", "update(", "train_step(", "train_on_batch("))


@pytest.mark.slow
def test_words_are_looked_up_on_the_host_and_lengths_are_the_mean(monkeypatch):
    """Other processes read what was kept of the script, in their own number format, and do not run it."""
    import keras

    address = address_of("keras_words.py")
    found = known(address) or probe(address)
    assert found.notes == (
        "StringLookup: on the host, with the input pipeline.", "Lengths vary from 3 to 9; steps are of the mean, 6."
    )  # fmt: skip
    monkeypatch.setattr(scripts, "run_watched", lambda *_: pytest.fail("the script runs again"))
    try:
        for policy in ("mixed_bfloat16", "float32"):  # one process compiles for devices of several formats
            keras.config.set_dtype_policy(policy)
            workload = Model.read(address.text).workload(Options(batch_size=10))
            train, _ = workload.splits({})
            model = workload.model()
            assert model.layers[-1].dtype_policy.name == policy and model.optimizer.learning_rate == 0.01
    finally:
        keras.config.set_dtype_policy("float32")
    assert {array.shape[1:] for array in train.arrays.values()} == {(6,), (4,), ()}


@pytest.mark.slow
def test_of_several_inputs_the_longest_lengths_are_named(tmp_path):
    text = """
import keras, numpy as np
short, long = (keras.Input((None, 1), name=name) for name in ("short", "long"))
pooled = keras.layers.GlobalAveragePooling1D()
model = keras.Model({"short": short, "long": long}, keras.layers.Dense(1)(pooled(short) + pooled(long)))
model.compile("sgd", "mse")
inputs = lambda n: {"short": np.zeros((8, n, 1)), "long": np.zeros((8, 10 * n, 1))}
model.fit(((inputs(3 + i % 3), np.zeros((8, 1))) for i in range(30)), steps_per_epoch=10)
"""
    assert started(text, tmp_path).found.notes == ("Lengths vary from 30 to 50; steps are of the mean, 40.",)


@pytest.mark.slow
@pytest.mark.parametrize("text", REFUSED)
def test_what_does_not_train_is_refused_in_one_line(text, tmp_path):
    if "torch" in text:
        require("torch")
    path = tmp_path / "train.py"
    path.write_text(text)
    assert is_script(path)
    with pytest.raises(StudyError, match=REFUSED[text]) as refused:
        probe(read_address(str(path)))
    assert str(refused.value).startswith("train.py") and "\n" not in str(refused.value)


OWN = {  # errors: whether the script fails so also where its step is computed
    "open('absent')": True, "absent": True, "import absent": True, "{}['absent']": True, "{}[3]": False, "[][1]": False,
    "import json; json.JSONDecoder().absent": False, "1 / 0": False,
}  # fmt: skip


@pytest.mark.parametrize("line", OWN)
def test_an_error_that_no_missing_value_causes_is_the_scripts_own(line, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(line)
    with pytest.raises(Exception) as failed:  # of any kind
        runpy.run_path(str(path))
    assert is_scripts_own(failed.value, path) == OWN[line]


def test_an_error_that_a_library_raises_is_said_to_be_its(tmp_path, monkeypatch):
    packages, path = tmp_path / "site-packages", tmp_path / "train.py"
    packages.mkdir()
    (packages / "boxes.py").write_text("def nms(boxes):\n    return max(boxes)\n")
    monkeypatch.syspath_prepend(packages)
    for line, library in (("boxes.nms([])", "boxes"), ("boxes.nms([0]) / 0", None)):
        path.write_text(f"import boxes\n{line}\n")
        with pytest.raises((ValueError, ZeroDivisionError)) as failed:
            runpy.run_path(str(path))
        assert library_of(failed.value, path) == library


COUNTS_GPUS = "import torch\ncount = torch.cuda.device_count()\nnet = torch.nn.Linear(4, 2)\n"


@pytest.mark.needs("torch")
@pytest.mark.parametrize(
    ("text", "may"),
    [
        (COUNTS_GPUS + "assert count > 1", True),
        (COUNTS_GPUS + "raise SystemExit('two GPUs, please')", True),
        (COUNTS_GPUS + "if count > 1: net(torch.zeros(2, 4))", True),
        (COUNTS_GPUS + "open('absent')", False),
        (COUNTS_GPUS + "net(torch.zeros(2, 4))\nassert count > 1", False),
        ("import torch\nassert False", False),
    ],
    ids=["an assertion", "an exit", "no training", "a file", "a training", "no count"],
)
def test_more_gpus_are_tried_where_a_script_may_want_them(text, may, tmp_path):
    path = tmp_path / "train.py"
    path.write_text(text)
    run = ScriptRun(path)
    with pytest.raises(StudyError):
        run.result([])
    assert run.may_want_gpus == may


def test_a_script_that_takes_too_long_is_told_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("import beside\nbeside.wait()\n")
    Path("beside.py").write_text("import threading\ndef wait():\n    threading.Event().wait()\n")
    address = read_address("train.py")
    frame = '  File "{}", line {} in {}\n'.format
    waits = frame("threading.py", 7, "wait")
    beside, train = frame(Path("beside.py").resolve(), 3, "wait"), frame(Path("train.py").resolve(), 2, "<module>")
    assert last_line(waits + beside + train, address) == " (beside.py, line 3)"
    assert last_line(waits + train, address) == " (line 2)"
    assert last_line(waits, address) == ""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("line", "runs", "error"),
    [
        ("data = open('absent.csv')", 1, r"FileNotFoundError: .*absent.csv' \(line 8\)"),
        ("for _ in [][1]: pass", 2, "IndexError: .*line 8"),
    ],
)
def test_an_error_of_the_scripts_own_is_said_to_be_its(line, runs, error, tmp_path, monkeypatch):
    """What a step without values cannot cause is seen in one run, other errors where they come again with values."""
    require("torch")
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text(TEXT["started"].format(line=line))
    with pytest.raises(StudyError, match=f"^train.py: {error}.*; this error is the script's own: mend it there"):
        probe(read_address("train.py"))
    assert Path("runs").read_text().split() == ["once"] * runs


def started(text: str, folder: Path):
    path = folder / FILE
    path.write_text(text)
    for name in ("torch", "equinox"):
        if f"import {name}" in text:
            require(name)
    return run_watched(path, [])


@pytest.mark.slow
@pytest.mark.parametrize("text", STEPS)
def test_a_step_is_of_one_batch_whatever_else_the_script_gives_it(text, tmp_path):
    """Of batches whose gradients are summed one; keys of random numbers and weights of classes are constants."""
    found = (script := started(text, tmp_path)).found
    torch = found.framework == "torch"
    data = [] if torch else script.functions.data()
    arrays = leaves(data[0] if found.framework == "jax" else data)  # those of validation are the same
    shapes = [each.shape[1:] for each in arrays]
    assert (found.framework, found.batch_size, found.examples, found.epochs, shapes) == STEPS[text]
    kept = 1024 if "steps_per_epoch" in text else 4 * found.batch_size
    assert torch or {len(each) for each in arrays} == {kept}
    assert not found.compiled
    assert (found.keeps == "batch") == ("init_process_group" not in text)
    trials = ["Training starts in line 15; what tr"] * ("trial" in text)
    assert [note[:35] for note in found.notes] == trials


@pytest.mark.slow
@pytest.mark.parametrize(
    ("shaped", "loss"),
    [
        ("lambda x: tf.reshape(x, (-1, tf.shape(x)[1], 3, 4))", "keras.ops.mean((target - output) ** 2)"),
        ("lambda x: keras.ops.reshape(x, (-1, 8, 3, 4))", "tf.reduce_mean(tf.square(target - output), (1, 2, 3))"),
    ],
    ids=["a layer", "a loss"],
)
def test_a_model_of_keras_that_calls_tensorflow_trains_on_it(shaped, loss, tmp_path):
    (tmp_path / "train.py").write_text(TEXT["of tensorflow"].format(shaped=shaped, loss=loss), encoding="utf-8")
    found = probe(read_address(str(tmp_path / "train.py")))
    assert (found.framework, found.batch_size, found.examples, found.epochs) == ("jax", 16, 320, 3)
    assert found.notes[0].startswith("Its step is forecast as XLA compiles it")


@pytest.mark.slow
def test_steps_that_each_device_scans_name_the_axis_of_devices(tmp_path):
    found = started(TEXT["jax pmap scan"], tmp_path).found
    assert (found.batch_size, found.examples, found.epochs) == (64, 50 * 64, 1)


@pytest.mark.slow
def test_a_teacher_belongs_to_the_step_and_is_not_trained(tmp_path):
    body = "with torch.no_grad():\n        wanted = teacher(x)\n    (net(x) - wanted).square().mean().backward()\n"
    text = f"teacher = torch.nn.Linear(8, 2)\nfor it in range(500):\n    x = torch.zeros(32, 8)\n    {body}"
    trace = started(TORCH_NET + text + "    optimizer.step()\n", tmp_path).functions.trace
    assert (trace.parameters, trace.trained) == (36, 18)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("use", "precision"), [("False", "float32"), ("True", "mixed"), ("torch.cuda.is_available()", "mixed")]
)
def test_an_autocast_for_gpus_counts_unless_a_variable_switches_it_off(use, precision, tmp_path):
    text = f"use = {use}\nfor it in range(500):\n    with torch.autocast('cuda', enabled=use):\n    " + ONE
    assert started(TORCH_NET + text, tmp_path).found.precision == precision


@pytest.mark.slow
@pytest.mark.parametrize("text", [KERAS_FILE, KERAS_OWN_LOSS])
def test_a_model_file_that_looks_words_up_is_run_and_keeps_its_own_loss(text, tmp_path):
    """In a process of its own: words need TensorFlow, whichever backend Keras has here."""
    (tmp_path / FILE).write_text(text)
    address = read_address(f"{tmp_path}/{FILE}")
    assert is_script(tmp_path / FILE)
    found = probe(address)
    assert (found.batch_size, found.examples, found.epochs) == (32, 128, 2)
    assert found.notes == ("TextVectorization: on the host, with the input pipeline.",)
    train, _ = Model.read(address.text).workload(Options(batch_size=32)).splits({})
    assert {each.shape[1:] for each in train.arrays.values()} == {(4,), (1,)}


@pytest.mark.slow
def test_an_optimisers_moments_are_no_trained_parameters(tmp_path):
    step = started(JAX_STEP, tmp_path).functions.model()
    assert [each.shape for each in step.trained] == [(2,), (8, 2)] and len(step.held) == 5  # two moments and a count


@pytest.mark.slow
def test_a_layer_that_starts_with_zeros_is_trained(tmp_path):
    text = """
import jax, jax.numpy as jnp
step = jax.jit(lambda p, x: jax.tree.map(jnp.subtract, p, jax.grad(loss)(p, x)))
def loss(p, x):
    return (x @ p["first"]["w"] @ p["last"]["w"]).mean()
step({"first": {"w": jnp.ones((8, 8))}, "last": {"w": jnp.zeros((8, 8))}}, jnp.ones((64, 8)))
"""
    assert len(started(text, tmp_path).functions.model().trained) == 2


@pytest.mark.slow
@pytest.mark.needs("torch")
def test_a_number_that_a_module_draws_and_compares_needs_no_value(tmp_path):
    text = """
import torch
class Masked(torch.nn.Linear):
    def forward(self, x):
        drawn = (torch.rand(1) * 8).long().squeeze()
        if drawn >= 9:
            raise ValueError("too wide")
        return super().forward(x)
net = Masked(8, 2)
optimizer = torch.optim.SGD(net.parameters(), 0.1)
for start in range(0, 640, 64):
    net(torch.zeros(64, 8)).sum().backward()
    optimizer.step()
"""
    assert started(text, tmp_path).found.batch_size == 64


@pytest.mark.slow
@pytest.mark.parametrize("large", [False, True])
def test_a_jitted_function_makes_no_parameters_that_are_large(large, tmp_path, monkeypatch):
    from whichdevice.models.script import watch_jax

    monkeypatch.setattr(watch_jax, "MAX_REAL", 100 if large else 1000)
    text = """
import jax, jax.numpy as jnp
def init(key):
    jax.debug.callback(lambda: open("computed", "w").close())
    return {"w": jax.random.normal(key, (8, 8)), "key": key}
def loss(w, x):
    return (x @ w).mean()
step = jax.jit(lambda p, x: p | {"w": p["w"] - jax.grad(loss)(p["w"], x)})
step(jax.block_until_ready(jax.jit(init)(jax.random.key(0))), jnp.ones((64, 8)))
"""
    monkeypatch.chdir(tmp_path)
    script = started(text, tmp_path)
    assert (tmp_path / "computed").exists() is not large
    assert script.found.batch_size == 64 and (8, 8) in [leaf.shape for leaf in script.functions.model().trained]


@pytest.mark.slow
def test_copies_for_devices_and_batches_ahead_take_no_memory(tmp_path):
    """What Flax repeats for each device is a view, and no batch is read before the first step has its own."""
    text = """
import jax, jax.numpy as jnp, numpy as np
from flax import jax_utils
w, made = jnp.ones((8, 4)), []
def batches():
    while True:
        made.append(1)
        yield {"x": np.zeros((1, 16, 8), "float32")}
step = jax.pmap(lambda w, batch: w - jax.grad(lambda w: (batch["x"] @ w).mean())(w), axis_name="batch")
repeated = jax_utils.replicate({"w": w})
assert np.shares_memory(np.asarray(w), repeated["w"]) and repeated["w"].shape == (1, 8, 4)
for turn, batch in zip(range(30), jax_utils.prefetch_to_device(batches(), 2)):
    assert len(made) == 1
    repeated["w"] = step(repeated["w"], batch)
"""
    found = (script := started(text, tmp_path)).found
    assert (found.batch_size, found.examples) == (16, 16 * 30)
    assert [leaf.shape for leaf in script.functions.model().trained] == [(8, 4)]


def test_a_long_evaluation_of_jax_is_not_computed(tmp_path):
    """Its first batch takes 9e11 operations; what is short, or may be the next argument, has its own values."""
    text = """
import jax, jax.numpy as jnp
@jax.jit
def long(w, x):
    for _ in range(50):
        x = jnp.tanh(x @ w)
    return x.sum()
@jax.jit
def short(w):
    return w.sum()
@jax.jit
def step(w, x):
    return w - 0.1 * jax.grad(lambda w: (x @ w).mean())(w)
w, x = jnp.zeros((1024, 1024)), jnp.zeros((8192, 1024))
assert [float(long(w, x)) for _ in range(3)] == [1.0, 1.0, 1.0] and float(short(w)) == 0.0
for _ in range(30):
    w = step(w, x[:64])
"""
    assert started(text, tmp_path).found.batch_size == 64


@pytest.mark.slow
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("half", [False, True])
def test_a_script_of_jax_shows_its_number_format_and_how_its_devices_share_a_batch(half, each, tmp_path):
    text = f"""
import jax, numpy as np
from jax.sharding import Mesh
mesh = Mesh(np.array(jax.devices()), ("data",))
kind = "{"bfloat16" if half else "float32"}"
batch = {"16 * jax.device_count()" if each else "16"}
@jax.jit
def step(w, x):
    loss = lambda w: (x.astype(kind) @ w.astype(kind)).astype("float32").mean()
    return w - jax.grad(loss)(w)
w = np.zeros((8, 4), "float32")
for _ in range(20):
    w = step(w, np.zeros((batch, 8), "float32"))
"""
    found = started(text, tmp_path).found
    assert (found.batch_size, found.precision) == (16, "mixed" if half else "single")
    assert found.notes == (SHARED.format(gpus=4, batch=16),) * (not each)
    assert (found.keeps, found.asks) == (("steps", None) if each else ("batch", 1))


@pytest.mark.slow
@pytest.mark.parametrize(("steps", "keeps"), [("20", "steps"), ("320 // batch", "examples")])
def test_devices_of_jax_with_a_batch_each_make_the_scripts_steps_or_see_its_examples(steps, keeps, tmp_path):
    text = f"""
import jax, numpy as np
devices = jax.local_device_count()
batch = 16 * jax.local_device_count()
num_steps = {steps}
def step(w, x):
    return w - jax.grad(lambda w: (x @ w).mean())(w)
step, w = jax.pmap(step), np.zeros((devices, 8, 4), "float32")
for _ in range(num_steps):
    w = step(w, np.zeros((devices, batch // devices, 8), "float32"))
"""
    found = started(text, tmp_path).found
    assert (found.batch_size, found.examples, found.notes) == (16, 320, ())
    assert (found.keeps, found.asks) == (keeps, None)


@pytest.mark.slow
def test_a_script_that_leaves_its_folder_is_kept_in_the_one_of_the_question(tmp_path, monkeypatch):
    (tmp_path / "inner").mkdir()
    monkeypatch.chdir(tmp_path)
    text = "import os\nos.chdir(os.path.dirname(os.path.abspath(__file__)))\n" + TEXT["keras loop"]
    text = text.replace("[Own(3)]", "[Own(3), Twice()]").replace("WIDTH = 2", "from parts import Twice\nWIDTH = 2")
    (tmp_path / "inner" / "train.py").write_text(text)
    (tmp_path / "inner" / "parts.py").write_text(PARTS)
    address = read_address("inner/train.py")
    found = probe(address)
    assert (found.line, found) == (21, known(address))
    monkeypatch.setattr(scripts, "run_watched", lambda *_: pytest.fail("the script runs again"))
    workload = Model.read(address.text).workload(Options(batch_size=128))
    train, _ = workload.splits({})
    assert {each.shape[1:] for each in train.arrays.values()} == {(8,), (2,)}
    assert workload.model().layers[0].dense.units == 2, "own classes are defined without the rest of the script"


def test_files_that_another_call_removes_do_no_harm(tmp_path, monkeypatch):
    monkeypatch.setattr(scripts, "FOLDER", tmp_path)
    (tmp_path / "removed.json").symlink_to("nowhere")
    address, found = read_address(f"{SCRIPTS}/torch_loop.py"), Found("torch", 64)
    scripts.keep(address, found)
    assert known(address) == found


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
        Model.read(str(path)).workload(Options(batch_size=32)).splits({})


def test_a_few_examples_of_a_long_stream_are_read():
    """All of a short one: its last batch may be smaller, so that its examples are not known exactly."""
    assert Found("keras", 32, 320).declaration().examples is None
    assert Found("keras", 64, 20032).declaration().examples == Found("keras", 64).declaration().examples == 1024
    assert Found("keras", 4096, 10**6).declaration().examples == 8192


def test_an_answer_says_that_another_training_is_not_counted(tmp_path):
    path = tmp_path / "train.py"
    path.write_text(
        "model.fit(x)\nscaler.fit(x)\nmodel.fit(x)\nfor x in y:\n    optimizer.step()\n    optimizer.step()\n"
    )
    assert others_like(path, 1) == ("Training starts in line 1; what trains in line 3 is not counted.",)
    assert others_like(path, 5) == ()
    twice = "def run(model):\n    model.fit(x)\ndef main():\n    run(small)\n    print(small)\n    run(large)\nmain()\n"
    path.write_text(twice)
    assert others_like(path, 2) == ("Training starts in line 2; what trains in line 6 is not counted.",)
    path.write_text("def run(train):\n    optimizer.step()\nfor epoch in range(3):\n    run(True)\n    run(False)\n")
    assert others_like(path, 2) == ()


def test_a_model_file_is_no_script(tmp_path):
    path = tmp_path / "model.py"
    path.write_text("def model(options):\n    return options.fit()\n")
    assert not is_script(path)
    assert all(map(is_script, SCRIPTS.glob("*.py")))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["jax_loop.py", "jax_nnx.py"])
def test_a_jitted_step_is_a_workload_that_trains_as_the_script_does(name):
    import jax

    from whichdevice.measure.backends.jax_function import State
    from whichdevice.models.steps.jax_function import function_step

    address = address_of(name)
    found = known(address) or probe(address)
    workload = Model.read(address.text).workload(Options(batch_size=found.batch_size))
    train, _ = workload.splits({})
    model = workload.model()
    step = jax.jit(function_step(workload, model, workload.optimizer()))
    state, losses = State(model.trained, model.held, ()), []
    for _ in range(20):
        state, means = step(state, *workload.batch(train.arrays, np.arange(found.batch_size)))
        losses.append(float(means[0]))
    assert losses[-1] < losses[0] and 3 < model.costs.training_flops / model.count_params() < 6

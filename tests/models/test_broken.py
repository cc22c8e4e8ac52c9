"""Ten and more broken model files: each gives one clear line when it is tried, and the same as the record of a run."""

import json
import os
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whichdevice.measure.backends import backend_class
from whichdevice.measure.trying.trial import Tried, request_for, try_on
from whichdevice.models.loading import Model

ENDLESS_SECONDS = 12.0
TIMEOUT = 400.0
OPTIONS = {"rate": 0.01}
IMPORTS = "import keras\nimport numpy as np\n"
SHAPES = 'INPUT, TARGET = {"shape": (8,)}, {"shape": (1,)}\n'
TRAINED = 'LOSS, OPTIMIZER = "mean_squared_error", "sgd"\n'
MODEL = "def model(options):\n    return keras.Sequential([keras.Input((8,)), keras.layers.Dense(1)])\n"
WHOLE = IMPORTS + SHAPES + TRAINED + MODEL
WITH_DATA = IMPORTS + TRAINED + MODEL + "def data(options):\n    "
# What each file holds, and the reason that is given: on JAX but for the layer that only JAX has, tried on TensorFlow.
BROKEN = {
    "no_model": (
        SHAPES + TRAINED,
        r"^no_model.py: it defines no function model\(options\) that returns a Keras model$",
    ),
    "no_python": (
        'INPUT = {"shape": (8,)\n\ndef model(options):\n    return None\n',
        r"^no_python.py: it is no Python: .* \(line \d\)$",
    ),
    "wrong_shapes": (
        WHOLE.replace("(8,)}", "(8, 8)}").replace("Input((8,))", "Input((16,))"),
        r"^wrong_shapes.py: one input has shape \(8, 8\), the model takes \(16,\)$",
    ),
    "nan_loss": (
        IMPORTS + SHAPES + MODEL
        + "def optimizer(options):\n    return keras.optimizers.SGD(options.get('rate', 0.01))\n"
        + "def loss(target, prediction):\n    return keras.ops.log(-1.0 - keras.ops.square(target - prediction))\n",
        r"^the loss is nan at the first step: look at the loss, the data and the initial weights$",
    ),
    "error_at_import": (
        WHOLE + "WIDTHS = [size / 0 for size in (1, 2)]\n",
        r"error_at_import.py: ZeroDivisionError: division by zero \(line 7\)$",
    ),
    "error_in_model": (
        WHOLE.replace("keras.layers.Dense(1)", "keras.layers.Conv2D(4, 3)"),
        r"^error_in_model.py: model\(\) fails on jax: ValueError: .*conv2d.* \(line 6\)$",
    ),
    "error_in_data": (
        WITH_DATA + "return np.load('no_such_file.npy'), np.zeros(8)\n",
        r"^error_in_data.py: data\(\) fails on jax: FileNotFoundError: .*no_such_file.npy' \(line 7\)$",
    ),
    "data_ends_early": (
        "EXAMPLES = 256\n" + WITH_DATA + "yield from [(np.full(8, 1.0, np.float32), np.zeros(1, np.float32))] * 37\n",
        r"^data_ends_early.py: data\(\) ended after 37 of EXAMPLES = 256 examples$",
    ),
    "wrong_target_type": (
        WHOLE.replace("(1,)}", '(), "dtype": "float32"}')
        .replace("mean_squared_error", "sparse_categorical_crossentropy"),
        r"^wrong_target_type.py: targets are float32, but LOSS .* needs class numbers",
    ),
    "too_large": (
        "EXAMPLES, BATCH_SIZE = 16, 2\n" + WHOLE.replace("8,)", "1_000_000,)").replace("1,)}", "1_000_000,)}")
        .replace("Dense(1)", "Dense(1_000_000)"),
        r"^the model has 1,000,001,000,000 weights: with gradients 8,000 GB of memory|[Oo]ut of memory",
    ),
    "misspelt_option": (
        IMPORTS + SHAPES + "LOSS = 'mse'\n" + MODEL
        + "def optimizer(options):\n    return keras.optimizers.SGD(options.get('learning_rate', 0.01))\n",
        r"^misspelt_option.py: options.rate is never read; this file reads learning_rate$",
    ),
    "asks_a_person": (
        WITH_DATA + "return np.zeros((int(input()), 8)), np.zeros((8, 1))\n",
        r"^asks_a_person.py: data\(\) fails on jax: EOFError: .* \(line 7\); nobody answers",
    ),
    "nan_target": (
        WITH_DATA + "return np.zeros((200, 8)), np.where(np.arange(200) == 70, np.nan, 0.0)[:, None]\n",
        r"^nan_target.py: data\(\): its targets are not finite: example \d+ has nan$",
    ),
    "two_losses": (
        IMPORTS + SHAPES + "LOSS = 'mse'\n" + MODEL.replace("return", "built =")
        + "    built.compile(optimizer='sgd', loss='mae')\n    return built\n",
        r"^two_losses.py: model\(\) returns a compiled model, and the file has LOSS, too: leave one out$",
    ),
    "runs_eagerly": (
        IMPORTS + SHAPES + MODEL.replace("return", "built =")
        + "    built.compile(optimizer='sgd', loss='mae', run_eagerly=True)\n    return built\n",
        r"^the model is compiled with run_eagerly: leave that out, its step is timed as a program$",
    ),
    "lacks_a_backend": (
        WHOLE.replace("keras.layers.Dense(1)", "Cumulative(), keras.layers.Dense(1)")
        + "class Cumulative(keras.layers.Layer):\n    def call(self, inputs):\n        import jax\n"
        + "        return jax.lax.associative_scan(jax.numpy.add, inputs, axis=1)\n",
        r"^lacks_a_backend.py: model\(\) fails on tensorflow: \w+: .*[Tt]ensor.* \(line \d+\)$",
    ),
}  # fmt: skip
ENDLESS = "import time\n" + WHOLE.replace("    return", "    while True:\n        time.sleep(0.1)\n    return")


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    """The path of every broken file."""
    folder = tmp_path_factory.mktemp("broken")
    texts = {name: text for name, (text, _) in BROKEN.items()} | {"endless": ENDLESS}
    for name, text in texts.items():
        (folder / f"{name}.py").write_text(text)
    return {name: str(folder / f"{name}.py") for name in texts}


def on_jax(files: dict[str, str]) -> list[str]:
    """Files that JAX fails on at once."""
    return [file for name, file in sorted(files.items()) if name not in ("endless", "lacks_a_backend")]


@pytest.fixture(scope="module")
def outcomes(files, tmp_path_factory) -> dict[str, dict[str, tuple[str, str]]]:
    """Status and reason of each file, as tried and as measured; a few processes do it all."""
    logs = tmp_path_factory.mktemp("logs")

    def tried(backend: str, wanted: list[str], seconds: float) -> list[Tried]:
        log = logs / f"{backend}-{len(wanted)}-{seconds}.log"
        return try_on(backend, [*map(Model.read, wanted)], "float32", OPTIONS, seconds, log)

    one = [files["lacks_a_backend"]]
    with ThreadPoolExecutor(3) as pool:
        first = pool.submit(tried, "jax", on_jax(files), TIMEOUT)
        lacking = pool.submit(tried, "tensorflow", one, TIMEOUT)
        endless = pool.submit(tried, "jax", [files["endless"]], ENDLESS_SECONDS)
        runs = pool.submit(measured, "jax", on_jax(files))
        lacking_run = pool.submit(measured, "tensorflow", one)
        ends = zip([*on_jax(files), *one], [*first.result(), *lacking.result()], strict=True)
        found = {Path(file).stem: (each.status, each.reason) for file, each in ends}
        found["endless"] = (endless.result()[0].status, endless.result()[0].reason)
        records = {Path(file).stem: each for file, each in {**runs.result(), **lacking_run.result()}.items()}
    return {"tried": found, "measured": records}


def measured(backend: str, wanted: list[str]) -> dict[str, tuple[str, str]]:
    """How a study's runs of these files end."""
    environment = {
        **os.environ,
        **backend_class(backend).environment(request_for(Model.read(wanted[0]), backend, "float32", {}), 1),
    }
    environment["PYTHONPATH"] = os.pathsep.join(path for path in sys.path if path)
    command = [sys.executable, str(Path(__file__).with_name("broken_runs.py")), backend, *wanted]
    done = subprocess.run(
        command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=TIMEOUT
    )
    ends = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"event": "end"')]
    assert len(ends) == len(wanted), done.stdout + done.stderr
    return {file: (end["status"], end["reason"]) for file, end in zip(wanted, ends, strict=True)}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_clear_line_when_tried_and_the_same_as_a_record(name, outcomes):
    for status, reason in (outcomes["tried"][name], outcomes["measured"][name]):
        assert re.search(BROKEN[name][1], reason), reason
        assert "\n" not in reason
        assert status in (("refused", "out_of_memory") if name == "too_large" else ("failed",))


@pytest.mark.slow
def test_an_endless_file_is_ended_and_the_reason_names_where_it_hung(outcomes):
    status, reason = outcomes["tried"]["endless"]
    assert status == "timed_out"
    assert reason.startswith("still ") and reason.endswith(" after 12 s; ended")

"""Ten and more broken model files: the record of a run of each gives one clear line."""

import re
from pathlib import Path

import pytest
from models.broken_runs import measured

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


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory) -> dict[str, tuple[str, str | None]]:
    """Status and reason of a run of each file; one process for each backend."""
    folder = tmp_path_factory.mktemp("broken")
    for name, (text, _) in BROKEN.items():
        (folder / f"{name}.py").write_text(text)
    lacking = "lacks_a_backend"
    runs = measured("jax", [str(folder / f"{name}.py") for name in BROKEN if name != lacking], OPTIONS, 32)
    runs |= measured("tensorflow", [str(folder / f"{lacking}.py")], OPTIONS, 32)
    return {Path(file).stem: end for file, end in runs.items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_file_is_one_clear_line(name, outcomes):
    status, reason = outcomes[name]
    assert re.search(BROKEN[name][1], reason), reason
    assert "\n" not in reason
    assert status in (("refused", "out_of_memory") if name == "too_large" else ("failed",))

"""Ten and more broken model files: each gives one clear line when it is tried, and the same as the record of a run."""

import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from whichdevice.backends import backend_class
from whichdevice.models.loading import Model
from whichdevice.trying.trial import Tried, request_for, try_on

FOLDER = Path(__file__).parent / "broken"
ENDLESS_SECONDS = 12.0
TIMEOUT = 400.0
OPTIONS = {"rate": 0.01}
NO_PYTHON = 'INPUT = {"shape": (8,)\n\ndef model(options):\n    return None\n'

# On JAX but for the layer that only JAX has, which is tried on TensorFlow.
EXPECTED = {
    "no_model": r"^no_model.py: it defines no function model\(options\) that returns a Keras model$",
    "no_python": r"^no_python.py: it is no Python: .* \(line \d\)$",
    "wrong_shapes": r"^wrong_shapes.py: one input has shape \(8, 8\), the model takes \(16,\)$",
    "nan_loss": r"^the loss is nan at the first step: look at the loss, the data and the initial weights$",
    "error_at_import": r"error_at_import.py: ZeroDivisionError: division by zero \(line 9\)$",
    "error_in_model": r"^error_in_model.py: model\(\) fails on jax: ValueError: .*conv2d.* \(line 12\)$",
    "error_in_data": r"^error_in_data.py: data\(\) fails on jax: FileNotFoundError: .*no_such_file.npy' \(line 11\)$",
    "data_ends_early": r"^data_ends_early.py: data\(\) ended after 37 of EXAMPLES = 256 examples$",
    "wrong_target_type": r"^wrong_target_type.py: targets are float32, but LOSS .* needs class numbers",
    "too_large": r"^the model has 1,000,001,000,000 weights: with gradients 8,000 GB of memory|[Oo]ut of memory",
    "misspelt_option": r"^misspelt_option.py: options.rate is never read; this file reads learning_rate$",
    "asks_a_person": r"^asks_a_person.py: data\(\) fails on jax: EOFError: .* \(line 11\); nobody answers",
    "nan_target": r"^nan_target.py: data\(\): its targets are not finite: example \d+ has nan$",
    "two_losses": r"^two_losses.py: model\(\) returns a compiled model, and the file has LOSS, too: leave one out$",
    "own_step": r"^the model has its own train_step, which loop epoch does not run: take loop: fit$",
    "lacks_a_backend": r"^lacks_a_backend.py: model\(\) fails on tensorflow: \w+: .*[Tt]ensor.* \(line \d+\)$",
}


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> dict[str, str]:
    """Every broken file; the one that is no Python is written here, as linters read all others."""
    written = tmp_path_factory.mktemp("broken") / "no_python.py"
    written.write_text(NO_PYTHON)
    return {path.stem: str(path) for path in FOLDER.glob("*.py")} | {"no_python": str(written)}


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
@pytest.mark.parametrize("name", EXPECTED)
def test_a_broken_file_is_one_clear_line_when_tried_and_the_same_as_a_record(name, outcomes):
    import re

    for status, reason in (outcomes["tried"][name], outcomes["measured"][name]):
        assert re.search(EXPECTED[name], reason), reason
        assert "\n" not in reason
        assert status in (("refused", "out_of_memory") if name == "too_large" else ("failed",))


@pytest.mark.slow
def test_an_endless_file_is_ended_and_the_reason_names_where_it_hung(outcomes):
    status, reason = outcomes["tried"]["endless"]
    assert status == "timed_out"
    assert reason.startswith("still ") and reason.endswith(" after 12 s; ended")

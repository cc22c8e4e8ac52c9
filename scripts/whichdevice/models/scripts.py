"""Ordinary training scripts as models: a script runs until its training starts and is stopped there; nothing trains.

    started = start("train.py", ["--epochs", "3"], "torch")      # in this process
    found = known(address) or probe(address)                       # in another one, which leaves what it found on disk

A Keras script is stopped where `fit` is entered: Python's profile hook sees the call with all its arguments. A PyTorch
script is stopped at the first step of its optimiser: PyTorch's global hooks and its mode for functions show the modules
that were called, with what, and how the loss follows from them (`torch_script.py`). A JAX script is stopped where its
jitted step takes a gradient (`jax_script.py`). Nothing is replaced. What a script does before its training (files,
downloads, prints) happens as written.
"""

import ast
import hashlib
import json
import os
import platform
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, replace
from functools import cache, partial
from importlib import metadata
from pathlib import Path
from types import FrameType, SimpleNamespace
from typing import Any

from whichdevice.code_hash import code_hash, parsed
from whichdevice.errors import StudyError
from whichdevice.files import package_first, write_atomically
from whichdevice.models.address import Address, read_address
from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import JAX, KERAS, TORCH, framework_of
from whichdevice.models.model_file import ModelFile, model_file_class
from whichdevice.models.pipeline import Rate, rates
from whichdevice.models.script_run import Found, Script, Started, calls_of, line_of, run

FOLDER = Path("results/ask/scripts")  # what was found in scripts, by a hash of files, arguments and versions
START_SECONDS = 600.0  # that a script may take before its training
VERSIONS = ("keras", "tensorflow", "torch", "transformers", "lightning", "jax", "flax", "optax")
QUIETLY = {"MPLBACKEND": "Agg", "TF_CPP_MIN_LOG_LEVEL": "2", "JAX_PLATFORMS": "cpu"}  # a search for TPUs takes a minute
TRAINING = {"fit", "step", "train", "train_on_batch", "backward", "gradient", "watch", "grad", "value_and_grad"}


def is_script(path: Path) -> bool:
    """Whether a file trains by itself: it calls `fit`, `step`, `train` or the like, and has no function `model`."""
    try:
        tree = parsed(path.read_bytes())
    except (OSError, SyntaxError, ValueError, RecursionError):
        return False
    if any(isinstance(node, ast.FunctionDef) and node.name == "model" for node in tree.body):
        return False
    called = {getattr(node.func, "attr", getattr(node.func, "id", "")) for node in calls_of(tree)}
    return bool(called & TRAINING)


def trains(address: Address) -> bool:
    """Whether an address is a training script's."""
    return address.kind == "file" and address.path is not None and is_script(address.path)


def known(address: Address) -> Found | None:
    """What an earlier run of this script found, with these files, arguments and versions."""
    with suppress(OSError, ValueError, TypeError):
        found = json.loads(_kept(address).read_text(encoding="utf-8"))
        return Found(**found | {"pipeline": tuple(Rate(*each) for each in found["pipeline"])})
    return None


def keep(address: Address, found: Found) -> None:
    """Write what was found in a script, for `known`."""
    write_atomically(json.dumps(asdict(found)), _kept(address))


def probe(address: Address) -> Found:
    """Run the script in a process of its own until its training starts, and keep what was found.

    Raises StudyError in one line where it fails, ends or takes too long before.
    """
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__, address.text],
            env=os.environ | QUIETLY | package_first(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StudyError(f"{address.label}: its training did not start within {START_SECONDS:g} s") from None
    found = known(address)
    if done.returncode or found is None:
        lines = [line for line in done.stderr.strip().splitlines() if line.strip()]
        raise StudyError(lines[-1] if lines else f"{address.label}: ended with exit code {done.returncode}")
    return found


def script_class(address: Address, kinds: Mapping[str, type[ModelFile]]) -> type[ModelFile]:
    """The workload class of a script, derived from the one of its framework in `kinds`, if there is one.

    Its functions run the script until its training starts, once in a process. Before `probe` found what its training
    is, the class has a fault that says so.
    """
    found = known(address)
    assert address.path is not None
    unknown = Declaration(
        fault=f"was not looked at yet: whichdevice ask {address.label} runs it until it trains",
        framework=framework_of(parsed(address.path.read_bytes())),
    )
    declared = found.declaration() if found else unknown
    chosen = model_file_class(address, partial(_started, address), declared, kinds.get(declared.framework))
    fields = {"found": found, "__doc__": chosen.__doc__} | ({"tried": found.batch_size} if found else {})
    return type("ScriptFile", (chosen,), fields)


@cache
def _started(address: Address) -> SimpleNamespace:
    assert address.path is not None
    return start(address.path, address.arguments).functions


def start(path: Path, arguments: Sequence[str]) -> Script:
    """Run a script in this process until its training starts.

    Raises StudyError where it ends or fails before, or trains in a way that is not known.
    """
    framework = framework_of(parsed(path.read_bytes()))
    with _as_main(path, arguments):
        if framework == JAX:
            from whichdevice.models.jax_script import start_jax

            return start_jax(path)
        if framework == TORCH:
            from whichdevice.models.torch_script import start_torch

            return start_torch(path)
        return _start_keras(path)


def _start_keras(path: Path) -> Script:
    """The script with its compiled model and the data of `fit`."""
    import keras

    seen: dict[str, Any] = {}

    def look(frame: FrameType, event: str, _: Any) -> None:
        if event != "call":
            return
        name, own = frame.f_code.co_name, frame.f_locals.get("self")
        if name == "__enter__" and type(own).__name__ == "GradientTape":
            sys.setprofile(None)
            seen["tape"] = line_of(frame, path)
            raise Started
        if name in ("fit", "train_on_batch") and isinstance(own, keras.Model) and "x" in frame.f_locals:
            sys.setprofile(None)
            seen.update(frame.f_locals, line=line_of(frame, path))
            raise Started

    sys.setprofile(look)
    try:
        run(path)
    except Started:
        pass
    finally:
        sys.setprofile(None)
    if "tape" in seen:
        raise StudyError(
            f"{path.name}, line {seen['tape']}: a loop with tf.GradientTape runs on TensorFlow alone; put its step "
            "into train_step() of a keras.Model and call fit, or write a model file (docs/start/your-model.md)"
        )
    if "self" not in seen:
        raise StudyError(f"{path.name}: ended, and nothing called fit: which training is meant?")
    model, line = seen["self"], seen["line"]
    if not model.compiled:
        raise StudyError(f"{path.name}, line {line}: the model is not compiled: call model.compile(...) before fit")
    x, y, weights = seen["x"], seen.get("y"), seen.get("sample_weight")
    batch, examples = _keras_sizes(x, seen.get("batch_size"), seen.get("steps_per_epoch"))
    policy = getattr(model.dtype_policy, "name", "float32")
    found = Found(
        framework=KERAS,
        batch_size=batch,
        examples=examples,
        epochs=int(seen.get("epochs") or 1) - int(seen.get("initial_epoch") or 0),
        steps_per_epoch=seen.get("steps_per_epoch"),
        precision="mixed" if policy.startswith("mixed") else "single",
        line=line,
    )
    parts = x if y is None and _streams(x) else tuple(part for part in (x, y, weights) if part is not None)
    functions = SimpleNamespace(model=lambda: model, data=lambda: parts)
    return Script(found, functions, x if _streams(x) else None)


def _streams(x: Any) -> bool:
    """Whether `fit` takes targets from x itself: a tf.data.Dataset, a PyDataset, a DataLoader or a generator."""
    return hasattr(x, "as_numpy_iterator") or not (hasattr(x, "shape") or isinstance(x, Mapping | list | tuple))


def _keras_sizes(x: Any, batch: int | None, steps: int | None) -> tuple[int, int | None]:
    """Batch size and examples of one epoch, of what `fit` was given."""
    if not _streams(x):
        first = x
        while isinstance(first, Mapping | list | tuple):
            first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
        return min(batch or 32, len(first)), (batch or 32) * steps if steps else len(first)
    if hasattr(x, "cardinality"):  # tf.data
        part = next(iter(x.take(1)))
        while isinstance(part, Mapping | list | tuple):
            part = next(iter(part.values())) if isinstance(part, Mapping) else part[0]
        count = steps or int(x.cardinality())
        return int(part.shape[0]), count * int(part.shape[0]) if count > 0 else None
    batch = int(getattr(x, "batch_size", None) or batch or 32)
    length = steps or (len(x) if hasattr(x, "__len__") else None)
    return batch, length * batch if length else None


@contextmanager
def _as_main(path: Path, arguments: Sequence[str]) -> Iterator[None]:
    """Arguments and import path as `python train.py ...` has them."""
    argv, folders = sys.argv, list(sys.path)
    sys.argv = [str(path), *arguments]
    sys.path.insert(0, str(path.absolute().parent))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = argv, folders


def _kept(address: Address) -> Path:
    """The file of what was found: its name is a hash of the script's files, arguments, versions and Python."""
    code = code_hash(*(f"whichdevice.models.{name}" for name in ("scripts", "torch_script", "jax_script")))
    digest = hashlib.sha256(repr((address.arguments, platform.python_version(), code)).encode())
    for path in address.files():
        digest.update(path.name.encode() + path.read_bytes())
    for name in VERSIONS:
        with suppress(metadata.PackageNotFoundError):
            digest.update(f"{name} {metadata.version(name)}".encode())
    return FOLDER / f"{digest.hexdigest()[:16]}.json"


def main() -> None:
    """Run one script and write what was found: `python -m whichdevice.models.scripts ADDRESS`."""
    address = read_address(sys.argv[1])
    assert address.path is not None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they would hide the last line
            script = start(address.path, address.arguments)
    except StudyError as error:
        print(error, file=sys.stderr)
        raise SystemExit(1) from None
    keep(address, replace(script.found, pipeline=tuple(rates(script.batches, script.found.batch_size))))
    sys.stdout.flush()
    os._exit(0)  # threads of the script's data loaders would go on


if __name__ == "__main__":
    main()

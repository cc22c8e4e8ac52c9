"""Count what a step of a workload's model costs, in a trace of it.

Where JAX is installed its trace (a jaxpr) is read, which runs nothing: in this process if Keras runs on JAX, else in a
child process that builds the workload's model anew on JAX. Elsewhere PyTorch's FlopCounterMode counts one example.

A measured process always has a child count, so that its own trace never makes its first step quicker, and keeps the
count in a file of the folder that its supervisor names, so that a study counts each model once.
"""

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.files import package_first, write_atomically
from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.base.processes import quick_imports
from whichdevice.models.address import built_in_names
from whichdevice.models.costs import Costs, by_jax, by_torch
from whichdevice.models.loading import Model
from whichdevice.models.model_file import ModelFile, all_layers
from whichdevice.models.shapes import Array, Tree, from_json, leaves, to_json
from whichdevice.models.without_keras import NativeModel
from whichdevice.models.workloads.base import Options, TrainingWorkload

# Layers of one framework in a model of another: what they do is in no trace of Keras.
HIDING = ("TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFSMLayer")
COUNTS = Path("results/costs")
KEY_LENGTH = 16
CHILD_SECONDS = 300.0
ENVIRONMENT = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}  # of the child process


def counts_folder(model: Model) -> Path:
    """The folder of a model's counts, relative to the working directory; other code is another."""
    return COUNTS / model.hash("whichdevice.models.counting")


def without_values(make: Callable[[], Any]) -> Any:
    """The model that `make` makes on JAX, whose weights have no values, which would take longest.

    One that comes compiled has them: no optimiser is made otherwise.
    """
    import keras

    try:
        with keras.StatelessScope(initialize_variables=False):
            return make()
    except (StudyError, ValueError) as error:
        if "stateless scope" not in str(error):
            raise
    return make()


def model_costs(
    model: Any, example: Tree = None, workload: TrainingWorkload | None = None, kept: Path | None = None
) -> Costs:
    """Count a built Keras model for inputs like `example`: shape and type of one, without the batch; or its own.

    `workload` is whose model it is, so that a child process can build it on JAX where Keras runs on another backend
    here. With a folder `kept` the count is read from there, or made by a child process on every backend and written
    there.
    """
    if isinstance(model, NativeModel):
        return model.costs
    import keras

    trainable = sum(prod(weight.shape) for weight in model.trainable_weights)
    known = Costs(None, None, 0.0, model.count_params(), trainable)
    inputs = example if example is not None else _inputs(model)
    backend = keras.backend.backend()
    try:
        if workload is not None and find_spec("jax") is not None and (kept is not None or backend != "jax"):
            costs = _counted_elsewhere(workload, inputs, known.parameters, kept)
        elif backend == "jax":
            costs = by_jax(model, inputs)
        elif backend == "torch":
            costs = by_torch(model, inputs)
        else:
            return replace(known, counted="unknown: counting needs JAX or PyTorch, and neither is installed")
    except Exception as error:  # a model that is at fault fails in training, in its own words
        return replace(known, counted=f"unknown: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
    if costs.parameters not in (0, known.parameters):
        return replace(known, counted="unknown: on JAX the model has another number of weights")
    costs = _honest(costs, model)
    if any(None in array.shape for array in leaves(inputs)) and costs.counted == WHOLE_COUNT:
        costs = replace(costs, counted="a lower bound: open axes of the input count 1")
    return replace(costs, parameters=known.parameters, trainable_parameters=trainable)


def _honest(costs: Costs, model: Any) -> Costs:
    """The count, unknown where it has no product of a model with weights, a lower bound where layers hide theirs."""
    hidden = sorted({type(layer).__name__ for layer in all_layers(model)} & {*HIDING})
    if costs.forward_flops == 0:
        reason = f"unknown: {', '.join(hidden)} hides its products" if hidden else "unknown: no product was found"
        return replace(costs, forward_flops=None, training_flops=None, counted=reason)
    traced = {*hidden} <= {"JaxLayer", "FlaxLayer"} and costs.operations
    if hidden and costs.forward_flops is not None and not traced:
        return replace(costs, counted=f"a lower bound: without {', '.join(hidden)}")
    return costs


def _inputs(model: Any) -> Tree:
    """Shapes and types of one input of a model, None along axes that it leaves open."""
    inputs = tuple(Array(tuple(tensor.shape[1:]), str(tensor.dtype)) for tensor in model.inputs)
    return inputs[0] if len(inputs) == 1 else inputs


def _counted_elsewhere(workload: TrainingWorkload, example: Tree, parameters: int, kept: Path | None) -> Costs:
    """The count in the folder `kept` if it is there, else of a child process, whose count then is there."""
    module, options = _asked(workload)
    shape = json.dumps(to_json(example), sort_keys=True)
    if kept is None:
        return Costs(**json.loads(_by_child(module, options, shape)))
    file = kept / f"{_key(module, options, shape, parameters)}.json"
    try:
        return Costs(**json.loads(file.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):  # none yet, or no count
        counted = _by_child(module, options, shape)
    with suppress(OSError):  # a full disk or a folder that may not be written: the next run counts again
        write_atomically(counted, file)
    return Costs(**json.loads(counted))


def _key(module: str, options: str, example: str, parameters: int) -> str:
    """Hash of what a count depends on beside the code, which names the folder."""
    asked = json.loads(options)
    if module in built_in_names():  # an example of a built-in model costs the same in every batch and fraction
        asked = {name: value for name, value in asked.items() if name not in ("batch_size", "fraction")}
    parts = asked, example, parameters
    versions = version("keras"), version("jax")
    return hashlib.sha256(json.dumps([*parts, *versions], sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def _asked(workload: TrainingWorkload) -> tuple[str, str]:
    """Name or file of a workload and its options, for another process to make it anew."""
    kind = type(workload)
    if isinstance(workload, ModelFile):
        module = workload.address.text
    elif kind.__module__.startswith("whichdevice.models.workloads."):
        module = kind.__module__.rpartition(".")[2]
    else:
        module = str(sys.modules[kind.__module__].__file__)
    options = asdict(replace(workload.options, read=set()))
    options.pop("read")
    return module, json.dumps(options, sort_keys=True)


@cache
def _by_child(module: str, options: str, example: str) -> str:
    """The costs as JSON, from a process in which Keras runs on JAX. Raises RuntimeError with its last words."""
    asked = json.dumps({"module": module, "options": json.loads(options), "example": json.loads(example)})
    done = subprocess.run(
        [sys.executable, "-m", __name__, asked],
        env={**os.environ, **ENVIRONMENT, **package_first()},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=CHILD_SECONDS,
        check=False,
    )
    if done.returncode:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise RuntimeError(f"on JAX: {lines[-1]}")
    return done.stdout.splitlines()[-1]


def main() -> None:
    """Print the costs of one workload's model as a line of JSON: `python -m whichdevice.models.counting JOB`."""
    job = json.loads(sys.argv[1])
    with quick_imports("tensorflow", "torch"):
        import keras  # noqa: F401
    workload = Model.read(job["module"]).workload(Options(**job["options"]))
    if not isinstance(workload, TrainingWorkload):
        raise TypeError(f"{job['module']} trains no model")
    example = from_json(job["example"])
    model = without_values(lambda: workload.model_like(example))
    costs = model_costs(model, example=example)
    print(json.dumps(asdict(costs)))


if __name__ == "__main__":
    main()

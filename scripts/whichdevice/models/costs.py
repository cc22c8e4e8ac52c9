"""What a step of a Keras model costs, counted in a trace of it: operations, bytes, numbers kept for gradients.

A product of n × k by k × m counts 2·n·k·m operations, a convolution two for each place of its result (of its input,
where it is transposed) and each weight that meets it, padding included. Elementwise work is left out, as is usual for
FLOP utilisation; attention counts every place with every other, whether a mask leaves half of them out or not.

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
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import cache
from importlib.metadata import version
from importlib.util import find_spec
from math import prod
from pathlib import Path
from typing import Any

from whichdevice.files import package_first, write_atomically
from whichdevice.models.address import read_address
from whichdevice.models.shapes import Array, Tree, from_json, in_mode, leaves, mapped, to_json
from whichdevice.models.without_keras import NativeModel
from whichdevice.processes import quick_imports
from whichdevice.records.schema import WHOLE_COUNT
from whichdevice.workloads.base import Options, TrainingWorkload

# Layers of one framework in a model of another: what they do is in no trace of Keras.
HIDING = ("TorchModuleWrapper", "JaxLayer", "FlaxLayer", "TFSMLayer")
COUNTS = Path("results/costs")
KEY_LENGTH = 16
CHILD_SECONDS = 300.0
ENVIRONMENT = {"KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": "-1"}  # of the child process
OPAQUE = ("custom_call", "ffi_call", "pallas_call", "pure_callback", "io_callback")  # a jaxpr does not show their work


@dataclass(frozen=True)
class Costs:
    """Costs of one example (not of a batch); None is unknown."""

    forward_flops: float | None
    training_flops: float | None  # forward and the gradients of all trained weights
    activations: float  # numbers that the backward pass needs again; 0 where nobody could count
    parameters: int
    trainable_parameters: int
    counted: str = WHOLE_COUNT  # else what is missing, or why there is no count
    operations: float = 0.0  # that a host starts for a training step, whatever the batch; 0 is unknown

    def step_flops(self, batch_size: int) -> float | None:
        """Operations of one training step; None is unknown."""
        return None if self.training_flops is None else self.training_flops * batch_size

    def call_flops(self, batch_size: int) -> float | None:
        """Operations of one forward pass of a batch; None is unknown."""
        return None if self.forward_flops is None else self.forward_flops * batch_size


def counts_folder(module: str) -> Path:
    """Where the counts of a workload's model are kept, relative to the working directory; other code is another."""
    from whichdevice.models.loading import workload_hash

    return COUNTS / workload_hash(module, "whichdevice.models.costs")


def model_costs(
    model: Any,
    sequence_length: int | None = None,
    example: Tree = None,
    workload: TrainingWorkload | None = None,
    kept: Path | None = None,
) -> Costs:
    """Count a built Keras model for inputs like `example`: shape and type of one, without the batch.

    Without it they are the model's own, with `sequence_length` along axes that it leaves open. `workload` is whose
    model it is, so that a child process can build it on JAX where Keras runs on another backend here. With a folder
    `kept` the count is read from there, or made by a child process on every backend and written there.
    """
    if isinstance(model, NativeModel):
        return model.costs
    import keras

    trainable = sum(prod(weight.shape) for weight in model.trainable_weights)
    known = Costs(None, None, 0.0, model.count_params(), trainable)
    inputs = _inputs(model, sequence_length, example)
    backend = keras.backend.backend()
    try:
        if workload is not None and find_spec("jax") is not None and (kept is not None or backend != "jax"):
            found = _counted_elsewhere(workload, inputs, known.parameters, kept)
        elif backend == "jax":
            found = _by_jax(model, inputs)
        elif backend == "torch":
            found = _by_torch(model, inputs)
        else:
            return replace(known, counted="unknown: counting needs JAX or PyTorch, and neither is installed")
    except Exception as error:  # a model that is at fault fails in training, in its own words
        return replace(known, counted=f"unknown: {type(error).__name__}: {str(error).strip().partition(chr(10))[0]}")
    if found.parameters not in (0, known.parameters):
        return replace(known, counted="unknown: on JAX the model has another number of weights")
    found = _honest(found, model)
    if any(None in array.shape for array in leaves(inputs)) and found.counted == WHOLE_COUNT:
        found = replace(found, counted="a lower bound: open axes of the input count 1")
    return replace(found, parameters=known.parameters, trainable_parameters=trainable)


def _honest(found: Costs, model: Any) -> Costs:
    """The count, unknown where it has no product of a model with weights, a lower bound where layers hide theirs."""
    hidden = sorted({type(layer).__name__ for layer in _all_layers(model) if type(layer).__name__ in HIDING})
    if found.forward_flops == 0:
        reason = f"unknown: {', '.join(hidden)} hides its products" if hidden else "unknown: no product was found"
        return replace(found, forward_flops=None, training_flops=None, counted=reason)
    traced = {*hidden} <= {"JaxLayer", "FlaxLayer"} and found.operations
    if hidden and found.forward_flops is not None and not traced:
        return replace(found, counted=f"a lower bound: without {', '.join(hidden)}")
    return found


def _all_layers(model: Any) -> list[Any]:
    """A model's layers, and the layers of the models in it."""
    found, waiting = [], [model]
    while waiting:
        layer = waiting.pop()
        found.append(layer)
        waiting += getattr(layer, "layers", [])
    return found


def output_shape(model: Any, example: Tree, outputs: Tree = None) -> list[int]:
    """Shape of the first of what the model gives for one input like `example`; an axis that nobody knows counts 1."""
    if isinstance(model, NativeModel):
        return model.output_shape
    from keras import KerasTensor

    first = next(iter(leaves(outputs)), None) or next(iter(getattr(model, "outputs", None) or ()), None)
    if first is None:  # a model without a call
        return []
    shape = first.shape if isinstance(first, Array) else first.shape[1:]
    if None in shape:
        inputs = _inputs(model, None, example)
        given = mapped(lambda own: KerasTensor((1, *(size or 1 for size in own.shape)), own.dtype), inputs)
        try:
            spec = leaves(model.compute_output_spec(given))[0]
        except Exception:  # training fails too, in its own words
            return [size or 1 for size in shape]
        return [size or 1 for size in spec.shape[1:]]
    return list(shape)


def _is_shape(example: Tree) -> bool:
    return all(size is None or isinstance(size, int) for size in example)


def _inputs(model: Any, sequence_length: int | None, example: Tree) -> Tree:
    """Shapes and types of one input: as given, else the model's own with the sequence along open axes."""
    if example is not None and not (isinstance(example, tuple | list) and _is_shape(example)):
        return example
    own = tuple(
        Array(tuple(sequence_length if size is None else size for size in tensor.shape[1:]), str(tensor.dtype))
        for tensor in model.inputs
    )
    if example is not None:  # the shape of the first
        own = (replace(own[0], shape=tuple(example)), *own[1:])
    return own[0] if len(own) == 1 else own


def _by_jax(model: Any, inputs: Tree) -> Costs:
    """Count in the jaxprs of a step's gradients and of its forward half, which returns what the other half needs."""
    import jax
    from jax import numpy as jnp

    def total(trainable: Any, held: Any, given: Any) -> Any:
        out = model.stateless_call(trainable, held, given, **in_mode(model, True))[0]
        return sum(jnp.sum(leaf.astype("float32")) for leaf in jax.tree.leaves(out))

    trainable, held = (
        [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    )
    examples = mapped(lambda own: jax.ShapeDtypeStruct((1, *(size or 1 for size in own.shape)), own.dtype), inputs)
    return jaxpr_costs(total, trainable, held, examples)


def jaxpr_costs(total: Callable[..., Any], trainable: Any, *others: Any) -> Costs:
    """Count the forward pass and the gradients of `total(trainable, *others)`, a scalar, from their jaxprs."""
    import jax
    from jax import numpy as jnp

    def forward_half(trainable: Any, *others: Any) -> Any:
        return jax.tree.leaves(jax.vjp(lambda weights: total(weights, *others), trainable)[1])

    arguments = trainable, *others
    forward, whole = (jax.make_jaxpr(function)(*arguments).jaxpr for function in (forward_half, jax.grad(total)))
    kept = {out for out in forward.outvars if not hasattr(out, "val")} - set(forward.invars)  # no constants, no weights
    activations = sum(out.aval.size for out in kept if jnp.issubdtype(out.aval.dtype, jnp.floating))
    hidden = ", ".join(sorted(_opaque(whole)))
    counted = f"a lower bound: without {hidden}" if hidden else WHOLE_COUNT
    flops = _flops(forward), _flops(whole)
    return Costs(*flops, float(activations), 0, 0, counted, _started(whole))


def _started(jaxpr: Any) -> float:
    """Operations that a framework starts one by one where it compiles nothing: a scan's body as often as it runs."""
    total = 0.0
    for equation in jaxpr.eqns:
        times = equation.params["length"] if equation.primitive.name == "scan" else 1
        inner = _inner(equation)
        total += times * sum(map(_started, inner)) if inner else 1
    return total


def _flops(jaxpr: Any) -> float:
    """Two for each term of its products and convolutions; a scan's body as often as it runs, a loop's once."""
    total = 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            left = equation.invars[0].aval.shape
            total += 2.0 * equation.outvars[0].aval.size * prod(left[axis] for axis in contracted)
        elif name == "conv_general_dilated":
            total += _convolution(equation)
        elif name == "cond":
            total += max(_flops(branch.jaxpr) for branch in equation.params["branches"])
        else:
            times = equation.params["length"] if name == "scan" else 1
            total += times * sum(map(_flops, _inner(equation)))
    return total


def _convolution(equation: Any) -> float:
    """Each place of the result sums over the kernel's places and the channels of its group.

    In transposed convolutions and in gradients result, input and kernel change their parts: the two with the fewest
    places are those of which every pair meets.
    """
    numbers = equation.params["dimension_numbers"]
    given, kernel, result = (each.aval for each in (*equation.invars, *equation.outvars))
    specs = (given, numbers.lhs_spec), (kernel, numbers.rhs_spec), (result, numbers.out_spec)
    places = [prod(each.shape[axis] for axis in spec[2:]) for each, spec in specs]
    pairs = prod(sorted(places)[:2])
    return 2.0 * pairs * result.size / places[2] * kernel.shape[numbers.rhs_spec[1]]


def _inner(equation: Any) -> list[Any]:
    """The jaxprs that an equation holds."""
    found = []
    for value in equation.params.values():
        for each in value if isinstance(value, list | tuple) else [value]:
            each = getattr(each, "jaxpr", each)
            if hasattr(each, "eqns"):
                found.append(each)
    return found


def _opaque(jaxpr: Any) -> set[str]:
    """What holds operations that the count cannot know: loops of unknown length with products, foreign kernels."""
    found: set[str] = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = _inner(equation)
        if name == "while" and any(_flops(each) for each in inner):
            found.add("repeats of a loop")
        elif name in OPAQUE:
            found.add(name)
        found.update(*map(_opaque, inner))
    return found


def _by_torch(model: Any, inputs: Tree) -> Costs:
    """Run one example of zeros there and back, without dropout, and have PyTorch count.

    Attention runs as products, as PyTorch 2.13 does not count its kernels for CPUs.
    """
    import torch
    from keras import ops, tree
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    zeros = mapped(lambda own: ops.zeros((1, *(size or 1 for size in own.shape)), dtype=own.dtype), inputs)
    weights = [variable.value for variable in model.trainable_variables if variable.value.requires_grad]
    kept = {weight.data_ptr(): 0 for weight in weights}

    def keep(tensor: Any) -> Any:
        if tensor.is_floating_point():
            kept.setdefault(tensor.data_ptr(), tensor.numel())
        return tensor

    mapping = {torch.ops.aten.convolution_backward: convolution_gradients}
    forward, backward = (FlopCounterMode(display=False, custom_mapping=mapping) for _ in range(2))
    with sdpa_kernel(SDPBackend.MATH):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), forward:
            out = model(zeros, **in_mode(model, False))
        with backward:
            if weights:
                total = sum(each.float().sum() for each in tree.flatten(out))
                torch.autograd.grad(total, weights, allow_unused=True)
    flops = float(forward.get_total_flops())
    return Costs(flops, flops + backward.get_total_flops(), float(sum(kept.values())), 0, 0)


def convolution_gradients(
    upstream: Any, given: Any, weights: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, wanted: Sequence[bool], **_: Any,
) -> float:  # fmt: skip
    """Each gradient, of input or weights, counts what the convolution does; PyTorch's own forgets the groups."""
    places = given if transposed else upstream
    return 2.0 * sum(wanted[:2]) * given[0] * prod(places[2:]) * prod(weights)


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
    is_built_in = read_address(module).kind == "built-in"
    asked = json.loads(options)
    if is_built_in:  # an example of a built-in model costs the same in every batch and fraction
        asked = {name: value for name, value in asked.items() if name not in ("batch_size", "fraction")}
    parts = asked, example, parameters
    versions = version("keras"), version("jax")
    return hashlib.sha256(json.dumps([*parts, *versions], sort_keys=True).encode()).hexdigest()[:KEY_LENGTH]


def _asked(workload: TrainingWorkload) -> tuple[str, str]:
    """Name or file of a workload and its options, for another process to make it anew."""
    kind = type(workload)
    built_in = kind.__module__.startswith("whichdevice.workloads.") and not hasattr(workload, "module")
    module = kind.__module__.rpartition(".")[2] if built_in else getattr(workload, "module", None)
    options = asdict(replace(workload.options, read=set()))
    options.pop("read")
    return module or str(sys.modules[kind.__module__].__file__), json.dumps(options, sort_keys=True)


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
    """Print the costs of one workload's model as a line of JSON: `python -m whichdevice.models.costs JOB`."""
    job = json.loads(sys.argv[1])
    with quick_imports("tensorflow", "torch"):
        import keras  # noqa: F401
    from whichdevice.models.loading import workload_class

    workload = workload_class(job["module"])(Options(**job["options"]))
    if not isinstance(workload, TrainingWorkload):
        raise TypeError(f"{job['module']} trains no model")
    example = from_json(job["example"])
    model = workload.model_like(example)
    costs = model_costs(model, example=example)
    print(json.dumps(asdict(costs)))


if __name__ == "__main__":
    main()

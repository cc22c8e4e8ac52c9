"""Count what one example costs: operations, and numbers kept for the gradients.

A product of n × k by k × m counts 2·n·k·m operations, a convolution two for each place of its result (of its input,
where it is transposed) and each weight that meets it, padding included. Elementwise work is left out, as is usual for
FLOP utilisation; attention counts every place with every other, whether a mask leaves half of them out or not.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from whichdevice.base.parts import WHOLE_COUNT
from whichdevice.models.shapes import Tree, in_mode, mapped

PRODUCTS = ("dot_general", "conv_general_dilated")
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


def by_jax(model: Any, inputs: Tree) -> Costs:
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
    shape = jax.ShapeDtypeStruct
    examples = mapped(lambda array: shape((1, *(size or 1 for size in array.shape)), array.dtype), inputs)
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
    return Costs(_flops(forward), _flops(whole), float(activations), 0, 0, _counted(whole), _started(whole))


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
            total += times * sum(_flops(inner) for inner in _inner(equation))
    return total


def _convolution(equation: Any) -> float:
    """Each place of the result sums over the kernel's places and the channels of its group.

    In transposed convolutions and in gradients result, input and kernel change their parts: the two with the fewest
    places are those of which every pair meets.
    """
    numbers = equation.params["dimension_numbers"]
    given, kernel, result = (variable.aval for variable in (*equation.invars, *equation.outvars))
    specs = (given, numbers.lhs_spec), (kernel, numbers.rhs_spec), (result, numbers.out_spec)
    places = [prod(array.shape[axis] for axis in spec[2:]) for array, spec in specs]
    pairs = prod(sorted(places)[:2])
    return 2.0 * pairs * result.size / places[2] * kernel.shape[numbers.rhs_spec[1]]


def _inner(equation: Any) -> list[Any]:
    """The jaxprs that an equation holds."""
    values = equation.params.values()
    parts = (part for value in values for part in (value if isinstance(value, list | tuple) else [value]))
    return [inner for part in parts if hasattr(inner := getattr(part, "jaxpr", part), "eqns")]


def _counted(jaxpr: Any) -> str:
    hidden = ", ".join(sorted(_opaque(jaxpr)))
    return f"a lower bound: without {hidden}" if hidden else WHOLE_COUNT


def _opaque(jaxpr: Any) -> set[str]:
    """Return what hides operations from the count: loops of unknown length with products, foreign kernels."""
    hidden: set[str] = set()
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = _inner(equation)
        if name == "while" and any(_flops(body) for body in inner):
            hidden.add("repeats of a loop")
        elif name in OPAQUE:
            hidden.add(name)
        hidden.update(*map(_opaque, inner))
    return hidden


def by_torch(model: Any, inputs: Tree) -> Costs:
    """Run one example of zeros there and back, without dropout, and have PyTorch count."""
    from keras import ops, tree

    zeros = mapped(lambda array: ops.zeros((1, *(size or 1 for size in array.shape)), dtype=array.dtype), inputs)

    def total() -> Any:
        return sum(leaf.float().sum() for leaf in tree.flatten(model(zeros, **in_mode(model, False))))

    return Costs(*torch_counts(total, [variable.value for variable in model.variables]), 0, 0)


def torch_counts(total: Callable[[], Any], held: Sequence[Any], examples: int = 1) -> tuple[float, float, float]:
    """Count operations forward and in training, and numbers kept between, of one of the examples of a scalar `total()`.

    `held` are the weights, which are kept anyway. Attention runs as products of every place with every other, as
    PyTorch 2.13 does not count all its kernels.
    """
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.utils.flop_counter import FlopCounterMode

    weights = [weight for weight in held if weight.requires_grad]
    storages = [weight.untyped_storage() for weight in held]
    known, kept = {id(storage) for storage in storages}, dict[int, Any]()

    def keep(tensor: Any) -> Any:
        if tensor.is_floating_point() and id(tensor.untyped_storage()) not in known:
            kept.setdefault(id(tensor.untyped_storage()), tensor)
        return tensor

    mapping = {torch.ops.aten.convolution_backward: convolution_gradients}
    forward, backward = (FlopCounterMode(display=False, custom_mapping=mapping) for _ in range(2))
    with sdpa_kernel(SDPBackend.MATH):
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor), forward:
            result = total()
        with backward:
            if weights:
                torch.autograd.grad(result, weights, allow_unused=True)
    numbers = sum(tensor.untyped_storage().nbytes() / tensor.element_size() for tensor in kept.values())
    ahead, behind = (float(counter.get_total_flops()) for counter in (forward, backward))
    return ahead / examples, (ahead + behind) / examples, numbers / examples


def convolution_gradients(
    upstream: Any, given: Any, weights: Any, bias: Any, stride: Any, padding: Any, dilation: Any, transposed: bool,
    output_padding: Any, groups: int, wanted: Sequence[bool], **_: Any,
) -> float:  # fmt: skip
    """Each gradient, of input or weights, counts what the convolution does; PyTorch's own forgets the groups."""
    places = given if transposed else upstream
    return 2.0 * sum(wanted[:2]) * given[0] * prod(places[2:]) * prod(weights)

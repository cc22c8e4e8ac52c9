"""Operations of all products in a model and in its gradient, counted in JAX's own trace: nothing is compiled or run."""

from math import prod
from typing import Any


def jax_products(model: Any, tensors: list[Any]) -> tuple[float, float]:
    """Operations of one example, whose Keras tensors these are: forward, and forward with all weights' gradients."""
    import jax
    from jax import numpy as jnp

    def forward(trainable: Any, held: Any, inputs: Any) -> Any:
        out = model.stateless_call(trainable, held, inputs, training=False)[0]
        return sum(jnp.sum(leaf.astype("float32")) for leaf in jax.tree.leaves(out))

    described = [
        [jax.ShapeDtypeStruct(variable.shape, variable.dtype) for variable in variables]
        for variables in (model.trainable_variables, model.non_trainable_variables)
    ]
    inputs = [jax.ShapeDtypeStruct(tensor.shape, tensor.dtype) for tensor in tensors]
    arguments = (*described, inputs[0] if len(inputs) == 1 else inputs)
    traced = [jax.make_jaxpr(function)(*arguments) for function in (forward, jax.grad(forward))]
    return operations(traced[0].jaxpr), operations(traced[1].jaxpr)


def operations(jaxpr: Any) -> float:
    """Two for each term of its products and convolutions; the body of a scan as often as it runs, of others once."""
    total = 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        if name == "dot_general":
            total += _dot(equation)
        elif name == "conv_general_dilated":
            total += _convolution(equation)
        else:
            times = equation.params.get("length", 1) if name == "scan" else 1
            total += times * sum(operations(inner) for inner in _inner(equation))
    return total


def _inner(equation: Any) -> list[Any]:
    """The programs that an equation holds; of a conditional the last branch, as the others are its alternatives."""
    found = []
    for name, value in equation.params.items():
        if name == "branches":
            found.append(value[-1].jaxpr)
        elif hasattr(value, "jaxpr"):
            found.append(value.jaxpr)
        elif hasattr(value, "eqns"):
            found.append(value)
    return found


def _dot(equation: Any) -> float:
    (contracted, _), _ = equation.params["dimension_numbers"]
    left = equation.invars[0].aval.shape
    return 2.0 * prod(equation.outvars[0].aval.shape) * prod(left[axis] for axis in contracted)


def _convolution(equation: Any) -> float:
    """Of a gradient too: each result sums over the kernel's places and the channels of its group."""
    numbers = equation.params["dimension_numbers"]
    kernel = equation.invars[1].aval.shape
    terms = prod(kernel[axis] for axis in numbers.rhs_spec[1:])
    dilation = prod(equation.params["lhs_dilation"])  # most of a spread input is zeros
    return 2.0 * prod(equation.outvars[0].aval.shape) * terms / dilation / equation.params["batch_group_count"]

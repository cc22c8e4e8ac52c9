"""A JAX function's training step or forward pass, of shapes: what the JAX backend runs, for absent devices."""

from collections.abc import Callable
from typing import Any

from whichdevice.backends.jax_function import function_step, gathered, prediction
from whichdevice.backends.jax_training import State
from whichdevice.workloads.jax_model import JaxFile


def jax_step(workload: JaxFile, mode: str) -> tuple[Callable[..., Any], Any, Any]:
    """The function of a step, its first argument as shapes, and shapes of the data."""
    import jax

    train, _ = workload.splits({})
    model = workload.model()

    def shape_of(leaf: Any) -> Any:
        return jax.ShapeDtypeStruct(leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype))

    arrays = {name: shape_of(array) for name, array in train.arrays.items()}
    trained, held = jax.eval_shape(lambda tree: jax.tree.map(workload.typed, tree), (model.trained, model.held))
    if mode == "predict":
        predicted = prediction(model)
        return (
            lambda state, arrays, index: predicted(state, workload.batch(arrays, index)[0]),
            (trained, held),
            arrays,
        )
    optimizer = workload.optimizer()
    workload.check_options()
    state = State(trained, held, jax.eval_shape(optimizer.init, trained))
    return gathered(workload, function_step(workload, model, optimizer)), state, arrays

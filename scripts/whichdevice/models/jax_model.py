"""A workload made of a file whose `model()` returns a JAX function with its parameters (docs/start/your-model.md).

`model()` returns a pair (parameters, apply) with `apply(parameters, inputs)`, which may also take `training` and `key`,
a module of Flax (linen or NNX) or one of Equinox, also with its state. The file's `loss(output, target)` and
`metric(output, target)` are functions of `jax.numpy`, and `optimizer()` returns a transformation of optax.
"""

import inspect
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.framework import JAX
from whichdevice.models.shapes import mapped
from whichdevice.models.without_keras import NativeFile, NativeModel, call_arguments, examples_of
from whichdevice.models.workloads.base import Arrays

MODES = {  # arguments by which a module of Flax linen knows whether it trains; True: that it does not
    "training": False, "train": False, "is_training": False, "deterministic": True, "use_running_average": True,
}  # fmt: skip
EXPECTED = "a pair (parameters, apply) or a module of Flax or Equinox"
RATE = 1e-3  # of an optimiser that is given by its name


class JaxModel(NativeModel):
    """Parameters and what else a model holds, as trees of arrays, and the pure function that applies them."""

    def __init__(
        self, trained: Any, held: Any, apply: Callable[..., Any], kind: str, workload: "JaxFile"
    ) -> None:
        self.trained, self.held, self.apply, self.kind = trained, held, apply, kind
        self.workload = workload

    def sizes(self) -> tuple[int, int]:
        """Numbers of all trees that are floats; trained ones."""
        import jax
        from jax import numpy as jnp

        sizes = [
            sum(leaf.size for leaf in jax.tree.leaves(tree) if jnp.issubdtype(leaf.dtype, jnp.floating))
            for tree in (self.trained, self.held)
        ]
        return sum(sizes), sizes[0]

    def save_weights(self, path: Path) -> None:
        """Write the trained values as an .npz file, by their paths."""
        import jax

        leaves = jax.tree_util.tree_leaves_with_path(self.trained)
        arrays: dict[str, Any] = {jax.tree_util.keystr(where): np.asarray(leaf) for where, leaf in leaves}
        np.savez(path, **arrays)

    def learning_rate(self) -> float | None:
        """Optax keeps none to be read."""
        return None

    @cached_property
    def output_shape(self) -> list[int]:
        """Shape of a prediction, from a trace that runs nothing; raises what the file's model, loss or data raise."""
        import jax

        workload = self.workload
        arrays = {name: jax.ShapeDtypeStruct(array.shape, array.dtype) for name, array in workload.first.items()}
        inputs, target = examples_of(arrays)

        def judged(trained: Any, held: Any, inputs: Any, target: Any) -> Any:
            output, _ = self.apply(trained, held, inputs, True)
            return workload.loss(target, output), output

        total, output = jax.eval_shape(judged, self.trained, self.held, inputs, target)
        if total.shape:
            raise StudyError(f"{workload.address.label}: the loss has shape {total.shape}; a scalar is needed")
        return list(jax.tree.leaves(output)[0].shape[1:])


class JaxFile(NativeFile):
    """A model file of JAX as a workload."""

    framework = JAX
    weights_file = "model.npz"

    def model(self) -> JaxModel:
        """The function and its parameters, traced once on shapes of a few examples."""
        built = self._built()
        with self._explaining("model()"):
            model = self._adapted(built)
        with self._explaining("the first training step"):
            _ = model.output_shape
        return model

    def _adapted(self, built: Any) -> JaxModel:
        """Return it as a function of its parameters, by the package of its class."""
        first = built[0] if isinstance(built, tuple) and built else built
        kinds = {kind.__module__.partition(".")[0] for kind in type(first).__mro__}
        if "equinox" in kinds:
            return self._equinox(*built if isinstance(built, tuple) else (built,))
        if "flax" in kinds and hasattr(built, "init_with_output"):
            return self._linen(built)
        return self._pair(built) if isinstance(built, tuple) else self._module(built)

    def _pair(self, built: tuple[Any, ...]) -> JaxModel:
        import jax

        if len(built) != 2 or not callable(built[1]):
            raise StudyError(
                f"{self.address.label}: model() returns a tuple of {len(built)}; (parameters, apply) is needed"
            )
        trained, function = built
        if any(map(callable, jax.tree.leaves(trained))):
            raise StudyError(
                f"{self.address.label}: model() returns two functions; return (parameters, apply), the parameters as "
                "init gives them"
            )
        known = inspect.signature(function).parameters
        held = {"key": _key()} if "key" in known else {}

        def apply(trained: Any, held: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
            named: dict[str, Any] = {"training": training} if "training" in known else {}
            if "key" in known:
                now, later = jax.random.split(jax.random.wrap_key_data(held["key"]))
                named, held = {**named, "key": now}, {"key": jax.random.key_data(later)}
            return function(trained, inputs, **named), held

        return JaxModel(jax.tree.map(jax.numpy.asarray, trained), held, apply, "function", self)

    def _linen(self, built: Any) -> JaxModel:
        """A module of Flax linen as its parameters and its other collections, which its `apply` takes."""
        import jax

        known = inspect.signature(type(built).__call__).parameters
        key = jax.random.key(0)

        def call(function: Callable[..., Any], first: Any, inputs: Any, training: bool, **others: Any) -> Any:
            args, named = call_arguments(inputs)
            modes = {name: training ^ off for name, off in MODES.items() if name in known}
            return function(first, *args, **named, **modes, **others)

        held = dict(call(built.init, {"params": key, "dropout": key}, self._one(), False))
        trained = held.pop("params", {})

        def apply(trained: Any, held: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
            collections, (now, later) = held["collections"], jax.random.split(jax.random.wrap_key_data(held["key"]))
            given = {"params": trained, **collections}
            output, changed = call(
                built.apply, given, inputs, training, rngs={"dropout": now}, mutable=[*collections] if training else []
            )
            return output, {"collections": {**collections, **changed}, "key": jax.random.key_data(later)}

        state = {"collections": held, "key": jax.random.key_data(key)}
        return JaxModel(trained, state, apply, type(built).__name__, self)

    def _equinox(self, built: Any, state: Any = None) -> JaxModel:
        """A module of Equinox for one example over a batch, with its state; its axis of the batch is named `batch`."""
        import equinox as eqx
        import jax

        trained, rest = eqx.partition(built, eqx.is_inexact_array)
        has_key = "key" in inspect.signature(type(built).__call__).parameters

        def apply(trained: Any, held: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
            module = eqx.nn.inference_mode(eqx.combine(trained, rest), not training)
            later, now = jax.random.split(jax.random.wrap_key_data(held["key"]))

            def one(inputs: Any, key: Any, state: Any) -> tuple[Any, Any]:
                args, named = call_arguments(inputs)
                args = args if state is None else (*args, state)
                output = module(*args, **named, **({"key": key} if has_key else {}))
                return (output, None) if state is None else output

            keys = jax.random.split(now, len(jax.tree.leaves(inputs)[0]))
            batched = jax.vmap(one, in_axes=(0, 0, None), out_axes=(0, None), axis_name="batch")
            output, state = batched(inputs, keys, held["state"])
            return output, {"key": jax.random.key_data(later), "state": state}

        return JaxModel(trained, {"key": _key(), "state": state}, apply, type(built).__name__, self)

    def _one(self) -> Any:
        """A batch of one example, all zeros."""
        from jax import numpy as jnp

        return mapped(lambda array: jnp.zeros((1, *array.shape), array.dtype), self.inputs)

    def _module(self, built: Any) -> JaxModel:
        """A module of Flax NNX as a function of its state. Keys of random numbers are kept as plain numbers."""
        import jax

        nnx = sys.modules.get("flax.nnx")
        if nnx is None or not isinstance(built, nnx.Module):
            raise self._wrong_model(built, EXPECTED)
        graph, trained, others = nnx.split(built, nnx.Param, ...)

        leaves, structure = jax.tree.flatten(others)
        keys = [bool(jax.numpy.issubdtype(leaf.dtype, jax.dtypes.prng_key)) for leaf in leaves]

        def plain(others: Any) -> list[Any]:
            leaves = jax.tree.leaves(others)
            return [jax.random.key_data(leaf) if key else leaf for leaf, key in zip(leaves, keys, strict=True)]

        def apply(trained: Any, held: Any, inputs: Any, training: bool) -> tuple[Any, Any]:
            leaves = [jax.random.wrap_key_data(leaf) if key else leaf for leaf, key in zip(held, keys, strict=True)]
            module = nnx.merge(graph, trained, jax.tree.unflatten(structure, leaves))
            module.train() if training else module.eval()
            args, named = call_arguments(inputs)
            output = module(*args, **named)
            return output, plain(list(nnx.split(module, nnx.Param, ...))[2])

        return JaxModel(trained, plain(others), apply, type(built).__name__, self)

    def loss(self, target: Any, prediction: Any) -> Any:
        """Mean loss of a batch in float32."""
        return self._loss_function(_float32(prediction), target).astype("float32").mean()

    def quality(self, target: Any, prediction: Any) -> Any:
        """Mean of the metric over a batch."""
        return self._metric_function(_float32(prediction), target).astype("float32").mean()

    def optimizer(self) -> Any:
        """A transformation with `init` and `update`, by the file's function or by its name in optax."""
        file, name = self.address.label, self.declared.optimizer
        with self._explaining("optimizer()" if self._has("optimizer") else f"OPTIMIZER {name}"):
            if self._has("optimizer"):
                made = self._called("optimizer")
            else:
                import optax

                if not hasattr(optax, name or ""):
                    raise StudyError(f"{file}: OPTIMIZER {name!r} is not in optax, e.g. adamw; or write optimizer()")
                made = getattr(optax, name or "")(RATE)
        if not (hasattr(made, "init") and hasattr(made, "update")):
            raise StudyError(f"{file}: optimizer() returns a {type(made).__name__}; one of optax is needed")
        return made

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Inputs and targets as they are; where everything is bfloat16, floats in that."""
        from jax import numpy as jnp

        return examples_of({name: self.typed(jnp.take(array, index, axis=0)) for name, array in arrays.items()})

    def typed(self, array: Any) -> Any:
        """Floats in bfloat16 where everything is."""
        return _cast(array, "bfloat16") if self.options.precision == "bfloat16" else array

    def computed(self, tree: Any) -> Any:
        """Return what a forward pass computes with: in mixed precision a copy of parameters and inputs in 16 bits."""
        import jax

        precision = self.options.precision
        kind = precision.removeprefix("mixed_")
        return tree if kind == precision else jax.tree.map(lambda leaf: _cast(leaf, kind), tree)

    def _named_loss(self, name: Any, constant: str = "LOSS") -> Callable[[Any, Any], Any]:
        if name == "cross_entropy":
            return _cross_entropy
        if name == "mean_squared_error":
            return lambda output, target: (output - target) ** 2
        with suppress(ImportError, AttributeError):
            import optax

            return getattr(optax.losses, name)  # type: ignore[no-any-return]
        raise StudyError(
            f"{self.address.label}: {constant} {name!r} is not cross_entropy, mean_squared_error or in optax.losses; "
            f"write a function {constant.lower()}(output, target)"
        )

    def _accuracy(self, output: Any, target: Any) -> Any:
        return (output.argmax(-1) == target).astype("float32")


def _key() -> Any:
    """A key of random numbers as the plain numbers that it is of."""
    import jax

    return jax.random.key_data(jax.random.key(0))


def _float32(tree: Any) -> Any:
    return mapped(lambda leaf: _cast(leaf, "float32"), tree)


def _cast(leaf: Any, kind: str) -> Any:
    """A float in another format; whole numbers stay as they are."""
    from jax import numpy as jnp

    return leaf.astype(kind) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf


def _cross_entropy(output: Any, target: Any) -> Any:
    """Return it for logits [..., classes] and class numbers [...]."""
    import jax
    from jax import numpy as jnp

    return -jnp.take_along_axis(jax.nn.log_softmax(output), target[..., None].astype("int32"), axis=-1)

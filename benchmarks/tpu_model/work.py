"""What a program hands to the compiler, and shapes placed on a slice."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

P = PartitionSpec


@dataclass(frozen=True)
class Work:
    """A function and its arguments as shapes with shardings.

    `donate` are the arguments that it may overwrite, `steps` the steps that one call makes, `kept` the first results
    where they must lie as the arguments of the same shapes do, `options` the published run's compiler options.
    """

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    donate: tuple[int, ...] = ()
    steps: int = 1
    kept: tuple[Any, ...] = ()
    options: dict[str, str] = field(default_factory=dict)

    def lower(self) -> Any:
        """JAX's lowering, ready to be compiled for the devices of the shardings."""
        results = {}
        if self.kept:
            results["out_shardings"] = (*jax.tree.map(lambda leaf: leaf.sharding, self.kept), None)
        return jax.jit(self.function, donate_argnums=self.donate, **results).lower(*self.arguments)


def mesh_of(devices: Sequence[Any], **axes: int) -> Mesh:
    """A mesh with these axes; one axis `batch` over all devices where none is named."""
    axes = axes or {"batch": len(devices)}
    return Mesh(np.array(devices).reshape(tuple(axes.values())), tuple(axes))


def placed(tree: Any, mesh: Mesh, spec: Any = None) -> Any:
    """Shapes with a sharding: whole on every device, or one PartitionSpec for all leaves."""
    sharding = NamedSharding(mesh, P() if spec is None else spec)
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding), tree)


def shape(*dims: int, dtype: str = "float32") -> Any:
    """A shape without a place."""
    return jax.ShapeDtypeStruct(dims, dtype)

"""Which framework a model file is written in, read from its syntax tree: nothing of the file runs for it.

The constant FRAMEWORK says so; without it the file's imports do. A file that imports Keras is a Keras model, whatever
else it imports; otherwise one that imports PyTorch is a PyTorch model, and one that imports JAX a JAX function.
"""

import ast
from typing import Final

KERAS: Final = "keras"
TORCH: Final = "torch"
JAX: Final = "jax"
BACKENDS = {KERAS: ("tensorflow", "jax", "torch"), TORCH: ("torch",), JAX: ("jax",)}
NAMES = {KERAS: "a Keras model", TORCH: "a PyTorch model", JAX: "a JAX function"}
PACKAGES = {
    KERAS: {"keras", "keras_hub", "keras_cv", "tensorflow"},
    TORCH: {"torch", "torchvision", "transformers", "timm", "diffusers", "lightning", "torch_geometric"},
    JAX: {"jax", "flax", "optax", "equinox", "haiku"},
}


def framework_of(tree: ast.Module) -> str:
    """`keras`, `torch` or `jax`, of what a file imports anywhere; `keras` where it imports neither."""
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and not node.level:
            imported.add((node.module or "").partition(".")[0])
    return next((name for name, packages in PACKAGES.items() if packages & imported), KERAS)

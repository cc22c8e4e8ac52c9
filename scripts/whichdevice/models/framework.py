"""The framework that a model file is written in, read from its syntax tree: nothing of the file runs for it.

The constant FRAMEWORK says so; without it the file's imports do. A file that imports Keras, or uses `tf.keras` for more
than data, is a Keras model, whatever else it imports; otherwise one that imports PyTorch is a PyTorch model, and one
that imports JAX a JAX function, even where TensorFlow reads its data.
"""

import ast
import re
import sys
from collections.abc import Iterable
from importlib.metadata import packages_distributions, requires
from pathlib import Path
from typing import Final

from whichdevice.base.code_hash import imported_names, imported_packages, parsed

KERAS: Final = "keras"
TORCH: Final = "torch"
JAX: Final = "jax"
REQUIREMENT = re.compile(r"[\w-]+")
BACKENDS = {KERAS: ("tensorflow", "jax", "torch"), TORCH: ("torch",), JAX: ("jax",)}
FRAMEWORKS = {KERAS: "a Keras model", TORCH: "a PyTorch model", JAX: "a JAX function"}
FRAMEWORK_PACKAGES = {
    KERAS: {"keras", "keras_hub", "keras_cv"},
    TORCH: {
        "torch", "torchvision", "transformers", "timm", "diffusers", "lightning", "pytorch_lightning", "accelerate",
        "torch_geometric", "sentence_transformers", "stable_baselines3", "peft", "trl", "ultralytics",
    },
    JAX: {"jax", "flax", "optax", "equinox", "haiku"},
}  # fmt: skip


def framework_in(files: Iterable[Path]) -> str:
    """The framework of the first of several files that imports one, as a script's `engine.py` may.

    Else the framework that an imported, installed package needs; else `keras`.
    """
    trees = [parsed(file.read_bytes()) for file in files if file.suffix == ".py"]
    imported = next(filter(None, (framework_of(tree, "") for tree in trees)), None)
    return imported or next(filter(None, map(_of_requirements, trees)), KERAS)


def _of_requirements(tree: ast.Module) -> str | None:
    """The framework that an imported package needs, by its own metadata."""
    imported = imported_packages(ast.walk(tree)) - sys.stdlib_module_names
    installed = packages_distributions() if imported else {}
    for distribution in (name for package in imported for name in installed.get(package, ())):
        needed = {name[0].lower() for text in requires(distribution) or () if (name := REQUIREMENT.match(text))}
        for framework, packages in FRAMEWORK_PACKAGES.items():
            if packages & needed:
                return framework
    return None


def framework_of(tree: ast.Module, otherwise: str = KERAS) -> str:
    """`keras`, `torch` or `jax`, of what a file imports anywhere; `otherwise` where it imports neither."""
    nodes = list(ast.walk(tree))
    imported = imported_packages(nodes)
    aliases = (alias for node in nodes if isinstance(node, ast.Import) for alias in node.names)
    tensorflow = {alias.asname or alias.name for alias in aliases if alias.name == "tensorflow"}
    attributes = [node for node in nodes if isinstance(node, ast.Attribute)]
    loaders = {id(node.value) for node in attributes if node.attr in ("datasets", "utils")}
    if any(f"{name}.".startswith("tensorflow.keras.") for name in imported_names(tree, "")) or any(
        attribute.attr == "keras" and getattr(attribute.value, "id", "") in tensorflow and id(attribute) not in loaders
        for attribute in attributes
    ):
        imported.add("keras")
    return next((name for name, packages in FRAMEWORK_PACKAGES.items() if packages & imported), otherwise)

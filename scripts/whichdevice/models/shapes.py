"""Structures of arrays: one array, or tuples and dicts of them, and what a Keras model takes and gives.

Data travel as a flat dict of arrays, whose keys are the path of each: `inputs`, `inputs/token_ids`, `targets/#0`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from whichdevice.base.errors import StudyError

Tree = Any  # a leaf, or tuples, lists and dicts of trees
Shape = tuple[int | None, ...]


@dataclass(frozen=True)
class Array:
    """Shape and type of one example; a None in the shape is the sequence length, `below` the bound of whole numbers."""

    shape: Shape
    dtype: str = "float32"
    below: int | None = None
    distribution: bool = False  # whether the last axis holds shares that add up to 1


def named(tree: Tree, name: str) -> dict[str, Any]:
    """The leaves of a tree by their paths, which begin with `name`; of None there are none."""
    if isinstance(tree, Mapping):
        return {key: leaf for part in tree for key, leaf in named(tree[part], f"{name}/{_escaped(part)}").items()}
    if isinstance(tree, tuple | list):
        return {key: leaf for place, part in enumerate(tree) for key, leaf in named(part, f"{name}/#{place}").items()}
    return {} if tree is None else {name: tree}


def packed(flat: Mapping[str, Any], name: str) -> Tree:
    """The tree again whose leaves are below `name`; None where there is no such leaf."""
    if name in flat:
        return flat[name]
    parts: dict[str, None] = {}
    for key in flat:
        if key.startswith(f"{name}/"):
            parts[key[len(name) + 1 :].partition("/")[0]] = None
    if not parts:
        return None
    below = {part: packed(flat, f"{name}/{part}") for part in parts}
    if all(part.startswith("#") for part in parts):
        return tuple(below[f"#{place}"] for place in range(len(parts)))
    return {part.replace("%2F", "/").replace("%23", "#").replace("%25", "%"): leaf for part, leaf in below.items()}


def _escaped(name: object) -> str:
    return str(name).replace("%", "%25").replace("/", "%2F").replace("#", "%23")


def leaves(tree: Tree) -> list[Any]:
    """The leaves of a tree in its own order."""
    return list(named(tree, "").values())


def mapped(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """A tree of what the function gives for each leaf, and for the leaves in the same places of the others."""
    if isinstance(tree, Mapping):
        return {key: mapped(function, part, *(other[key] for other in others)) for key, part in tree.items()}
    if isinstance(tree, tuple | list):
        return tuple(mapped(function, *parts) for parts in zip(tree, *others, strict=True))
    return None if tree is None else function(tree, *others)


def concrete(array: Array, sequence_length: int | None) -> tuple[int, ...]:
    """The shape of one example with the sequence length in place of None."""
    return tuple(size if size is not None else sequence_length or 1 for size in array.shape)


class Signature(NamedTuple):
    """The inputs and outputs of a model for one example, as trees of Array; None in a shape is any size."""

    inputs: Tree
    outputs: Tree | None  # None: a model without a `call`, which only its own train_step uses
    names: tuple[str, ...] = ()  # of the inputs, where they are a sequence


def signature_of(model: Any, given: Tree | None, file: str) -> Signature:
    """A Keras model's signature; a model that was not called yet is built for inputs like `given`.

    Raises StudyError where it is no Keras model, or nobody says what it takes.
    """
    import keras

    if not isinstance(model, keras.Model):
        what = "None (is a `return` missing?)" if model is None else f"a {type(model).__name__}"
        is_module = any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__)
        hint = '; for a PyTorch module add FRAMEWORK = "torch"' if is_module else ""
        raise StudyError(f"{file}: model() returns {what}; a Keras model is needed{hint}")
    if model.built and getattr(model, "inputs", None):
        one = isinstance(model, keras.Sequential)
        taken, made = (model.inputs[0], model.outputs[0]) if one else (model.input, model.output)
        names = tuple(tensor.name for tensor in model.inputs)
        return Signature(mapped(_described, taken), mapped(_described, made), names)
    if given is None:
        raise StudyError(
            f"{file}: model() returns a model whose inputs are not known; start it with keras.Input(...), or say INPUT "
            'in the file, e.g. INPUT = {"shape": (28, 28, 1)}'
        )
    if type(model).call is keras.Model.call:  # only its own train_step uses its parts
        model.built = True
        return Signature(given, None)
    symbolic = mapped(lambda array: keras.Input(array.shape, dtype=array.dtype), given)
    return Signature(given, mapped(_described, model(symbolic)))


def _described(tensor: Any) -> Array:
    return Array(tuple(tensor.shape[1:]), str(tensor.dtype))


def in_mode(model: Any, training: bool) -> dict[str, bool]:
    """The argument by which a model's call knows whether it trains; none where its call takes none."""
    parameters = inspect.signature(model.call).parameters.values()
    takes = any(parameter.name == "training" or parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)
    return {"training": training} if takes else {}

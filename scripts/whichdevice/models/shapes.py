"""Structures of arrays (one array, or tuples and dicts of them), and whether model, data and loss fit each other.

Data travel as a flat dict of arrays, whose keys are the path of each: `inputs`, `inputs/token_ids`, `targets/#0`.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.models.framework import JAX, KERAS, TORCH
from whichdevice.models.losses import OF_CLASS_NUMBERS, OF_DISTRIBUTIONS

if TYPE_CHECKING:
    from whichdevice.models.declaration import Declaration

Tree = Any  # a leaf, or tuples, lists and dicts of trees
Shape = tuple[int | None, ...]
CHUNK = 2**22  # numbers looked at together for one that is not finite


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


def to_json(tree: Tree) -> Any:
    """A tree of arrays' shapes and types as plain data."""
    if isinstance(tree, Mapping):
        return {"dict": {key: to_json(part) for key, part in tree.items()}}
    if isinstance(tree, tuple | list):
        return [to_json(part) for part in tree]
    return None if tree is None else {"shape": list(tree.shape), "dtype": tree.dtype}


def from_json(value: Any) -> Tree:
    """The tree again."""
    if isinstance(value, list):
        return tuple(map(from_json, value))
    if isinstance(value, dict) and "dict" in value:
        return {key: from_json(part) for key, part in value["dict"].items()}
    return None if value is None else Array(tuple(value["shape"]), value["dtype"])


class Signature(NamedTuple):
    """What a model takes and gives for one example, as trees of Array; None in a shape is any size."""

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
        own = any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__)
        hint = '; for a PyTorch module add FRAMEWORK = "torch"' if own else ""
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
    takes = any(each.name == "training" or each.kind is each.VAR_KEYWORD for each in parameters)
    return {"training": training} if takes else {}


def check_declared(declared: "Declaration", file: str) -> None:
    """Raise StudyError for what the constants alone show."""
    if declared.fault is not None:
        raise StudyError(f"{file}: {declared.fault}")
    if declared.by_compile and declared.framework == KERAS:  # whether the model is compiled shows when it is built
        return
    if "data" not in declared.functions and (declared.input is None or declared.target is None):
        raise StudyError(f"{file}: it needs INPUT and TARGET, or a function data()")
    needed = {"loss": declared.loss, "optimizer": declared.optimizer}
    if declared.framework == TORCH:
        needed.pop("loss")  # the module may have its own
    for name, constant in needed.items():
        if constant is None and name not in declared.functions:
            whose = {KERAS: "Keras", TORCH: "torch.optim", JAX: "optax"}[declared.framework]
            raise StudyError(f"{file}: it needs {name.upper()} (a {whose} name) or a function {name}")
    if declared.target is not None and "data" not in declared.functions:
        for loss, target, place in by_output(declared.loss, declared.target):
            _check_target_type(loss, target.dtype, f"{file}: targets{place}")


def by_output(loss: Tree, *trees: Tree) -> list[tuple[Any, ...]]:
    """(loss, leaf of each tree, place in words) for every output: one loss for all, or one for each of them."""
    first = named(trees[0], "")
    losses = named(loss, "")
    found = []
    for key in first:
        own = losses.get(key) if isinstance(loss, dict | tuple | list) else loss
        place = f" of output {key.strip('/').replace('#', '')}" if key else ""
        found.append((own, *(named(tree, "").get(key) for tree in trees), place))
    return found


def check_inputs(given: Tree, signature: Signature, length: int | None, file: str) -> None:
    """Raise StudyError where one example of these shapes is not what the model takes."""
    asked = signature.inputs
    if len(leaves(given)) != len(leaves(asked)):
        raise StudyError(
            f"{file}: one example has {_count(given)}, the model takes {_count(asked)}: {_names(asked, signature)}"
        )
    if isinstance(given, Mapping) and not isinstance(asked, Mapping) and len(signature.names) == len(leaves(asked)):
        if unknown := [name for name in given if name not in signature.names]:
            raise StudyError(f"{file}: no input of the model is named {unknown[0]!r}: {_names(asked, signature)}")
        order = [given[name] for name in signature.names]
    elif isinstance(given, Mapping) and isinstance(asked, Mapping):
        if unknown := [name for name in given if name not in asked]:
            raise StudyError(f"{file}: no input of the model is named {unknown[0]!r}: {_names(asked, signature)}")
        order, asked = [given[name] for name in asked], list(asked.values())
    else:
        order = leaves(given)
    for array, taken in zip(order, leaves(asked), strict=True):
        shape = concrete(array, length)
        if not _fits(shape, taken.shape):
            hint = ""
            if len(shape) == len(taken.shape) + 1 and _fits(shape[1:], taken.shape):
                hint = "; a shape is that of one example, without the batch"
            elif len(shape) == 3 and _fits((*shape[1:], shape[0]), taken.shape):
                hint = "; the model has channels last"
            raise StudyError(f"{file}: one input has shape {shape}, the model takes {shown(taken.shape)}{hint}")


def check_outputs(target: Tree, signature: Signature, loss: Tree, length: int | None, file: str) -> None:
    """Raise StudyError where targets of these shapes cannot be compared with what the model gives by these losses."""
    if signature.outputs is None or target is None:
        return
    if isinstance(loss, dict | tuple | list) and len(leaves(loss)) > len(leaves(signature.outputs)):
        raise StudyError(f"{file}: LOSS names {len(leaves(loss))} outputs, the model has {_count(signature.outputs)}")
    if len(leaves(target)) != len(leaves(signature.outputs)):
        if len(leaves(target)) == 1 or len(leaves(signature.outputs)) == 1:
            raise StudyError(
                f"{file}: there are targets for {_count(target)}, the model gives {_count(signature.outputs)}"
            )
        return  # Keras takes targets of some of the outputs by their names
    same = isinstance(target, Mapping) == isinstance(signature.outputs, Mapping)
    if same and {*named(target, "")} == {*named(signature.outputs, "")}:
        for own, given, made, place in by_output(loss, target, signature.outputs):
            _check_output(given, made.shape, own, length, f"{file}:{place}" if place else f"{file}:")


def check_data(given: "Mapping[str, np.ndarray]", held_out: "Mapping[str, np.ndarray]", declared: "Declaration",
               length: int | None, where: str) -> tuple[Tree, Tree]:  # fmt: skip
    """Shapes of one input and one target in a data function's arrays, by path; `held_out` are those that validate.

    Raises StudyError where that is not what INPUT, TARGET and LOSS say, or a number is not finite.
    """
    for name, stated in (("inputs", declared.input), ("targets", declared.target)):
        for key, array in named(stated, name).items():
            if key not in given:
                raise StudyError(f"{where} gives no {key}, which {name[:-1].upper()} names")
            if not _fits(given[key].shape[1:], concrete(array, length)):
                raise StudyError(
                    f"{where} gives {key} of shape {given[key].shape[1:]}, {name[:-1].upper()} says {array.shape}"
                )
    for kind, arrays in (("", given), ("validation ", held_out)):
        for key, array in arrays.items():
            if (place := first_not_finite(array)) is not None:
                what = key.partition("/")[0] if key != "weights" else "sample weights"
                raise StudyError(f"{where}: its {kind}{what} are not finite: example {place[0]:,} has {place[1]}")
        targets = {key: array for key, array in arrays.items() if key.partition("/")[0] == "targets"}
        if targets:
            for loss, array, place in by_output(declared.loss, packed(targets, "targets")):
                _check_targets(loss, array, f"{where}: its {kind}targets{place}")

    def array_of(key: str, array: np.ndarray) -> Array:
        whole = [each[key] for each in (given, held_out) if array.dtype.kind != "f" and each[key].size]
        return Array(array.shape[1:], str(array.dtype), max(int(each.max()) for each in whole) + 1 if whole else None)

    described = {key: array_of(key, array) for key, array in given.items()}
    return packed(described, "inputs"), packed(described, "targets")


def first_not_finite(array: np.ndarray) -> tuple[int, float] | None:
    """Number of the first example that holds a number which is not finite, and that number; None: all are."""
    if array.dtype.kind != "f":
        return None
    rows = max(1, CHUNK // max(1, int(np.prod(array.shape[1:]))))
    for start in range(0, len(array), rows):
        part = array[start : start + rows]
        finite = np.isfinite(part)
        if not finite.all():
            number = int(np.argmin(finite.reshape(len(part), -1).all(axis=1)))
            row = part[number].reshape(-1)
            return start + number, float(row[np.argmin(np.isfinite(row))])
    return None


def _check_targets(loss: Any, targets: np.ndarray, what: str) -> None:
    if loss in OF_CLASS_NUMBERS and targets.dtype.kind == "f" and targets.ndim > 1 and _one_hot(targets):
        raise StudyError(f"{what} are one-hot, but LOSS {loss} needs class numbers; take categorical_crossentropy")
    if loss in OF_DISTRIBUTIONS and targets.dtype.kind != "f" and targets.size and targets.max() > 1:
        raise StudyError(f"{what} are class numbers, but LOSS {loss} needs one-hot targets; take {OF_CLASS_NUMBERS[0]}")
    _check_target_type(loss, str(targets.dtype), what)
    if loss in OF_CLASS_NUMBERS and targets.size and targets.min() < 0:
        raise StudyError(f"{what} go down to {targets.min()}, but LOSS {loss} needs class numbers from 0 on")


def _one_hot(targets: np.ndarray) -> bool:
    first = targets[:64]
    return bool(np.isin(first, (0, 1)).all() and (first.sum(axis=-1) == 1).all())


def _check_target_type(loss: Any, dtype: str, what: str) -> None:
    if loss in OF_CLASS_NUMBERS and dtype == "float32":
        raise StudyError(f"{what} are float32, but LOSS {loss} needs class numbers: int32 or uint8")


def _check_output(target: Array, made: Shape, loss: Any, length: int | None, file: str) -> None:
    given = concrete(target, length)
    if loss in OF_CLASS_NUMBERS:
        if not _fits(given, made[:-1]) and not (given[-1:] == (1,) and _fits(given[:-1], made[:-1])):
            raise StudyError(
                f"{file} one target has shape {given}, but the model gives {shown(made)}: LOSS {loss} needs "
                "scores for the classes along one axis more"
            )
        below = target.below or 256
        if made[-1] is not None and made[-1] < below:
            raise StudyError(f"{file} the model gives {made[-1]} scores, but targets are classes from 0 to {below - 1}")
    elif isinstance(loss, str) and not _fits(given, made):
        if loss in OF_DISTRIBUTIONS and _fits(given, made[:-1]):
            raise StudyError(
                f"{file} one target has shape {given}, the model gives {shown(made)}: LOSS {loss} needs one-hot "
                f"targets; for class numbers take {OF_CLASS_NUMBERS[0]}"
            )
        raise StudyError(f"{file} one target has shape {given}, the model gives {shown(made)}")


def _count(tree: Tree) -> str:
    count = len(leaves(tree))
    return f"{count} array{'s' if count != 1 else ''}"


def _names(asked: Tree, signature: Signature) -> str:
    names = [*asked] if isinstance(asked, Mapping) else signature.names
    shapes = [shown(array.shape) for array in leaves(asked)]
    if len(names) != len(shapes):
        return ", ".join(shapes)
    return ", ".join(f"{name} {shape}" for name, shape in zip(names, shapes, strict=True))


def _fits(given: Shape, asked: Shape) -> bool:
    return len(given) == len(asked) and all(
        size is None or wanted is None or size == wanted for size, wanted in zip(given, asked, strict=True)
    )


def shown(shape: Shape) -> str:
    """A shape for a person."""
    return (
        "(" + ", ".join("any" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
    )

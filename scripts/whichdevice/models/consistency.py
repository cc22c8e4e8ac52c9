"""Check that a model, its constants, its data and its loss fit each other."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.declaration import Declaration
from whichdevice.models.framework import JAX, KERAS, TORCH
from whichdevice.models.losses import OF_CLASS_NUMBERS, OF_DISTRIBUTIONS
from whichdevice.models.shapes import Array, Shape, Signature, Tree, concrete, leaves, named, packed

CHUNK = 2**22  # numbers looked at together for one that is not finite


def check_declared(declared: Declaration, file: str) -> None:
    """Raise StudyError for what the constants alone show."""
    if declared.fault is not None:
        raise StudyError(f"{file}: {declared.fault}")
    if declared.by_compile and declared.framework == KERAS:  # whether the model is compiled shows when it is built
        return
    if "data" not in declared.functions and (declared.input is None or declared.target is None):
        raise StudyError(f"{file}: it needs INPUT and TARGET, or a function data()")
    needed = {"loss": declared.loss, "optimizer": declared.optimizer}
    if declared.framework == TORCH or declared.by_compile:
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
    places = {key: f" of output {key.strip('/').replace('#', '')}" if key else "" for key in named(trees[0], "")}
    losses = losses_by_path(loss, trees[0])
    return [(losses[key], *(named(tree, "").get(key) for tree in trees), place) for key, place in places.items()]


def losses_by_path(loss: Any, tree: Tree) -> dict[str, Any]:
    """Return the loss of each leaf of a tree: the one for all, or its own by place or name."""
    paths = named(tree, "")
    losses = named(loss, "") if isinstance(loss, dict | tuple | list) else dict.fromkeys(paths, loss)
    if len(losses) == len(paths) and not {*losses} >= {*paths}:
        losses = dict(zip(paths, losses.values(), strict=True))
    return {key: losses.get(key) for key in paths}


def check_inputs(given: Tree, signature: Signature, length: int | None, file: str) -> None:
    """Raise StudyError where one example of these shapes is not what the model takes."""
    asked = signature.inputs
    if len(leaves(given)) != len(leaves(asked)):
        raise StudyError(
            f"{file}: one example has {_count(given)}, the model takes {_count(asked)}: {_names(asked, signature)}"
        )
    order, takes = leaves(given), leaves(asked)
    names = [*asked] if isinstance(asked, Mapping) else signature.names
    if isinstance(given, Mapping) and (isinstance(asked, Mapping) or len(names) == len(takes)):
        if unknown := [name for name in given if name not in names]:
            raise StudyError(f"{file}: no input of the model is named {unknown[0]!r}: {_names(asked, signature)}")
        order = [given[name] for name in names]
    for array, taken in zip(order, takes, strict=True):
        shape = concrete(array, length)
        if not _fits(shape, taken.shape):
            hint = ""
            if len(shape) == len(taken.shape) + 1 and _fits(shape[1:], taken.shape):
                hint = "; give the shape of one example, without the batch"
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
        for part, given, made, place in by_output(loss, target, signature.outputs):
            _check_output(given, made.shape, part, length, f"{file}:{place}" if place else f"{file}:")


def check_data(given: Mapping[str, np.ndarray], held_out: Mapping[str, np.ndarray], declared: Declaration,
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
        whole = [arrays[key] for arrays in (given, held_out) if array.dtype.kind != "f" and arrays[key].size]
        below = max(int(values.max()) for values in whole) + 1 if whole else None
        return Array(array.shape[1:], str(array.dtype), below)

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
    sizes = ", ".join("any" if size is None else str(size) for size in shape)
    return f"({sizes},)" if len(shape) == 1 else f"({sizes})"

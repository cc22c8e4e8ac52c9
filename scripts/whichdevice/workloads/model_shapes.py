"""Whether a model, its data and its loss fit each other: what a model file says is checked before anything trains."""

from typing import Any

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.workloads.declaration import Array, Declaration
from whichdevice.workloads.framework import JAX, KERAS, TORCH
from whichdevice.workloads.generated_data import concrete
from whichdevice.workloads.given_data import Pair
from whichdevice.workloads.named_losses import OF_CLASS_NUMBERS

FINITE_LOOKED_AT = 64  # examples
WHOSE = {KERAS: "Keras", TORCH: "torch.optim", JAX: "optax"}  # names an optimiser
Shape = tuple[int | None, ...]


def check_declared(declared: Declaration, file: str) -> None:
    """Raise StudyError for what the constants alone show."""
    if declared.fault is not None:
        raise StudyError(f"{file}: {declared.fault}")
    if "data" not in declared.functions and (declared.input is None or declared.target is None):
        raise StudyError(f"{file}: it needs INPUT and TARGET, or a function data()")
    needed = {"loss": declared.loss, "optimizer": declared.optimizer}
    if declared.framework == TORCH:
        needed.pop("loss")  # the module may have its own
    for name, constant in needed.items():
        if constant is None and name not in declared.functions:
            raise StudyError(
                f"{file}: it needs {name.upper()} (a {WHOSE[declared.framework]} name) or a function {name}"
            )
    if isinstance(declared.target, Array) and "data" not in declared.functions:
        _check_target_type(declared.loss, declared.target.dtype, f"{file}: targets")


def check_model(
    model: Any, input_: Array | None, target: Array | None, loss: str | None, length: int | None, file: str
) -> None:
    """Raise StudyError where the model is none, or does not fit one input and target."""
    import keras

    if not isinstance(model, keras.Model):
        what = "None" if model is None else f"a {type(model).__name__}"
        own = any(kind.__module__ == "torch.nn.modules.module" for kind in type(model).__mro__)
        hint = '; for a PyTorch module add FRAMEWORK = "torch"' if own else ""
        raise StudyError(f"{file}: model() returns {what}; a Keras model is needed{hint}")
    if not model.built or len(model.inputs or ()) != 1 or len(model.outputs or ()) != 1:
        raise StudyError(
            f"{file}: model() returns a model without one input and one output; start it with keras.Input(...)"
        )
    asked, made = example_shapes(model)
    if input_ is not None and not _fits(given := concrete(input_, length), asked):
        raise StudyError(f"{file}: one input has shape {given}, the model takes {_shown(asked)}")
    if target is not None:
        _check_output(target, made, loss, length, file)


def check_data(
    train: Pair, held_out: np.ndarray, declared: Declaration, length: int | None, where: str
) -> tuple[Array, Array]:
    """What a data function's arrays are; raises StudyError where that is not what INPUT, TARGET and LOSS say.

    `held_out` holds the validation data's targets.
    """
    for array, stated, name in zip(train, (declared.input, declared.target), ("INPUT", "TARGET"), strict=True):
        if stated is not None and not _fits(array.shape[1:], concrete(stated, length)):
            raise StudyError(f"{where} gives {name.lower()}s of shape {array.shape[1:]}, {name} says {stated.shape}")
    inputs, targets = train
    _check_targets(declared.loss, targets, f"{where}: its targets")
    _check_targets(declared.loss, held_out, f"{where}: its validation targets")
    if inputs.dtype.kind == "f" and not np.isfinite(inputs[:FINITE_LOOKED_AT]).all():
        raise StudyError(f"{where} gives inputs that are not finite")
    whole = [each for each in (targets, held_out) if each.dtype.kind != "f" and each.size]
    below = max(int(each.max()) for each in whole) + 1 if whole else None
    return Array(inputs.shape[1:], str(inputs.dtype)), Array(targets.shape[1:], str(targets.dtype), below)


def example_shapes(model: Any) -> tuple[Shape, Shape]:
    """Shapes of one input and one output, without the batch."""
    return tuple(model.inputs[0].shape[1:]), tuple(model.outputs[0].shape[1:])


def _check_targets(loss: str | None, targets: np.ndarray, what: str) -> None:
    _check_target_type(loss, str(targets.dtype), what)
    if loss in OF_CLASS_NUMBERS and targets.size and targets.min() < 0:
        raise StudyError(f"{what} go down to {targets.min()}, but LOSS {loss} needs class numbers from 0 on")


def _check_target_type(loss: str | None, dtype: str, what: str) -> None:
    if loss in OF_CLASS_NUMBERS and dtype == "float32":
        raise StudyError(f"{what} are float32, but LOSS {loss} needs class numbers: int32 or uint8")


def _check_output(target: Array, made: Shape, loss: str | None, length: int | None, file: str) -> None:
    given = concrete(target, length)
    if loss in OF_CLASS_NUMBERS:
        if not _fits(given, made[:-1]):
            raise StudyError(
                f"{file}: one target has shape {given}, but the model gives {_shown(made)}: LOSS {loss} needs "
                "scores for the classes along one axis more"
            )
        below = target.below or 256
        if made[-1] is not None and made[-1] < below:
            raise StudyError(
                f"{file}: the model gives {made[-1]} scores, but targets are classes from 0 to {below - 1}"
            )
    elif loss is not None and not _fits(given, made):
        raise StudyError(f"{file}: one target has shape {given}, the model gives {_shown(made)}")


def _fits(given: Shape, asked: Shape) -> bool:
    return len(given) == len(asked) and all(
        size is None or wanted is None or size == wanted for size, wanted in zip(given, asked, strict=True)
    )


def _shown(shape: Shape) -> str:
    return (
        "(" + ", ".join("any" if size is None else str(size) for size in shape) + ("," if len(shape) == 1 else "") + ")"
    )

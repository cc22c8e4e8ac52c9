"""The body of a prediction request, in TensorFlow Serving's REST form, as an array; or why it is none.

https://www.tensorflow.org/tfx/serving/api_rest: `instances` (a list of examples) or `inputs` (one array of all).
"""

import json
from typing import Any, Literal, NamedTuple

import numpy as np

from whichdevice.records.exported import TensorSpecification
from whichdevice.serving.saved_model import SIGNATURE

LONGEST = 80  # characters of what was sent that an answer repeats


class MalformedRequestError(Exception):
    """The request cannot be answered; its text says why, `status` is the HTTP status."""

    def __init__(self, reason: str, status: int = 400) -> None:
        super().__init__(reason)
        self.status = status


class Inputs(NamedTuple):
    """Raw inputs [batch, ...] of the signature's type, and the form in which they came."""

    array: np.ndarray
    form: Literal["instances", "inputs"]


def parse_body(body: bytes, wanted: TensorSpecification, largest_batch: int) -> Inputs:
    """The inputs of a request. Raises MalformedRequestError."""
    content = _json(body)
    if not isinstance(content, dict):
        raise MalformedRequestError('the body must be a JSON object: {"instances": [...]}')
    if unknown := sorted(set(content) - {"instances", "inputs", "signature_name"}):
        raise MalformedRequestError(f"unknown key {_told(unknown[0])}; there are instances, inputs, signature_name")
    if content.get("signature_name", SIGNATURE) != SIGNATURE:
        raise MalformedRequestError(f"no signature {_told(content['signature_name'])}; there is {SIGNATURE}")
    if ("instances" in content) == ("inputs" in content):
        raise MalformedRequestError("the body needs one of instances and inputs, and not both")
    form: Literal["instances", "inputs"] = "instances" if "instances" in content else "inputs"
    values = _instances(content[form], wanted) if form == "instances" else _named(content[form], wanted)
    if body.count(b'"') > 2 * _names(content):  # an array of texts takes the longest one's room for each
        raise MalformedRequestError(f"{form} must hold numbers only")
    array = _array(values, form)
    _check_shape(array, wanted, form, largest_batch)
    return Inputs(_typed(array, wanted, form), form)


def _json(body: bytes) -> Any:
    def refuse(name: str) -> None:
        raise MalformedRequestError(f"{name} is no JSON number; every input must be a finite number")

    try:
        return json.loads(body.decode("utf-8"), parse_constant=refuse)
    except RecursionError:
        raise MalformedRequestError("the body is nested too deeply") from None
    except UnicodeDecodeError:
        raise MalformedRequestError("the body is no UTF-8 text") from None
    except ValueError as error:
        raise MalformedRequestError(f"the body is no JSON: {_told(str(error))}") from None


def _instances(values: Any, wanted: TensorSpecification) -> list[Any]:
    if not isinstance(values, list) or not values:
        raise MalformedRequestError("instances must be a list of at least one example")
    if any(isinstance(value, dict) for value in values):
        return [_named(value, wanted) for value in values]
    return values


def _named(value: Any, wanted: TensorSpecification) -> Any:
    """The value itself, or that of the one input where inputs are named."""
    if not isinstance(value, dict):
        return value
    if list(value) != [wanted.name]:
        given = ", ".join(_told(name) for name in value) or "none"
        raise MalformedRequestError(f"the model's one input is {wanted.name}; named were: {_told(given)}")
    return value[wanted.name]


def _names(content: dict[str, Any]) -> int:
    """Texts that belong there: keys, and the signature's name."""
    examples = content.get("instances", [content.get("inputs")])
    named = sum(len(example) for example in examples if isinstance(example, dict))
    return len(content) + ("signature_name" in content) + named


def _array(values: Any, form: str) -> np.ndarray:
    try:
        array = np.array(values)
    except (ValueError, OverflowError, TypeError):
        raise MalformedRequestError(f"{form} must have the same shape for every example") from None
    if array.dtype.kind not in "iuf":
        raise MalformedRequestError(f"{form} must hold numbers only")
    return array


def _check_shape(array: np.ndarray, wanted: TensorSpecification, form: str, largest_batch: int) -> None:
    needed = wanted.shape[1:]
    fits = array.ndim == len(wanted.shape) and all(
        size in (None, given) for size, given in zip(needed, array.shape[1:], strict=True)
    )
    if not fits:
        raise MalformedRequestError(f"{form} needs shape {_shape(['batch', *needed])}, not {_shape(array.shape)}")
    if not array.size:
        raise MalformedRequestError(f"{form} is empty: its shape is {_shape(array.shape)}")
    if len(array) > largest_batch:
        raise MalformedRequestError(f"{len(array)} examples are too many for one request; at most {largest_batch}", 413)


def _typed(array: np.ndarray, wanted: TensorSpecification, form: str) -> np.ndarray:
    kind = np.dtype(wanted.dtype)
    if kind.kind == "f":
        with np.errstate(over="ignore"):
            typed = array.astype(kind)
        if not np.isfinite(typed).all():
            raise MalformedRequestError(f"{form} holds numbers too large for {wanted.dtype}")
        return typed
    if array.dtype.kind == "f":
        raise MalformedRequestError(f"{form} must hold whole numbers: the model takes {wanted.dtype}")
    limits = np.iinfo(kind)
    if array.min() < limits.min or array.max() > limits.max:
        raise MalformedRequestError(f"{form} must lie between {limits.min} and {limits.max}: {wanted.dtype}")
    return array.astype(kind)


def _shape(sizes: Any) -> str:
    return "[" + ", ".join("any" if size is None else str(size) for size in sizes) + "]"


def _told(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."

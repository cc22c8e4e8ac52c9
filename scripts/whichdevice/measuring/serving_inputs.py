"""What a request to a measured service holds: random numbers, or examples of a model file that states no INPUT."""

import json

import numpy as np

from whichdevice.errors import StudyError
from whichdevice.records.request import Request
from whichdevice.workloads.base import RawInput, TrainingWorkload
from whichdevice.workloads.model_file import ModelFile


def request_inputs(served: TrainingWorkload, raw: RawInput, request: Request) -> np.ndarray:
    """Raw inputs of one request, of the signature's type. Raises StudyError where their shape is unknown or not so."""
    random = np.random.default_rng(request.seed)
    if isinstance(served, ModelFile) and served.declared.input is None:  # the bound of whole numbers is unknown
        inputs = _own_examples(served, raw, request.batch_size, random)
    else:
        inputs = _random(raw, (request.batch_size, *_shape(served, raw)), random)
    _check(served, raw, inputs.shape[1:])
    return inputs


def request_body(inputs: np.ndarray) -> str:
    """A request in JSON; numbers with a fraction in the fewest digits that read back as the same float32."""
    if inputs.dtype.kind == "f":
        inputs = np.stack([example.astype(str).astype(np.float64) for example in inputs])
    return json.dumps({"instances": inputs.tolist()})


def _own_examples(served: ModelFile, raw: RawInput, count: int, random: np.random.Generator) -> np.ndarray:
    train, _ = served.splits({})
    index = random.integers(0, train.examples, count, dtype=np.int32)
    return np.asarray(served.raw_batch(train.arrays, index)).astype(raw.dtype)


def _random(raw: RawInput, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if np.dtype(raw.dtype).kind == "f":
        return random.random(shape).round(4).astype(raw.dtype)
    return random.integers(0, raw.below or min(256, np.iinfo(raw.dtype).max + 1), shape).astype(raw.dtype)


def _shape(served: TrainingWorkload, raw: RawInput) -> tuple[int, ...]:
    """Of one example: what the model leaves open is as INPUT says, else as long as a sequence."""
    stated = served.declared.input if isinstance(served, ModelFile) else None
    sizes = stated.shape if stated is not None else raw.shape
    length = _asked_length(served)
    shape = [own or size or length for own, size in zip(raw.shape, sizes, strict=True)]
    if None in shape:
        raise StudyError(
            f"serving: the model takes inputs of shape {_shown(raw.shape)}: set sequence_length, "
            "or give INPUT of the model file all sizes"
        )
    return tuple(size for size in shape if size is not None)


def _check(served: TrainingWorkload, raw: RawInput, shape: tuple[int, ...]) -> None:
    fits = len(shape) == len(raw.shape) and all(own in (None, size) for own, size in zip(raw.shape, shape, strict=True))
    if not fits:
        raise StudyError(f"serving: data() gives inputs of shape {shape}, the model takes {_shown(raw.shape)}")
    opened = [size for own, size in zip(raw.shape, shape, strict=True) if own is None]
    length = _asked_length(served)
    if opened and length is not None and length not in opened:
        raise StudyError(
            f"serving: sequence_length is {length}, but one input has shape {shape}: write None for the sequence "
            "in INPUT, or let data(options) follow options.sequence_length"
        )


def _asked_length(served: TrainingWorkload) -> int | None:
    return served.options.sequence_length or served.recipe.sequence_length


def _shown(shape: tuple[int | None, ...]) -> str:
    return "(" + ", ".join("any" if size is None else str(size) for size in shape) + ")"

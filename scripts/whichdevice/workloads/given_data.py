"""What a model file's data function gives, as arrays: pairs of arrays, or examples one by one from a generator."""

from collections.abc import Iterator
from typing import Any

import numpy as np

from whichdevice.errors import StudyError

VALIDATION_SHARE = 8  # one example in eight, where the function gives no validation data
DRAWING_SEED = 1
MOST_BYTES = 8e9  # that a generator may yield without saying when it ends
EXAMPLE_BYTES = 300  # that Python keeps of each yielded example beside its numbers
Pair = tuple[np.ndarray, np.ndarray]
WANTED = "it must return (inputs, targets), two such pairs (training, validation), or yield (input, target)"


def pairs_of(given: Any, examples: int | None, where: str) -> tuple[Pair, Pair]:
    """Training and validation arrays; raises StudyError that says what is wrong with them.

    A generator is read until `examples` came, or to its end where none is asked for. An eighth, drawn at random but
    always the same, validates where no validation data are given: data are often sorted by class.
    """
    if isinstance(given, Iterator):
        given = _gathered(given, examples, where)
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise StudyError(f"{where} returns {_described(given)}; {WANTED}")
    if isinstance(given[0], tuple | list) and len(given[0]) == 2:
        return _pair(given[0], f"{where}, training data"), _pair(given[1], f"{where}, validation data")
    inputs, targets = _pair(given, where)
    held_out = len(inputs) // VALIDATION_SHARE
    if held_out < 1:
        raise StudyError(f"{where} gives {len(inputs)} examples; {VALIDATION_SHARE} are the least")
    validates = np.zeros(len(inputs), bool)
    validates[drawn(len(inputs), held_out)] = True
    return (inputs[~validates], targets[~validates]), (inputs[validates], targets[validates])


def drawn(examples: int, count: int) -> np.ndarray:
    """Numbers of `count` of the examples, in their order; always the same ones, and fewer are some of more."""
    return np.sort(np.random.default_rng(DRAWING_SEED).permutation(examples)[:count])


def _gathered(given: Iterator[Any], examples: int | None, where: str) -> Pair:
    inputs: list[np.ndarray] = []
    targets: list[np.ndarray] = []
    taken = 0
    while examples is None or len(inputs) < examples:
        try:
            example = next(given)
        except StopIteration:
            break
        if not isinstance(example, tuple | list) or len(example) != 2:
            raise StudyError(f"{where} yields {_described(example)}; {WANTED}")
        inputs.append(np.asarray(example[0]))
        targets.append(np.asarray(example[1]))
        taken += inputs[-1].nbytes + targets[-1].nbytes + EXAMPLE_BYTES
        if examples is None and taken > MOST_BYTES:
            raise StudyError(
                f"{where} yielded {len(inputs):,} examples, over {MOST_BYTES / 1e9:g} GB, and goes on; "
                "say in EXAMPLES how many it shall give"
            )
    if examples is not None and len(inputs) < examples:
        raise StudyError(f"{where} ended after {len(inputs)} of EXAMPLES = {examples} examples")
    shapes = {each.shape for each in inputs}
    if len(shapes) > 1:
        raise StudyError(f"{where} yields inputs of different shapes: {' and '.join(map(str, sorted(shapes)[:2]))}")
    if not inputs:
        raise StudyError(f"{where} ended before its first example")
    return np.stack(inputs), np.stack(targets)


def _pair(given: Any, where: str) -> Pair:
    if not isinstance(given, tuple | list) or len(given) != 2:
        raise StudyError(f"{where} returns {_described(given)}; {WANTED}")
    inputs, targets = (_plain(each, where) for each in given)
    if not inputs.ndim or not targets.ndim or len(inputs) != len(targets):
        count = [len(each) if each.ndim else "no" for each in (inputs, targets)]
        raise StudyError(f"{where} returns {count[0]} inputs and {count[1]} targets; every input needs one target")
    return inputs, targets


def _plain(given: Any, where: str) -> np.ndarray:
    """An array of a type that every backend takes: float32, uint8 or int32."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise StudyError(f"{where} returns no regular array: {error}") from error
    if array.dtype.kind == "f":
        return array.astype(np.float32, copy=False)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "iub":
        return array.astype(np.int32)
    raise StudyError(f"{where} returns an array of type {array.dtype}; numbers are needed")


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "None" if value is None else f"a {type(value).__name__}"

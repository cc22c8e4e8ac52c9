"""Inputs and targets of a model file that gives shapes alone: random inputs, targets that follow from them.

So that a model can learn something from them: whole-number targets of the input's own shape are a fixed rule of each
number, all others a fixed random projection of the input's first numbers.
"""

import numpy as np

from whichdevice.workloads.declaration import Array

PROJECTED = 256  # numbers of an input that its target follows from


def generate(
    input_: Array, target: Array, examples: int, sequence_length: int | None, seed: int
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs [examples, ...] and targets [examples, ...] in the types asked for."""
    random = np.random.default_rng(seed)
    inputs = _inputs(input_, (examples, *concrete(input_, sequence_length)), random)
    return inputs, _targets(inputs, target, (examples, *concrete(target, sequence_length)))


def concrete(array: Array, sequence_length: int | None) -> tuple[int, ...]:
    """The shape of one example with the sequence length in place of None."""
    return tuple(size if size is not None else sequence_length or 1 for size in array.shape)


def _inputs(array: Array, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if array.dtype == "float32":
        return random.standard_normal(shape, dtype=np.float32)
    return random.integers(0, array.below or 256, shape, dtype=array.dtype)


def _targets(inputs: np.ndarray, array: Array, shape: tuple[int, ...]) -> np.ndarray:
    below = array.below or (256 if array.dtype == "uint8" else None)
    if below is not None and inputs.shape == shape and inputs.dtype.kind in "iu":
        return ((inputs.astype(np.int64) * 7 + 3) % below).astype(array.dtype)
    first = inputs.reshape(len(inputs), -1)[:, :PROJECTED].astype(np.float32)
    first = (first - first.mean()) / max(float(first.std()), 1e-6)
    fixed = np.random.default_rng(0)  # the same rule for training and validation
    size = int(np.prod(shape[1:]))
    weights = fixed.standard_normal((first.shape[1], min(size, PROJECTED)), dtype=np.float32)
    scores = first @ weights / np.sqrt(first.shape[1], dtype=np.float32)
    scores = np.tile(scores, (1, -(-size // scores.shape[1])))[:, :size]
    if below is None:
        return scores.reshape(shape).astype(np.float32)
    shares = 1 / (1 + np.exp(-1.702 * scores))  # about the normal distribution, so that classes are about as frequent
    return np.minimum(shares * below, below - 1).astype(array.dtype).reshape(shape)

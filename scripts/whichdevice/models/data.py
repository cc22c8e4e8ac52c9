"""Data of a model file as arrays: what its data function gives, or random ones in the shapes that it says.

A data function may give arrays, a generator of single examples, a tf.data.Dataset, a keras.utils.PyDataset or a PyTorch
DataLoader: all are read into arrays, up to EXAMPLES or MAX_BYTES, so that every backend trains on the same.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.shapes import Array, Tree, concrete, leaves, mapped, named, packed

MIN_BATCHES = 10  # of an epoch: fewer are data to try a model with
VALIDATION_SHARE = 8  # one example in eight, where the function gives no validation data
DRAWING_SEED = 1
MAX_BYTES = 8e9  # that is read of what does not say when it ends, or is larger
EXAMPLE_BYTES = 300  # that Python keeps of each yielded example beside its numbers
PROJECTED = 256  # numbers of an input that a generated target follows from
Arrays = dict[str, np.ndarray]  # by path: inputs, targets, weights and what is below them
WANTED = (
    "it must return (inputs, targets), (inputs, targets, weights) or two of these (training, validation), yield "
    "examples (input, target), or give a tf.data.Dataset, a PyDataset or a DataLoader"
)


def splits_of(given: Any, examples: int | None, where: str, input_: Tree = None) -> tuple[Arrays, Arrays]:
    """Training and validation arrays of what a data function returned; raises StudyError that says what is wrong.

    `input_` is INPUT, where the file has it: it tells a batch from an example. An eighth, drawn at random but always
    the same, validates where no validation data are given: data are often sorted by class.
    """
    if isinstance(given, tuple | list) and len(given) == 2 and _are_two_splits(given, input_):
        train, held_out = (
            arrays_of(part, examples if not number else None, f"{where}, {kind} data", input_)
            for number, (kind, part) in enumerate(zip(("training", "validation"), given, strict=True))
        )
        if {*train} != {*held_out}:
            odd = sorted({*train} ^ {*held_out})[0]
            raise StudyError(f"{where} gives {odd} for only one of training and validation")
        return train, held_out
    arrays = arrays_of(given, examples, where, input_)
    count = size_of(arrays)
    validating = count // VALIDATION_SHARE
    if validating < 1:
        raise StudyError(f"{where} gives {count} examples; {VALIDATION_SHARE} are the least")
    validates = np.zeros(count, bool)
    validates[drawn(count, validating)] = True
    train, held_out = ({key: array[chosen] for key, array in arrays.items()} for chosen in (~validates, validates))
    return train, held_out


def training_part(given: Any, input_: Tree = None) -> Any:
    """The training data, of what a data function returned."""
    return given[0] if isinstance(given, tuple | list) and len(given) == 2 and _are_two_splits(given, input_) else given


def pipeline_in(given: Any, input_: Tree = None) -> Any:
    """Return what of a data function's result gives training batches one after the other; None where nothing does."""
    if isinstance(given, tuple | list) and len(given) == 2 and _is_stream(given[0]):
        given = given[0]
    if not _is_stream(given) or not (_batches(given, input_) or _has_sizes(given)):
        return None
    return given


def _has_sizes(given: Any) -> bool:
    """Return whether a tf.data.Dataset gives batches of one known size, as with drop_remainder."""
    parts = leaves(getattr(given, "element_spec", ()))
    sizes = {tensor.shape[0] if tensor.shape.rank else None for tensor in parts}
    return len(parts) > 1 and len(sizes) == 1 and None not in sizes


def size_of(arrays: Arrays) -> int:
    """Return the number of examples."""
    return len(next(iter(arrays.values())))


def drawn(examples: int, count: int) -> np.ndarray:
    """Numbers of `count` of the examples, in their order; always the same ones, and fewer are some of more."""
    return np.sort(np.random.default_rng(DRAWING_SEED).permutation(examples)[:count])


def _are_two_splits(given: Any, input_: Tree) -> bool:
    """Return whether a pair holds training and validation data rather than inputs and targets."""
    first, second = given
    if _is_stream(first):
        return True
    if not all(isinstance(part, tuple) or _is_pair_list(part) for part in given) or len(first) != len(second):
        return False
    if len(first) == 1:
        return all(isinstance(part[0], Mapping) for part in given) and {*first[0]} == {*second[0]}
    if len(first) not in (2, 3):
        return False
    if isinstance(input_, tuple) or any(isinstance(part, Mapping) for part in (first[1], second[1])):
        sizes = [{len(array) for array in leaves(part)} for part in given]
        return not (isinstance(input_, tuple) and len(input_) == len(first) and sizes[0] == sizes[1])
    shapes = [[np.shape(array)[1:] for array in leaves(as_tree(part))] for part in given]
    return shapes[0] == shapes[1]


def _is_pair_list(part: Any) -> bool:
    return isinstance(part, list) and len(part) in (2, 3) and all(hasattr(array, "shape") for array in part)


def _is_stream(given: Any) -> bool:
    """Return whether it gives examples or batches one after the other."""
    if isinstance(given, str | bytes | Mapping | tuple | list) or hasattr(given, "shape"):
        return False
    return isinstance(given, Iterable) or (hasattr(given, "__getitem__") and hasattr(given, "__len__"))


def arrays_of(given: Any, examples: int | None, where: str, input_: Tree = None) -> Arrays:
    """The arrays of one split by path."""
    if _is_stream(given):
        given = _gathered(given, examples, where, input_)
    if hasattr(given, "shape") or isinstance(given, Mapping):
        given = (given,)  # inputs alone
    if not isinstance(given, tuple | list) or not 1 <= len(given) <= 3:
        raise StudyError(f"{where} returns {_described(given)}; {WANTED}")
    arrays: Arrays = {}
    for name, part in zip(("inputs", "targets", "weights"), given, strict=False):
        for key, leaf in named(as_tree(part), name).items():
            arrays[key] = _plain(leaf, where, name)
    if not any(key.startswith("inputs") for key in arrays):
        raise StudyError(f"{where} returns no inputs; {WANTED}")
    sizes = {key: len(array) if array.ndim else 0 for key, array in arrays.items()}
    if len({*sizes.values()}) > 1 or 0 in sizes.values():
        if {*sizes} == {"inputs", "targets"}:
            count = [sizes[name] or "no" for name in ("inputs", "targets")]
            raise StudyError(f"{where} returns {count[0]} inputs and {count[1]} targets; every input needs one target")
        counts = ", ".join(f"{size} {key}" for key, size in sizes.items())
        raise StudyError(
            f"{where} returns {counts}; there must be one of each for every example: what all share, such as a graph's "
            "edges, belongs in the model"
        )
    return arrays


def as_tree(part: Any) -> Tree:
    """Lists of numbers are an array, lists of arrays several of them."""
    if isinstance(part, list) and not any(hasattr(item, "shape") or isinstance(item, Mapping) for item in part):
        with suppress(ValueError):  # of rows that differ in length
            return np.asarray(part)
        return part
    if isinstance(part, Mapping):
        return {key: as_tree(value) for key, value in part.items()}
    return tuple(map(as_tree, part)) if isinstance(part, tuple | list) else part


def _gathered(given: Any, examples: int | None, where: str, input_: Tree) -> tuple[Tree, ...]:
    """All that comes of a stream, joined; each item is an example or a batch."""
    items: list[tuple[Tree, ...]] = []
    taken, count, batches = 0.0, 0, _batches(given, input_)
    for item in _items(given):
        parts = item if isinstance(item, tuple | list) else (item,)
        if not 1 <= len(parts) <= 3 or isinstance(item, str | int | float):
            raise StudyError(f"{where} yields {_described(item)}; {WANTED}")
        held = tuple(mapped(_array, as_tree(part)) for part in parts)
        if items and len(held) != len(items[0]):
            raise StudyError(f"{where} yields {len(items[0])} and {len(held)} parts; each must have the same")
        if batches is None:
            batches = _looks_batched(held, input_)
        items.append(held)
        count += len(leaves(held[0])[0]) if batches else 1
        taken += sum(leaf.nbytes for part in held for leaf in leaves(part)) + EXAMPLE_BYTES
        if examples is not None and count >= examples:
            break
        if taken > MAX_BYTES:
            raise StudyError(
                f"{where} yielded {count:,} examples, over {MAX_BYTES / 1e9:g} GB, and goes on; "
                "say in EXAMPLES how many it shall give"
            )
    if not items:
        raise StudyError(f"{where} ended before its first example")
    if examples is not None and count < examples:
        raise StudyError(f"{where} ended after {count} of EXAMPLES = {examples} examples")
    parts_of_all = zip(("inputs", "targets", "weights"), zip(*items, strict=False), strict=False)
    return tuple(_together(name, parts, bool(batches), examples, where) for name, parts in parts_of_all)


def _together(name: str, parts: Sequence[Tree], batches: bool, examples: int | None, where: str) -> Tree:
    """The inputs, targets or weights of all items of a stream, joined."""
    join = np.concatenate if batches else np.stack
    flat = [named(part, name) for part in parts]
    together: dict[str, np.ndarray] = {}
    for key in flat[0]:
        pieces = [arrays[key] for arrays in flat if key in arrays]
        shapes = {piece.shape[1:] if batches else piece.shape for piece in pieces}
        if len(shapes) > 1 or len(pieces) < len(flat):
            two = " and ".join(map(str, sorted(shapes)[:2]))
            raise StudyError(f"{where} yields {name} of different shapes: {two}; pad them to one")
        together[key] = join(pieces)[:examples]
    return packed(together, name)


def _items(given: Any) -> Iterator[Any]:
    if hasattr(given, "as_numpy_iterator"):  # tf.data
        yield from given.as_numpy_iterator()
    elif not isinstance(given, Iterator) and hasattr(given, "__getitem__") and hasattr(given, "__len__"):
        yield from (given[place] for place in range(len(given)))  # PyDataset, or a Dataset of PyTorch
    else:
        yield from given


def _batches(given: Any, input_: Tree) -> bool | None:
    """Return whether a stream gives batches; None: what it gives must show it."""
    if hasattr(given, "batch_sampler"):  # PyTorch's DataLoader
        return given.batch_sampler is not None
    if any(base.__name__ in ("PyDataset", "Sequence") for base in type(given).__mro__):
        return True
    if isinstance(given, Iterator) or not hasattr(given, "element_spec"):
        return None if input_ is not None else False
    first = given.element_spec
    while isinstance(first, tuple | list | Mapping):
        first = next(iter(first.values())) if isinstance(first, Mapping) else first[0]
    return True if first.shape.rank and first.shape[0] is None else None


def _looks_batched(parts: tuple[Tree, ...], input_: Tree) -> bool:
    """Decide by INPUT if there is one; else a batch has the same first size everywhere."""
    shapes = [np.shape(leaf) for part in parts for leaf in leaves(part)]
    if input_ is not None and leaves(input_):
        return len(shapes[0]) == len(leaves(input_)[0].shape) + 1
    return all(shapes) and len({shape[0] for shape in shapes}) == 1


def _array(given: Any) -> np.ndarray:
    if hasattr(given, "detach"):  # a tensor of PyTorch
        given = given.detach().cpu()
    return np.asarray(given)


def _plain(given: Any, where: str, name: str) -> np.ndarray:
    """An array of a type that every backend takes: float32, uint8 or int32."""
    try:
        array = _array(given)
    except (ValueError, TypeError) as error:
        raise StudyError(f"{where} returns no regular array: {error}") from error
    if array.dtype.kind == "f" or (name == "weights" and array.dtype.kind in "iub"):
        return array.astype(np.float32, copy=False)
    if array.dtype == np.uint8:
        return array
    if array.dtype.kind in "iub":
        return array.astype(np.int32)
    if array.dtype == object and array.ndim == 0:
        raise StudyError(f"{where} returns {_described(given)}; {WANTED}")
    raise StudyError(f"{where} returns an array of type {array.dtype}; numbers are needed: look words up in data()")


def _described(value: Any) -> str:
    if isinstance(value, tuple | list):
        return f"a {type(value).__name__} of {len(value)}"
    return "None (is a `return` missing?)" if value is None else f"a {type(value).__name__}"


def generate(input_: Tree, target: Tree, examples: int, sequence_length: int | None, seed: int) -> Arrays:
    """Random inputs [examples, ...] and targets [examples, ...] that follow from them, by path, in the types asked for.

    So that a model can learn something from them: whole-number targets of the input's own shape are a fixed rule of
    each number, all others a fixed random projection of the inputs' first numbers.
    """
    parts = {**named(input_, "inputs"), **named(target, "targets")}
    shapes = {key: (examples, *concrete(array, sequence_length)) for key, array in parts.items()}
    size = sum(np.prod(shapes[key], dtype=float) * np.dtype(array.dtype).itemsize for key, array in parts.items())
    if size > MAX_BYTES:
        raise StudyError(
            f"{examples:,} examples of INPUT and TARGET take {size / 1e9:.3g} GB, more than {MAX_BYTES / 1e9:g} GB. "
            "Both are shapes of one example, without the batch; is it in them? Else lower EXAMPLES"
        )
    random = np.random.default_rng(seed)
    inputs = {key: _inputs(parts[key], shapes[key], random) for key in named(input_, "inputs")}
    given = [*inputs.values()]
    return inputs | {key: _targets(given, parts[key], shapes[key]) for key in named(target, "targets")}


def _inputs(array: Array, shape: tuple[int, ...], random: np.random.Generator) -> np.ndarray:
    if array.dtype == "float32":
        return random.standard_normal(shape, dtype=np.float32)
    return random.integers(0, array.below or 256, shape, dtype=array.dtype)


def _targets(inputs: list[np.ndarray], array: Array, shape: tuple[int, ...]) -> np.ndarray:
    below = array.below or (256 if array.dtype == "uint8" else None)
    if below is not None:
        for numbers in inputs:
            if numbers.shape == shape and numbers.dtype.kind in "iu":
                return ((numbers.astype(np.int64) * 7 + 3) % below).astype(array.dtype)
    taken = max(1, PROJECTED // len(inputs))
    first = np.concatenate([_standard(numbers.reshape(len(numbers), -1)[:, :taken]) for numbers in inputs], axis=1)
    fixed = np.random.default_rng(0)  # the same rule for training and validation
    size = int(np.prod(shape[1:]))
    weights = fixed.standard_normal((first.shape[1], min(size, PROJECTED)), dtype=np.float32)
    scores = first @ weights / np.sqrt(first.shape[1], dtype=np.float32)
    scores = np.tile(scores, (1, -(-size // scores.shape[1])))[:, :size]
    if array.distribution:
        scores = scores.reshape(shape)
        return (scores == scores.max(axis=-1, keepdims=True)).astype(np.float32)
    if below is None:
        return scores.reshape(shape).astype(np.float32)
    shares = 1 / (1 + np.exp(-1.702 * scores))  # about the normal distribution, so that classes are about as frequent
    return np.minimum(shares * below, below - 1).astype(array.dtype).reshape(shape)


def _standard(numbers: np.ndarray) -> np.ndarray:
    numbers = numbers.astype(np.float32)
    return (numbers - numbers.mean()) / max(float(numbers.std()), 1e-6)

"""Sizes of the batch that stand as numbers in the calls of a PyTorch step: of its noise, its labels, its views.

resized("randn", (16, 8), {}, 16, 4)    # ((4, 8), {})
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch

MADE = ("zeros", "ones", "empty", "rand", "randn", "new_zeros", "new_ones", "new_empty")  # of sizes or of a tuple
OF_TUPLE = ("full", "new_full", "randint", "normal")
VIEWS = ("view", "reshape", "expand", "broadcast_to", "repeat", "tile", "unflatten")
COUNTED = ("arange", "eye", "randperm", "split")  # take a number of examples
OF_LIST = ("tensor", "as_tensor")
BY_NAME = ("size", "shape", "sizes")  # arguments that are a shape
TIMES = 1, 2  # as many as the batch has, or two for each


def resized(
    name: str, args: tuple[Any, ...], kwargs: Mapping[str, Any], old: int, new: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments of a function of PyTorch with a batch of `new` examples in place of one of `old`."""
    named = dict(kwargs)
    if old in (1, new):
        return args, named
    given = args[:1] if args and torch.is_tensor(args[0]) else ()
    rest = args[len(given) :]
    if name == "__getitem__" and rest:
        return (*given, _part(rest[0], old, new)), named
    if name in OF_LIST and rest and isinstance(rest[0], list | tuple) and len(rest[0]) == old:
        return (type(rest[0])(rest[0][place % old] for place in range(new)), *rest[1:]), named
    if name in COUNTED:
        return (*given, *(_count(part, old, new) for part in rest)), named
    if name == "repeat_interleave":
        return _repeated(args, named, old, new)
    if name not in (*MADE, *OF_TUPLE, *VIEWS):
        return args, named
    numel = given[0].numel() if given and name in ("view", "reshape") else None
    for key in BY_NAME:
        if isinstance(named.get(key), tuple | list):
            named[key] = _shape(name, named[key], old, new, numel)
    if name not in OF_TUPLE and rest and all(type(part) is int for part in rest):
        return (*given, *_shape(name, rest, old, new, numel)), named
    shaped = (_shape(name, part, old, new, numel) if isinstance(part, tuple | list) else part for part in rest)
    return (*given, *shaped), named


def _shape(name: str, sizes: Sequence[Any], old: int, new: int, numel: int | None) -> tuple[Any, ...]:
    """A shape with the first of its sizes that is the batch's, if that is among the first two."""
    if any(type(size) is not int for size in sizes) or (numel is not None and math.prod(sizes) == numel):
        return tuple(sizes)
    most = 1 if name in ("repeat", "tile") or sizes[:1] == (-1,) else 2
    for place, size in enumerate(sizes[:most]):
        if size > 0 and (size % old == 0 if name in VIEWS else size in [times * old for times in TIMES]):
            return (*sizes[:place], size // old * new, *sizes[place + 1 :])
    return tuple(sizes)


def _count(count: Any, old: int, new: int) -> Any:
    """A number of examples: of the batch, of two for each, or of half, where the batch has two views of each."""
    if type(count) is int and 2 * count in (old, 2 * old, 4 * old):
        return count * new // old
    return count


def _repeated(
    args: tuple[Any, ...], named: dict[str, Any], old: int, new: int
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with as many copies of what there is one of, where they are so many for each example."""
    given = dict(zip(("input", "repeats", "dim"), args, strict=False)) | named
    copies, axis = given.get("repeats"), given.get("dim")
    if type(copies) is not int or copies % old or axis is None or given["input"].shape[axis] != 1:
        return args, named
    times = copies // old * new
    return args[:1], {**named, "repeats": times, "dim": axis}


def _part(index: Any, old: int, new: int) -> Any:
    """An index whose first slice ends or begins at a number of examples."""
    if isinstance(index, slice):
        return slice(_count(index.start, old, new), _count(index.stop, old, new), index.step)
    if isinstance(index, tuple) and index and isinstance(index[0], slice):
        return (_part(index[0], old, new), *index[1:])
    return index

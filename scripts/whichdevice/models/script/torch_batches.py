"""Batches of a PyTorch script's loader in the shapes that they have, of few of its examples where these are large.

    batches = of_few(loader, fakes)
    next(iter(batches))    # 1,024 images of the loader: of eight of them, without values

Where the first examples have the same shapes, they stand for all of a batch that would take long or much memory. In a
pass that has taken long, such as an evaluation before the training, they stand for all that follow.
"""

import copy
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset

from whichdevice.models.pipeline import nbytes_of
from whichdevice.models.script.torch_fakes import Fakes

ALIKE = 8  # examples that stand for all
MAX_SECONDS, MAX_BYTES = 2.0, 2**28  # of a batch whose examples are all made; a tensor of more bytes has no values
MAX_PASS_SECONDS = 10.0  # of making examples of one shape, from which on a pass reads no more of them

Rest = Callable[[], AbstractContextManager[Any]]


class UnlikeError(Exception):
    """A batch of some examples does not show what one of more is."""


def of_few(loader: Any, fakes: Fakes, rest: Rest = nullcontext) -> Any:
    """A loader that gives the same batches in this process, of few examples; itself where its data are a stream.

    `rest` is entered while a batch is made: modules that change single images are none of the training's.
    """
    if loader.batch_sampler is None or isinstance(loader.dataset, IterableDataset):
        return loader
    batch = Batch(loader.dataset, loader.collate_fn, fakes, rest)
    return DataLoader(Places(), batch_sampler=loader.batch_sampler, collate_fn=batch, generator=loader.generator)


class Resting(Iterator[Any]):
    """Batches of a stream, in whose making nothing is recorded: all that it has read would be held."""

    def __init__(self, batches: Iterator[Any], rest: Rest) -> None:
        self._batches, self._rest = batches, rest

    def __next__(self) -> Any:
        with self._rest():
            return next(self._batches)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


class Places(Dataset[Any]):
    """The places of examples as a data set."""

    def __getitem__(self, place: Any) -> Any:
        """Return the place."""
        return place


class Batch:
    """Makes a batch of the examples at some places of a data set."""

    def __init__(self, dataset: Any, collate: Callable[[list[Any]], Any], fakes: Fakes, rest: Rest) -> None:
        self._dataset, self._collate, self._fakes, self._rest = dataset, collate, fakes, rest
        self._seconds, self._shapes = 0.0, set[str]()  # of the batches so far
        self._first: list[Any] = []  # examples of the last one, unless they are large
        self._stands = False  # whether these stand for all that follow

    def __call__(self, places: Sequence[Any]) -> Any:
        """Return the batch, of few examples where all would take long or much memory."""
        began = time.monotonic()
        with self._rest():
            batch = self._of_first(self._first, len(places)) if self._stands else self._made(places)
        if self._stands:
            return batch
        self._seconds += time.monotonic() - began
        self._stands = bool(self._first) and len(self._shapes) == 1 and self._seconds > MAX_PASS_SECONDS
        return batch

    def _made(self, places: Sequence[Any]) -> Any:
        count, began = len(places), time.monotonic()
        first = self._examples(places[:ALIKE])
        share = count / max(1, len(first))
        long = (time.monotonic() - began) * share > MAX_SECONDS
        large = sum(map(nbytes_of, first)) * share > MAX_BYTES
        shapes = {*map(repr, map(shape_of, first))}
        self._first, self._shapes = [] if large else first, self._shapes | shapes
        if count <= ALIKE or not (long or large) or len(shapes) > 1:
            return self._collate([*first, *self._examples(places[ALIKE:])])
        if large:
            try:
                return self._wider(self._collate(first), self._collate(first[:-1]), count)
            except UnlikeError:
                pass
        return self._of_first(first, count)

    def _of_first(self, first: Sequence[Any], count: int) -> Any:
        """A batch in which the first examples take turns."""
        return self._collate([first[place % len(first)] for place in range(count)])

    def _examples(self, places: Sequence[Any]) -> list[Any]:
        together = getattr(self._dataset, "__getitems__", None)
        return list(together(places)) if together and places else [self._dataset[place] for place in places]

    def _wider(self, batch: Any, smaller: Any, count: int) -> Any:
        """A part of a batch of ALIKE examples, and of one of one fewer, as it is of `count` examples."""
        if torch.is_tensor(batch):
            return self._wider_tensor(batch, smaller, count)
        if type(batch) is not type(smaller):
            raise UnlikeError
        if isinstance(batch, Mapping):
            wider = copy.copy(batch)
            for key, part in batch.items():
                wider[key] = self._wider(part, smaller[key], count)  # type: ignore[index]
            return wider
        if type(batch) in (list, tuple):
            if len(batch) == len(smaller):
                return type(batch)(self._wider(*parts, count) for parts in zip(batch, smaller, strict=True))
            return type(batch)(batch[place % len(batch)] for place in range(_grown(len(batch), len(smaller), count)))
        if isinstance(batch, int) and batch != smaller:
            return _grown(batch, smaller, count)
        if isinstance(batch, int | float | str | None):
            return batch
        raise UnlikeError

    def _wider_tensor(self, batch: torch.Tensor, smaller: Any, count: int) -> torch.Tensor:
        shape = [
            size if size == other else _grown(size, other, count)
            for size, other in zip(batch.shape, smaller.shape, strict=True)
        ]
        if batch.nbytes / max(1, batch.numel()) * np.prod(shape, dtype=float) > MAX_BYTES:
            return self._fakes.empty(shape, batch.dtype)
        for axis, size in enumerate(shape):
            if size != batch.shape[axis]:
                batch = batch.index_select(axis, torch.arange(size) % batch.shape[axis])
        return batch


def _grown(size: int, smaller: int, count: int) -> int:
    """A size of ALIKE examples, and of one fewer, as it is of `count`; raises UnlikeError where it does not show."""
    each = size - smaller
    if each * ALIKE != size:
        raise UnlikeError
    return each * count


def shape_of(example: Any) -> Any:
    """Shapes and types of an example's parts; a thing of another kind is like no other."""
    if isinstance(example, Mapping):
        return {key: shape_of(part) for key, part in example.items()}
    if isinstance(example, tuple | list):
        numbers = all(isinstance(part, int | float) for part in example)
        return len(example) if numbers else [*map(shape_of, example)]
    if hasattr(example, "shape") and hasattr(example, "dtype"):
        return tuple(example.shape), str(example.dtype)
    if hasattr(example, "size") and hasattr(example, "mode"):  # an image of Pillow
        return example.size, example.mode
    return type(example).__name__ if isinstance(example, int | float) else id(example)

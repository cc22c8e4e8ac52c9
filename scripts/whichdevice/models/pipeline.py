"""The rate of a training's input pipeline on this machine, measured alone: no model takes part.

    for rate in rates(loader, batch_size=64):
        rate.workers, rate.examples_per_second, rate.first_seconds, rate.written

A pipeline is what gives batches one after the other: a tf.data.Dataset, a PyTorch DataLoader, a keras.utils.PyDataset
or a generator. Arrays in memory are none. The first batch is timed apart: it starts workers and fills buffers. A loader
of large or slow examples is timed by parts of its batches.
"""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

RATE_SECONDS = 0.6  # of measuring for each number of workers
MOST_BATCHES = 2000
BATCH_SECONDS = 120  # until a loader's worker that gives nothing is given up
GROWS = 1.15  # times the rate of one thread, from which on several are faster
CARRIED = 0.6  # of the rate without workers: a worker with less takes longer to hand a batch over than to make it ...
HANDED_SECONDS = 0.1  # ... which takes less than this: otherwise this machine was busy
PART_SECONDS, PART_BYTES = 0.25, 2**25  # of the examples that a loader gives at once while it is timed


class Rate(NamedTuple):
    """The examples that a number of workers give; 0 workers: the training's own process."""

    workers: int
    examples_per_second: float
    first_seconds: float
    written: bool = True  # whether the file or script has so many, as far as there are cores
    asked: int | None = None  # how many it asks for; None: as many as there are cores, or none
    batch_seconds: float = 0.0  # at this rate, of a batch or of the part of one that is timed


def rates(given: Any, batch_size: int) -> list[Rate]:
    """Rates with 0 workers, one, one for each core, and as written, as far as a pipeline has workers; [] of arrays."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    rates = [_rate(workers, make(workers), batch_size) for workers, make in _makers(given, sorted({0, 1, cores}))]
    rates = [rate for rate in rates if rate.examples_per_second]
    most = max((rate.workers for rate in rates), default=0)
    asked = getattr(given, "num_workers", None)
    written = min(best(rates).workers if asked is None and rates else asked or 0, most)  # tf.data's: what it finds
    return [rate._replace(written=rate.workers == written, asked=asked) for rate in rates]


def _rate(workers: int, batches: Any, batch_size: int) -> Rate:
    most = getattr(getattr(batches, "batch_sampler", None), "most", batch_size)  # examples of a part of a batch
    rate = _timed(workers, batches, min(batch_size, most))
    timed = round(rate.batch_seconds * rate.examples_per_second)
    return rate._replace(examples_per_second=rate.examples_per_second * _rows(batches, batch_size, timed))


def _rows(batches: Any, batch_size: int, timed: int) -> int:
    """Examples of a step that one of a loader becomes, where the script makes rows of its points or windows."""
    sampler = getattr(batches, "batch_sampler", None)
    whole = getattr(sampler, "whole", None) or getattr(sampler, "batch_size", None)
    if not isinstance(whole, int) or timed != getattr(sampler, "most", whole) or batch_size % whole:
        return 1
    return batch_size // whole


def best(measured: Iterable[Any]) -> Any:
    """The fastest of several rates, at least one."""
    return max(measured, key=lambda rate: rate.examples_per_second)


def best_and_written(measured: Sequence[Any]) -> dict[str, Any]:
    """Examples per second and workers of the fastest of several rates, at least one, and of the one as written.

    `written_workers` is None where the pipeline takes as many as there are cores.
    """
    fastest = best(measured)
    written = next((rate for rate in measured if rate.written), fastest)
    workers = written.workers if written.asked is None else written.asked
    return {
        "pipeline_rate": fastest.examples_per_second, "pipeline_workers": fastest.workers,
        "pipeline_core_rate": core_rate(measured), "written_rate": written.examples_per_second,
        "written_workers": None if written.asked is None and written is fastest else workers,
    }  # fmt: skip


def core_rate(measured: Sequence[Any]) -> float:
    """Return the examples per second that each core gives with a worker; 0: more workers give no more.

    Processes are faster with more, unless a batch takes longer to hand over than to make; threads where that is seen.
    """
    by_workers = {rate.workers: rate for rate in measured}
    if 1 not in by_workers or len(by_workers) == 1:
        return 0.0
    most = max(by_workers)
    one, all_of_them = by_workers[1].examples_per_second, by_workers[most].examples_per_second
    own_process = by_workers.get(0)
    if own_process is None:
        return float(all_of_them / most) if all_of_them > GROWS * one else 0.0
    least = CARRIED * own_process.examples_per_second
    if one > least:
        return float(all_of_them / most)
    seconds = own_process.batch_seconds or own_process.first_seconds  # an older record has only these
    return least if seconds > HANDED_SECONDS else 0.0


def _makers(given: Any, wanted: list[int]) -> Iterator[tuple[int, Callable[[int], Iterable[Any]]]]:
    """A function that makes the pipeline anew, by number of workers."""
    if hasattr(given, "batch_sampler") and hasattr(given, "dataset"):  # PyTorch's DataLoader
        theirs = min(given.num_workers, wanted[-1])  # workers beyond the cores take turns
        if _streams(given):
            yield given.num_workers, lambda workers: _loader(given, workers)
            return
        most = part_of(given)
        for workers in sorted({*wanted, theirs}):
            yield workers, lambda workers: _loader(given, workers, most)
    elif hasattr(given, "as_numpy_iterator"):  # tf.data: its threads are its workers
        for workers in wanted[1:]:
            yield workers, lambda workers: _with_threads(given, workers)
    elif hasattr(given, "__getitem__") and hasattr(given, "__len__") and not hasattr(given, "shape"):
        if not isinstance(given, list | tuple | dict | str):  # a PyDataset
            yield 0, lambda _: (given[place] for place in range(len(given)))
    elif isinstance(given, Iterator):
        yield 0, lambda _: given


def part_of(given: Any) -> int | None:
    """Examples that a loader reads in PART_SECONDS, of at most PART_BYTES; None where a batch has no more."""
    began, nbytes = time.perf_counter(), 0
    places: Sequence[int] = [] if given.batch_sampler is None else next(iter(given.batch_sampler), [])
    for number, place in enumerate(places, 1):
        nbytes += nbytes_of(given.dataset[place])
        if number < len(places) and (time.perf_counter() - began > PART_SECONDS or nbytes > PART_BYTES):
            return number
    return None


class Parts:
    """The batches of a sampler in parts of at most so many examples."""

    def __init__(self, batches: Iterable[Sequence[Any]], most: int) -> None:
        self._batches, self.most, self.whole = batches, most, getattr(batches, "batch_size", None)

    def __iter__(self) -> Iterator[Sequence[Any]]:
        """Return the places of each part's examples."""
        for batch in self._batches:
            for start in range(0, len(batch), self.most):
                yield batch[start : start + self.most]


def nbytes_of(example: Any) -> int:
    """Bytes of the arrays of an example."""
    if isinstance(example, Mapping):
        return sum(map(nbytes_of, example.values()))
    if isinstance(example, tuple | list):
        return sum(nbytes_of(part) for part in example if not isinstance(part, int | float))
    return int(getattr(example, "nbytes", 0))


def _loader(given: Any, workers: int, most: int | None = None) -> Any:
    from torch.utils.data import DataLoader

    kept = {"num_workers": workers, "pin_memory": False}
    kept |= {name: getattr(given, name) for name in ("collate_fn", "worker_init_fn", "generator")}
    if workers:
        names = ("prefetch_factor", "persistent_workers", "timeout", "multiprocessing_context")
        kept |= {name: getattr(given, name) for name in names}
        kept["timeout"] = kept["timeout"] or BATCH_SECONDS
    order = {} if _streams(given) else {"sampler": given.sampler}
    if given.batch_sampler is None:  # the dataset gives batches itself
        return DataLoader(given.dataset, batch_size=None, **order, **kept)
    if most is not None:
        return DataLoader(given.dataset, batch_sampler=Parts(given.batch_sampler, most), **kept)
    if given.batch_size is None or type(given.batch_sampler).__name__ != "BatchSampler":
        return DataLoader(given.dataset, batch_sampler=given.batch_sampler, **kept)
    return DataLoader(given.dataset, batch_size=given.batch_size, drop_last=given.drop_last, **order, **kept)


def _streams(loader: Any) -> bool:
    """Return whether its dataset gives one example after the other, to each worker all unless it divides them."""
    return any(base.__name__ == "IterableDataset" for base in type(loader.dataset).__mro__)


def _with_threads(given: Any, workers: int) -> Any:
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = workers
    return given.with_options(options)


def _timed(workers: int, batches: Iterable[Any], batch_size: int) -> Rate:
    """Return the rate after the first batch, and the seconds of that one; 0 examples a second where there is none.

    A pipeline that ends within the time is timed by its whole passes, first batches included: workers make the rest of
    a short one meanwhile.
    """
    began = time.perf_counter()
    waiting = iter(batches)
    batch = next(waiting, None)
    if batch is None:
        return Rate(workers, 0.0, 0.0)
    size, first = _size(batch, batch_size), time.perf_counter() - began
    count, number, passes, ended = size, 1, 0, began  # `passes`: examples of whole ones, the last of which ended then
    while number < MOST_BATCHES and time.perf_counter() - began < first + RATE_SECONDS:
        batch = next(waiting, None)
        if batch is None:
            passes, ended = count, time.perf_counter()
            if iter(batches) is waiting:  # a generator
                break
            waiting = iter(batches)
            if (batch := next(waiting, None)) is None:
                break
        count, number = count + _size(batch, batch_size), number + 1
    timed, seconds = (passes, ended - began) if passes else (count - size, time.perf_counter() - began - first)
    rate = timed / max(seconds, 1e-9)
    return Rate(workers, rate, first, batch_seconds=size / rate if rate else 0.0)


def _size(batch: Any, otherwise: int) -> int:
    """Examples of a batch: the first size of its first array; of a list for each of its parts, the list's length."""
    if isinstance(batch, Mapping):
        return _size(next(iter(batch.values()), None), otherwise)
    if isinstance(batch, list | tuple):
        first = batch[0] if batch else None
        return otherwise if isinstance(first, list | tuple) and len(first) == otherwise else _size(first, otherwise)
    if isinstance(graphs := getattr(batch, "num_graphs", None), int):  # of PyTorch Geometric
        return graphs
    shape = getattr(batch, "shape", None)  # of a tensor, without its numbers
    shape = np.shape(batch) if shape is None and batch is not None else shape
    return int(shape[0]) if shape else otherwise

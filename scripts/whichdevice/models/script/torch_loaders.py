"""The batches of a PyTorch script that is recorded: loaders work in its process; examples of calls are counted.

    loaders = Loaders(recorder)
    loaders.watch(replace)
    loaders.take()       # batches since the last time, by the place of their loader in memory
    rows.begin(gradients, module, frame)    # an outermost module is called in training
    rows.note(args)                         # and modules in it
    rows.take()                             # examples since the last time, by the place of the call
"""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from types import FrameType, SimpleNamespace
from typing import Any

import torch
from torch.utils._pytree import tree_leaves
from torch.utils.data import BatchSampler, DataLoader

from whichdevice.models.script.amounts import known_length
from whichdevice.models.script.frames import frames
from whichdevice.models.script.run import SEED

TIMED = 3  # axes of sequences: time, example, feature
PLAIN = (torch.Tensor, int, float, complex)  # of which a list is no batch
PLACES = 12  # innermost lines that tell one call from another


class Loaders:
    """Lets loaders work in this process, outside of what is recorded, and counts their batches."""

    def __init__(self, recorder: Any) -> None:
        self.known = list[Any]()  # that gave batches
        self.begins = dict[tuple[str, int], Any]()  # by the file and line where a loop began with them
        self.sizes = dict[int, int]()  # examples of a batch, by the place of its loader
        self.share = Fraction(1)  # of the examples of a batch that it gives ...
        self.shared = False  # ... which was another number for some of them
        self.graphs = False
        self.seconds = 0.0  # that they took
        self._recorder, self._loaded = recorder, Counter[int]()
        self._worker: SimpleNamespace | None = None  # which this process stands for

    def watch(self, replace: Callable[[Any, str, Any], None]) -> None:
        """See all loaders that begin."""
        begin, draw, worker = DataLoader.__iter__, BatchSampler.__iter__, torch.utils.data.get_worker_info
        replace(torch.utils.data, "get_worker_info", lambda: self._worker or worker())
        replace(DataLoader, "__iter__", lambda loader: self._begun(begin, loader))
        replace(BatchSampler, "__iter__", lambda sampler: map(self._part, draw(sampler)))

    def take(self) -> Counter[int]:
        """Return the batches since the last time, by the place of their loader."""
        taken, self._loaded = self._loaded, Counter()
        return taken

    def _part(self, places: Any) -> Any:
        """The examples of a batch: a part of them, or some twice, while another batch is tried."""
        if self.share == 1:
            return places
        self.shared, wanted = True, max(1, round(len(places) * self.share))
        return (places * -(-wanted // len(places)))[:wanted]

    def _begun(self, begin: Callable[[Any], Any], loader: Any) -> Any:
        """Return what gives a loader's batches, in this process: dozens of workers would fill the memory for one."""
        known = any(other is loader for other in self.known)
        if not known:
            self.known.append(loader)
        self.begins |= {(one.f_code.co_filename, one.f_lineno): loader for one in frames(sys._getframe(2))}
        if loader.num_workers and loader.worker_init_fn is not None and not known:  # it may open the data set's files
            self._worker = SimpleNamespace(id=0, num_workers=1, seed=SEED, dataset=loader.dataset)
            loader.worker_init_fn(0)
            self._worker = None
        workers, seconds, pins = loader.num_workers, loader.timeout, loader.pin_memory
        loader.num_workers = loader.timeout = 0
        loader.pin_memory = False
        try:
            return Batches(begin(loader), self, loader)
        finally:
            loader.num_workers, loader.timeout, loader.pin_memory = workers, seconds, pins

    def next_of(self, batches: Iterator[Any], loader: Any) -> Any:
        """Return a loader's next batch and count it; nothing of its making is recorded."""
        self._recorder.resting += 1
        began = time.perf_counter()
        try:
            batch = next(batches)
        finally:
            self._recorder.resting -= 1
            self.seconds += time.perf_counter() - began
        self._loaded[id(loader)] += 1
        graphs = getattr(batch, "num_graphs", None)
        self.graphs = self.graphs or isinstance(graphs, int)
        size = loader.batch_size or getattr(loader.batch_sampler, "batch_size", None)
        if size is None:
            size = graphs if isinstance(graphs, int) else rows_of(batch)
        self.sizes[id(loader)] = size or 1
        return batch


class Batches(Iterator[Any]):
    """The batches of a loader."""

    def __init__(self, batches: Iterator[Any], loaders: Loaders, loader: Any) -> None:
        self._batches, self._loaders, self._loader = batches, loaders, loader

    def __next__(self) -> Any:
        return self._loaders.next_of(self._batches, self._loader)

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]


def rows_of(batch: Any) -> int:
    """Examples of a batch: the length of its first tensor, or of a list of examples."""
    if isinstance(batch, torch.Tensor):
        return len(batch) if batch.ndim else 1
    if isinstance(batch, Mapping) or hasattr(batch, "items"):
        return next((rows_of(part) for part in batch.values()), 1)
    if isinstance(batch, tuple | list) and batch:
        return len(batch) if isinstance(batch, list) and not isinstance(batch[0], torch.Tensor) else rows_of(batch[0])
    return known_length(batch) or 1


class Rows:
    """Counts the examples of calls since the last step, by the number of the next gradients and the place."""

    def __init__(self) -> None:
        self._counts = Counter[Any]()
        self._call: Any = None  # whose examples do not show yet

    def begin(self, gradients: int, module: torch.nn.Module, frame: FrameType | None) -> None:
        """Begin an outermost module's call."""
        self._call = gradients, id(module), tuple(_lines(frame))

    def note(self, given: Any) -> None:
        """Note the examples of the call by the first tensor that a module in it is given, or a list of other things."""
        if self._call is None:
            return
        first = given[0] if isinstance(given, tuple) and given else None
        if isinstance(first, list) and first and not any(isinstance(leaf, PLAIN) for leaf in tree_leaves(first)):
            tensors: list[Any] = [first]  # graphs, or images of a library
        else:
            tensors = [part for part in tree_leaves(given) if isinstance(part, torch.Tensor) and part.ndim]
        if tensors:
            self._counts.setdefault(self._call, len(tensors[0]))
            self._call = None

    def note_time_steps(self, gradients: int, module: torch.nn.Module, args: Any) -> None:
        """Note the examples of a call whose layer takes time steps first, as long as what the call was given."""
        given = args[0] if args else None
        if getattr(module, "batch_first", True) or not isinstance(given, torch.Tensor) or given.ndim != TIMED:
            return
        call = next(reversed(self._counts), (None,))
        if call[0] == gradients and self._counts[call] == given.shape[0]:
            self._counts[call] = given.shape[1]

    def end(self, named: Any) -> None:
        """End the outermost call, which was given these arguments by name, too."""
        self.note(named)
        self._call = None

    def take(self) -> Counter[Any]:
        """Return the counts since the last time."""
        counts, self._counts = self._counts, Counter()
        return counts


def _lines(frame: FrameType | None) -> Iterator[tuple[int, int]]:
    """The innermost lines at which functions are, but for PyTorch's."""
    left = PLACES
    for one in frames(frame):
        if left and not (one.f_globals.get("__name__") or "").startswith("torch."):
            left -= 1
            yield id(one.f_code), one.f_lineno

"""The rate of an input pipeline by itself: which batches are counted, with how many workers."""

import os
import subprocess
import sys
from collections import UserDict
from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from beside import beside

from whichdevice.models import pipeline
from whichdevice.models.data import pipeline_in
from whichdevice.models.pipeline import PART_BYTES, Parts, Rate, best_and_written, part_of, rates

BESIDE = beside(__file__)

CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Shape(tuple[int, ...]):
    """As TensorFlow's, which knows its rank."""

    @property
    def rank(self) -> int:
        return len(self)


class Spec(SimpleNamespace):
    def __init__(self, shape: tuple[int, ...]) -> None:
        super().__init__(shape=Shape(shape))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time of `pipeline`, in seconds, which a test moves on."""
    now = [0.0]
    monkeypatch.setattr(pipeline.time, "perf_counter", lambda: now[0])
    return now


class Batches:
    """Eight batches of four examples; the first takes 5 s, each other one half a second or as long as one says."""

    def __init__(self, clock: list[float], seconds: float = 0.5) -> None:
        self.clock, self.seconds = clock, seconds

    def __len__(self) -> int:
        return 8

    def __getitem__(self, place: int) -> tuple[np.ndarray, np.ndarray]:
        if not 0 <= place < 8:
            raise IndexError
        self.clock[0] += self.seconds if place else 5.0
        return np.zeros((4, 2)), np.zeros(4)


def test_the_first_batch_is_timed_apart_and_a_generator_may_end(clock: list[float]) -> None:
    found = Batches(clock)
    assert rates((found[place] for place in range(8)), 4) == [(0, 8.0, 5.0, True, None, 0.5)]
    assert rates(found, 4) == [(0, 8.0, 5.0, True, None, 0.5)]
    assert rates(np.zeros((8, 2)), 4) == []


LOADER = BESIDE["loader"]


@pytest.mark.needs("torch")
def test_a_loader_is_tried_with_several_workers_and_as_it_is_written() -> None:
    """In a process of its own: workers are forks. What gives a stream would give it twice to two workers."""
    done = subprocess.run([sys.executable, "-c", LOADER], capture_output=True, text=True, check=True)
    several = str([(each, each == 0) for each in sorted({0, 1, CORES})])
    counts = sorted({0, 1, CORES})
    begun = sum(counts)  # by workers that go on from pass to pass, as the loader's settings are kept
    one = str([(count, count == 1) for count in counts])
    assert done.stdout.splitlines() == [several, "[(0, True)]", several, several, one, str(begun)]


def test_a_pipeline_that_ends_is_timed_by_its_whole_passes(clock: list[float]) -> None:
    """Workers make the rest of a short one while its first batch is waited for: nothing of it takes time then."""

    def ready() -> Iterator[np.ndarray]:
        clock[0] += 4.0
        yield from [np.zeros((4, 2))] * 8

    assert rates(ready(), 4)[0].examples_per_second == 8.0
    assert rates(Batches(clock, 0.05), 4)[0].examples_per_second == pytest.approx(32 / 5.35)
    assert rates(iter(()), 4) == []


GROWING: list[tuple[str, dict[int, float], float]] = BESIDE["growing"]


@pytest.mark.parametrize(("kind", "rates_of_workers", "core_rate"), GROWING, ids=[one[0] for one in GROWING])
def test_what_each_core_gives_is_known_where_more_workers_give_more(kind, rates_of_workers, core_rate) -> None:
    opened = 5.0  # seconds before the first batch: what a loader opens is no part of making one
    batches_of_ten = [
        Rate(workers, rate, opened, batch_seconds=10 / rate) for workers, rate in rates_of_workers.items()
    ]
    found = best_and_written(batches_of_ten)
    assert found["pipeline_core_rate"] == core_rate and found["pipeline_rate"] == max(rates_of_workers.values())


def test_of_a_record_without_the_seconds_of_a_batch_those_of_the_first_count() -> None:
    assert best_and_written([Rate(0, 60.0, 0.2), Rate(1, 5.0, 2.0), Rate(2, 8.0, 2.0)])["pipeline_core_rate"] == 36.0


SIZES = {
    "a mapping of arrays, as of a tokenizer": (UserDict(ids=np.zeros((8, 5)), mask=np.zeros((8, 5)), types=None), 8),
    "images and boxes as tuples": ((tuple([np.zeros((3, 9, 9))] * 8), tuple([{"boxes": np.zeros((2, 4))}] * 8)), 8),
    "two views of the images": (([np.zeros((8, 3)), np.zeros((8, 3))], np.zeros(8)), 8),
}


@pytest.mark.parametrize("kind", SIZES)
def test_the_examples_of_a_batch_are_counted(kind: str, clock: list[float]) -> None:
    def batches() -> Iterator[object]:
        for _ in range(4):
            clock[0] += 1.0
            yield SIZES[kind][0]

    assert rates(batches(), 8)[0].examples_per_second == SIZES[kind][1]


def test_a_loader_as_written_has_its_own_number_of_workers_even_where_cores_are_fewer() -> None:
    loader = [Rate(0, 60.0, 0.1, written=False, asked=8), Rate(2, 110.0, 0.1, written=True, asked=8)]
    assert best_and_written(loader)["written_workers"] == 8
    assert best_and_written([Rate(1, 60.0, 0.1, False), Rate(2, 110.0, 0.1)])["written_workers"] is None


def test_a_data_function_has_a_pipeline_where_it_gives_batches_one_after_the_other() -> None:
    class PyDataset(Batches):
        pass

    batches, arrays = PyDataset([0.0]), (np.zeros((8, 2)), np.zeros(8))
    assert pipeline_in(batches) is batches and pipeline_in((batches, PyDataset([0.0]))) is batches
    sized = SimpleNamespace(element_spec=tuple(Spec(shape) for shape in ((8, 2), (8,))), __iter__=iter)
    assert pipeline_in(type("Dataset", (), vars(sized))()) is not None
    for none in (arrays, (arrays, arrays), {"x": arrays[0]}, ((x, 0) for x in range(8)), [(x, 0) for x in range(8)]):
        assert pipeline_in(none) is None


class Images:
    """A data set that counts the examples that it gives: large ones that take no memory."""

    def __init__(self, sizes: list[int]) -> None:
        self.sizes, self.given = sizes, 0

    def __len__(self) -> int:
        return 10**6

    def __getitem__(self, place: int) -> tuple[object, int]:
        import torch

        self.given += 1
        return torch.zeros(()).expand(3, self.sizes[place % len(self.sizes)], 512), place


@pytest.mark.needs("torch")
@pytest.mark.usefixtures("clock")
def test_a_loader_of_large_examples_is_timed_by_parts_of_its_batches() -> None:
    from torch.utils.data import DataLoader

    most = part_of(DataLoader(Images([512]), batch_size=1024))
    assert most is not None and most <= 1 + PART_BYTES / (4 * 3 * 512 * 512)
    assert part_of(DataLoader(Images([4]), batch_size=16)) is None
    assert [*Parts([range(5), range(2)], 2)] == [range(2), range(2, 4), range(4, 5), range(2)]


@pytest.mark.needs("torch")
@pytest.mark.parametrize(("batch_size", "rate"), [(4, 2.0), (40, 20.0), (42, 2.0)])
def test_a_loader_of_scenes_gives_as_many_rows_as_a_step_makes_of_them(batch_size, rate, clock) -> None:
    """Each scene takes half a second; a step of ten rows for each is fed by four scenes."""
    from torch.utils.data import DataLoader, IterableDataset

    class Scenes(IterableDataset[np.ndarray]):
        def __iter__(self) -> Iterator[np.ndarray]:
            while True:
                clock[0] += 0.5
                yield np.zeros((10, 3))

    assert [one.examples_per_second for one in rates(DataLoader(Scenes(), batch_size=4), batch_size)] == [rate]

"""Join the kernels of a step as torch.compile does: those without products are joined where they follow one another.

    fusion = Fusion()
    fusion.put("memory", "half", 0, reads=[7], writes=[8], nbytes={7: 100, 8: 100})
    fusion.items()

Products, convolutions and attention stay kernels of libraries, with all they read and write. Any other kernel joins
those that made what it reads, unless a library's kernel is between them. A joined kernel reads what others made and
writes what others read; what only its own parts use never reaches memory. This is the simplest form of what Inductor
does; `make forecasts` shows how far that holds.
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from whichdevice.forecast.work import Item, Kind, Precision


class Fusion:
    """Kernels of a step in their order, and the values that pass between them.

    A value is a storage between two writes. Its age counts the libraries' kernels that it waits for.
    """

    def __init__(self) -> None:
        self._now: dict[int, int] = {}  # by storage: its value
        self._bytes: list[float] = []  # by value, as the next three
        self._age: list[int] = []
        self._maker: list[int | None] = []  # group that made it
        self._readers: list[set[int | None]] = []  # groups; None: kernels of libraries
        self._group_age: list[int] = []
        self._joined: list[int] = []  # by group: the one it is part of
        self._libraries: list[tuple[Kind, Precision, float, float, int]] = []

    def put(
        self,
        kind: Kind,
        precision: Precision,
        operations: float,
        reads: Sequence[int],
        writes: Sequence[int],
        nbytes: Mapping[int, float],
        count: int = 1,
    ) -> None:
        """Add a kernel, or `count` of a library; storages have numbers, and `nbytes` what it moves of each."""
        values = [self._value(storage, nbytes[storage]) for storage in dict.fromkeys(reads)]
        age = max((self._age[value] for value in values), default=0)
        group: int | None = None
        if operations:
            self._libraries.append((kind, precision, operations, sum(nbytes.values()), count))
            age += 1
        else:
            makers = {self._whole(made) for value in values if (made := self._maker[value]) is not None}
            same = sorted(made for made in makers if self._group_age[made] == age)
            if not same:
                same = [len(self._joined)]
                self._joined.append(same[0])
                self._group_age.append(age)
            group = same[0]
            for other in same[1:]:
                self._joined[other] = group
        for value in values:
            self._readers[value].add(group)
        for storage in dict.fromkeys(writes):
            self._new(storage, nbytes[storage], age, group)

    def free(self, storage: int) -> None:
        """Forget a storage: its number may come back as another's."""
        self._now.pop(storage, None)

    def items(self) -> Iterator[Item]:
        """Kernels as items: those of libraries, and the joined ones as their sum."""
        for kernel in self._libraries:
            yield Item(*kernel)
        moved_by: dict[int, float] = defaultdict(float)
        latest = set(self._now.values())
        for value, size in enumerate(self._bytes):
            maker = self._maker[value]
            made = None if maker is None else self._whole(maker)
            groups = {reader if reader is None else self._whole(reader) for reader in self._readers[value]}
            others = groups - {made} if made is not None else groups
            for group in others - {None}:
                moved_by[group] += size  # type: ignore[index]
            if made is not None and (others or value in latest):
                moved_by[made] += size
        if moved_by:
            yield Item("memory", "", 0.0, sum(moved_by.values()) / len(moved_by), len(moved_by))

    def _value(self, storage: int, size: float) -> int:
        if storage not in self._now:
            self._new(storage, size, 0, None)
        value = self._now[storage]
        self._bytes[value] = max(self._bytes[value], size)
        return value

    def _new(self, storage: int, size: float, age: int, maker: int | None) -> None:
        self._now[storage] = len(self._bytes)
        self._bytes.append(size)
        self._age.append(age)
        self._maker.append(maker)
        self._readers.append(set())

    def _whole(self, group: int) -> int:
        while self._joined[group] != group:
            group = self._joined[group]
        return group

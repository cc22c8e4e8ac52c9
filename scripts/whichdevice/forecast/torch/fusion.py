"""Join the kernels of a traced step as torch.compile does, by the rule of count/fusion.py.

    fusion = Fusion()
    fusion.put("memory", "half", 0, reads=[7], writes=[8], nbytes={7: 100, 8: 100})
    fusion.items()

Products, convolutions and attention stay kernels of libraries, with all they read and write. A value is a storage
between two writes. This is the simplest form of what Inductor does; `make forecasts` shows how far that holds.
"""

from collections.abc import Mapping, Sequence

from whichdevice.forecast.count.fusion import Level, Operation, Read
from whichdevice.forecast.work import Item, Kind, Precision


class Fusion:
    """Kernels of a step in their order, and the storages that pass between them."""

    def __init__(self) -> None:
        self._now: dict[int, int] = {}  # by storage: its value
        self._size: list[float] = []  # by value
        self._given = set[int]()  # values that no kernel made
        self._operations: list[Operation] = []

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
        read = [Read(self._value(storage, nbytes[storage]), nbytes[storage]) for storage in dict.fromkeys(reads)]
        made = Operation(kind if operations else "joined", read, precision, operations, runs=count)
        if operations:
            made.written = sum(nbytes.values()) - sum(one.nbytes for one in read)
        made.writes = [self._new(storage, nbytes[storage]) for storage in dict.fromkeys(writes)]
        self._operations.append(made)

    def free(self, storage: int) -> None:
        """Forget a storage: its number may come back as another's."""
        self._now.pop(storage, None)

    def items(self) -> tuple[Item, ...]:
        """Return the kernels: each kernel of a library, and the sum of the joined ones."""
        level = Level(self._size, self._operations, self._given, set(self._now.values()), anew=0.0)
        return level.kernels()[0].total().work("gpu").items

    def _value(self, storage: int, size: float) -> int:
        if storage not in self._now:
            self._given.add(self._new(storage, size))
        value = self._now[storage]
        self._size[value] = max(self._size[value], size)
        return value

    def _new(self, storage: int, size: float) -> int:
        self._now[storage] = len(self._size)
        self._size.append(size)
        return self._now[storage]

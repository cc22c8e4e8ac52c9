"""The work of one run of a training step on one device, sorted by what binds it: a sum of kernels of few kinds.

    for item in work.items:
        item.kind, item.precision, item.operations, item.bytes, item.count

Counted steps of JAX, Keras and TensorFlow (count/) and traced PyTorch steps (torch/) end in a Work; the time model
reads nothing else.
"""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Self, get_args

from whichdevice.base.errors import StudyError

Platform = Literal["gpu", "tpu"]
Software = Literal["xla", "eager", "torch.compile", "xla of a GPU", "PyTorch"]  # the last two: of a TPU (tpu.py)
Kind = Literal[
    "product",
    "convolution",
    "grouped convolution",
    "slow grouped convolution",  # published ones of TensorFlow 1.15 on Turing; no forecast has any
    "memory",
    "gather and scatter",
    "collective",
    "transfer",
    # Of PyTorch's eager kernels alone: one by one (pointwise), of fewer than 16 inputs (thin), one filter an input
    # (depthwise).
    "pointwise convolution",
    "thin convolution",
    "depthwise convolution",
    "convolution backward",
    "pointwise convolution backward",
    "thin convolution backward",
    "depthwise convolution backward",
    "grouped convolution backward",
    "attention",
    "attention backward",
    "recurrent",  # a kernel of a time step, which waits for the last one; cuDNN sends all of a layer off together
    "norm",
    "batch norm",  # in training, with statistics of the batch
    "optimizer",
    # The same on images whose channels are the last axis in memory, where PyTorch runs operation by operation.
    "channels-last convolution",
    "channels-last pointwise convolution",
    "channels-last thin convolution",
    "channels-last depthwise convolution",
    "channels-last grouped convolution",
    "channels-last convolution backward",
    "channels-last pointwise convolution backward",
    "channels-last thin convolution backward",
    "channels-last depthwise convolution backward",
    "channels-last grouped convolution backward",
    "channels-last norm",
    "channels-last batch norm",
]
Precision = Literal["", "float32", "tf32", "half"]
# Steps of which no published times were tested.
Untested = Literal[
    "3-D convolutions", "instance norm at batch 1", "values read by the host", "hundreds of tiny kernels",
    "float8 products",
]  # fmt: skip

LAST = "channels-last "
OF_LAYOUT = tuple(kind.removeprefix(LAST) for kind in get_args(Kind) if kind.startswith(LAST))
PRODUCTS: tuple[Kind, ...] = ("product", "convolution", "grouped convolution", "slow grouped convolution")


# How recurrent layers run in a forecast, among the notes of a program.
LOOPED = "{kinds} layers are forecast as loops over time steps; cuDNN's, which a GPU may run, are faster"
FUSED_RECURRENT = (
    "recurrent layers are forecast as cuDNN's: a whole layer is sent off at once, its time steps wait for each other"
)
FUSED_GRU = f"{FUSED_RECURRENT}; JAX has no GRU of cuDNN and is slower"


@dataclass(frozen=True)
class Item:
    """Work of one kind: `count` kernels of `operations` and `bytes` each, on one device.

    Kernels without products are summed up, as bytes alone bind them: their item has the mean of each. `cycles` is the
    TPU compiler's own estimate in kept digests (fit/), else None, `devices` the size of a collective's group.
    On a GPU `tf32` means float32 that may be multiplied as TF32 where the device has it; a TPU makes float32 in six
    passes of its bfloat16 units and what is here tf32 (XLA's precision `high`) in three.
    """

    kind: Kind
    precision: Precision
    operations: float
    bytes: float
    count: float
    cycles: float | None = None
    devices: int = 1


def in_layout(kind: Kind, last: bool) -> Kind:
    """The kind on images whose channels are the last axis in memory, or the first."""
    plain = kind.removeprefix(LAST)
    return f"{LAST}{plain}" if last else plain  # type: ignore[return-value]


@dataclass(frozen=True)
class Work:
    """The work of one run of a program on one device.

    `software` names what launches its kernels: a compiled program of XLA, PyTorch operation by operation, or
    `torch.compile`.
    """

    platform: Platform
    items: tuple[Item, ...]
    unknown_loops: int = 0
    unknown_calls: int = 0  # calls into libraries or own kernels, whose operations cannot be counted
    software: Software = "xla"
    untested: tuple[Untested, ...] = ()

    @property
    def is_compiled(self) -> bool:
        """Whether the host sends the whole step off in one call, as it does a program of XLA."""
        return self.software.startswith("xla")

    @property
    def operations(self) -> float:
        """The operations of all products and convolutions."""
        return sum(item.operations * item.count for item in self.items)

    @property
    def bytes(self) -> float:
        """The bytes of off-chip memory, collectives not counted."""
        return sum(item.bytes * item.count for item in self.items if item.kind != "collective")

    @property
    def kernels(self) -> float:
        """How many kernels run."""
        return sum(item.count for item in self.items)

    @property
    def sent(self) -> float:
        """How many kernels, or loops of them, the host sends off from Python."""
        return sum(item.count for item in self.items if item.kind != "recurrent")

    @property
    def grouped(self) -> bool:
        """Whether some of its convolutions have groups, as depthwise ones have."""
        return any("grouped" in item.kind or item.kind.startswith("depthwise") for item in self.items)

    @property
    def has_channels_last(self) -> bool:
        """Whether some of its images have channels as their last axis in memory."""
        return any(item.kind.startswith(LAST) for item in self.items)

    def in_other_layout(self) -> "Work":
        """The same work on images in the other layout."""
        last = not self.has_channels_last
        items = (
            replace(item, kind=in_layout(item.kind, last)) if item.kind.removeprefix(LAST) in OF_LAYOUT else item
            for item in self.items
        )
        return replace(self, items=tuple(items))

    def in_tf32(self) -> "Work":
        """The same work where products of float32 may be multiplied as TF32."""
        items = (replace(item, precision="tf32") if item.precision == "float32" else item for item in self.items)
        return replace(self, items=tuple(items))

    def deepened(self, deeper: "Work", layers: float) -> "Work":
        """The work of `layers` equal layers, from the work of one layer (`self`) and of two (`deeper`).

        A layer may be several: of work of 4 and 6 layers, 2.5 is of 7.
        """
        total = Total()
        for work, times in ((self, 2 - layers), (deeper, layers - 1)):
            for item in work.items:
                total.put(item, times)
            total.unknown_loops += round(times * work.unknown_loops)
            total.unknown_calls += round(times * work.unknown_calls)
        return replace(total.work(self.platform, self.software), untested=self.untested)

    def scaled(self, times: float) -> "Work":
        """The work of a step at another batch: as many kernels, each of so many times the operations and bytes."""
        items = (replace(item, operations=item.operations * times, bytes=item.bytes * times) for item in self.items)
        return replace(self, items=tuple(items))

    def digest(self) -> dict[str, Any]:
        """A compact form for JSON; `from_dict` reads it back."""
        rows = [
            [item.kind, item.precision, item.operations, item.bytes, item.count, item.cycles, item.devices]
            for item in self.items
        ]
        return {
            "platform": self.platform,
            "items": rows,
            "unknown_loops": self.unknown_loops,
            "unknown_calls": self.unknown_calls,
            "software": self.software,
            **({"untested": list(self.untested)} if self.untested else {}),
        }

    @classmethod
    def from_dict(cls, digest: dict[str, Any]) -> Self:
        """Read what `digest` wrote; raises StudyError on anything else."""
        try:
            items = tuple(Item(*row) for row in digest["items"])
            loops, calls = digest["unknown_loops"], digest["unknown_calls"]
            untested = tuple(digest.get("untested", ()))
            return cls(digest["platform"], items, loops, calls, digest.get("software", "xla"), untested)
        except (KeyError, TypeError, ValueError) as error:
            raise StudyError(f"digest of a program: cannot be read ({type(error).__name__})") from None


Key = tuple[Kind, Precision, float, float, int]  # of equal products: all but how many
Rest = tuple[Kind, Precision, int]  # of kernels that are summed up: kind, precision, devices
Sums = list[float]  # bytes and kernels


def _key(item: Item) -> Key:
    return item.kind, item.precision, item.operations, item.bytes, item.devices


def _items(products: Mapping[Key, float], summed: Mapping[Rest, Sums]) -> tuple[Item, ...]:
    """Sums as items, without those that come to nothing."""
    items = [
        Item(kind, precision, operations, nbytes, count, devices=devices)
        for (kind, precision, operations, nbytes, devices), count in products.items()
        if count
    ]
    for (kind, precision, devices), (nbytes, count) in summed.items():
        if count:
            items.append(Item(kind, precision, 0.0, nbytes / count, count, devices=devices))
    return tuple(items)


@dataclass
class Total:
    """Sums while a program is read: counts of equal products, and sums of the rest."""

    products: defaultdict[Key, float] = field(default_factory=lambda: defaultdict(float))
    rest: defaultdict[Rest, Sums] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))
    unknown_loops: int = 0
    unknown_calls: int = 0

    def put(self, item: Item, times: float = 1) -> None:
        """Add an item, so many times."""
        if item.operations or item.kind in PRODUCTS:
            self.products[_key(item)] += item.count * times
            return
        sums = self.rest[(item.kind, item.precision, item.devices)]
        for place, value in enumerate((item.bytes, 1.0)):
            sums[place] += value * item.count * times

    def add(self, other: "Total", times: int = 1) -> None:
        """Add another one, run so many times."""
        for key, count in other.products.items():
            self.products[key] += count * times
        for kind, sums in other.rest.items():
            self.rest[kind] = [a + b * times for a, b in zip(self.rest[kind], sums, strict=True)]
        self.unknown_loops += other.unknown_loops
        self.unknown_calls += other.unknown_calls

    @property
    def bytes(self) -> float:
        """The bytes of all kernels."""
        return sum(key[3] * count for key, count in self.products.items()) + sum(sums[0] for sums in self.rest.values())

    def recurrent(self) -> "Total":
        """Return the same kernels as kernels of a time step."""
        total = Total(unknown_loops=self.unknown_loops, unknown_calls=self.unknown_calls)
        for product, count in self.products.items():
            kind: Kind = product[0] if product[0] == "collective" else "recurrent"
            total.products[(kind, *product[1:])] += count
        for key, sums in self.rest.items():
            kind = key[0] if key[0] in ("collective", "transfer") else "recurrent"
            new_key = (kind, *key[1:])
            total.rest[new_key] = [a + b for a, b in zip(total.rest[new_key], sums, strict=True)]
        return total

    @property
    def weight(self) -> float:
        """The measure that finds the longest branch: bytes, and operations as if a byte took a hundred."""
        products = sum((key[2] / 100 + key[3]) * count for key, count in self.products.items())
        return products + sum(sums[0] for sums in self.rest.values())

    def work(self, platform: Platform, software: Software = "xla") -> Work:
        """The sums as a Work."""
        items = _items(self.products, self.rest)
        return Work(platform, items, self.unknown_loops, self.unknown_calls, software)

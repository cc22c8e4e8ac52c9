"""A TPU's first estimate, without its compiler: from the program that XLA made for a GPU, or from a trace of PyTorch.

The operations are the same ones. A TPU's compiler keeps small arrays in the chip's own memory, and makes other kernels:
constants.json has factors of their own for both, fitted to libtpu's programs of the same steps (fit/tpu.py). Loops over
time steps stay loops: a TPU has no cuDNN. The program of the TPU's own compiler replaces the estimate.
"""

from dataclasses import replace

from whichdevice.forecast.targets import Target
from whichdevice.forecast.work import Item, Work

CARD = "A100 SXM 80GB"  # whose program is read: it has every number format that a TPU has
SMALL_LOOPS = 256e6  # bytes that one run of a loop may move for its arrays to stay on the chip
ON_CHIP = 30e6  # bytes of a kernel of which half leave the chip; of larger ones most do
SPREAD = 0.3  # within so much of the memory a step may or may not fit
# Of what a GPU's program holds for a while, the share that a TPU's does: it fuses more, and pads what loops keep.
TEMPORARY, IN_LOOPS = 0.8, 1.25
NO_4_BITS = "4-bit weights (bitsandbytes) have no TPU form"


def of_program(work: Work) -> Work:
    """The work of a step on a TPU from that of a GPU's program, its loops as loops."""
    return replace(work, platform="tpu", software="xla of a GPU", items=tuple(map(_fused, work.items)))


def of_trace(fused: Work) -> Work:
    """The work of a PyTorch step on a TPU from its trace, with chains of kernels fused."""
    return replace(fused, platform="tpu", software="PyTorch", items=tuple(map(_fused, fused.items)))


def _fused(item: Item) -> Item:
    """The item with the bytes that leave the chip."""
    if item.kind == "collective":
        return item
    return replace(item, bytes=item.bytes * item.bytes / (item.bytes + ON_CHIP))


def memory_needed(work: Work, lasting: float, temporary: float) -> float:
    """Bytes on a TPU from those of a GPU's program: of arguments and results, and of what it holds for a while."""
    loops = any(item.kind == "recurrent" for item in work.items)
    return lasting + (IN_LOOPS if loops else TEMPORARY) * temporary


def is_tight(needed: float, target: Target) -> bool:
    """Whether an estimate is so near to the memory of a TPU that its compiler may find otherwise."""
    available = target.available(0)
    return abs(needed - available) <= SPREAD * available

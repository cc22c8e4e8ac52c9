"""The memory that is left to a step on a device, and the largest batch that fits by a line between two needs."""

from collections.abc import Callable

# Bytes of a GPU that a step of JAX or Keras cannot have: the CUDA context with its kernels, and the handles and
# workspaces of cuBLAS and cuDNN. About 0.3 GB (V100) to 0.6 GB (H100) in practice; a step cannot know what else uses
# the device.
RESERVE = 600e6
MAX_BATCH = 2**24
NONE_FITS = "not even the smallest batch fits"


def too_large(needed: float, available: float) -> str:
    """Return by how much a step does not fit."""
    return (
        f"needs {needed / 2**30:.2f} GiB of HBM on each device, {available / 2**30:.2f} GiB are available: "
        f"{(needed - available) / 2**30:.2f} GiB too much"
    )


def largest_batch(need: Callable[[int], float], batch: int, available: float) -> int:
    """Return the examples of one device that fit, by a line between two sizes; 0 where not even one does.

    `need` has the bytes of a size. One size needs less and the other more, the larger is twice the smaller: memory
    bends upwards, so that the line is on the safe side.
    """
    below, above = batch, batch
    if need(batch) <= available:
        while below <= MAX_BATCH and need(2 * below) <= available:
            below *= 2
        above = 2 * below
    while below and need(below) > available:
        above, below = below, below // 2
    if not below:
        return 0
    least, too_much = need(below), need(above)
    return below + int((above - below) * (available - least) / max(too_much - least, 1.0))

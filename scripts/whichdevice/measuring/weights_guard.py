"""A model whose weights alone cannot fit this host is refused while it is built, before its memory is taken."""

from collections.abc import Iterator
from contextlib import contextmanager
from math import prod
from typing import Any

from whichdevice.measuring.refusal import RefusedError

COPIES = 2  # of each weight at the very least: itself and its gradient
WIDTH = 4  # bytes


@contextmanager
def weights_within(limit: float | None) -> Iterator[None]:
    """While it lasts, Keras variables that need more than `limit` bytes together raise RefusedError; None: no limit."""
    if limit is None:
        yield
        return
    from keras.src.backend.common.variables import Variable

    own, numbers = Variable.__init__, 0

    def counted(variable: Any, initializer: Any, shape: Any = None, *rest: Any, **settings: Any) -> None:
        nonlocal numbers
        if shape is not None and not hasattr(initializer, "shape"):
            numbers += prod(size for size in shape if isinstance(size, int))
        if (need := numbers * WIDTH * COPIES) > limit:
            raise RefusedError(
                f"the model has {numbers:,} weights and more: with gradients over {need / 1e9:,.0f} GB of memory, this "
                f"host has {limit / 1e9:.1f} GB left; make the model smaller"
            )
        own(variable, initializer, shape, *rest, **settings)

    Variable.__init__ = counted
    try:
        yield
    finally:
        Variable.__init__ = own

"""Functions of Keras' backends, replaced while a step is traced or run, and how the replacements are asked for.

Used for CPUs alone, where a framework's own kernel takes a large share of a step; what is computed stays the same.
"""

from typing import Any

LEVELS = 1 << 16  # of 16 random bits


def channels_last(inputs: Any, data_format: str | None) -> bool:
    """Whether these are images [batch, rows, columns, channels]."""
    import keras

    return len(inputs.shape) == 4 and (data_format or keras.config.image_data_format()) == "channels_last"


def whole_windows(
    inputs: Any, pool_size: Any, strides: Any, padding: str, data_format: str | None
) -> tuple[int, int] | None:
    """Rows and columns of pooling windows that cover images [batch, rows, columns, channels] without overlap.

    None for every other pooling. Rows and columns that fill no window are cut off by `padding` "valid".
    """
    if not channels_last(inputs, data_format):
        return None
    size = (pool_size, pool_size) if isinstance(pool_size, int) else tuple(pool_size)
    steps = size if strides is None else (strides, strides) if isinstance(strides, int) else tuple(strides)
    left = [extent % step for extent, step in zip(inputs.shape[1:3], size, strict=True)]
    if steps != size or (padding != "valid" and any(left)):
        return None
    return size[0], size[1]


def dropped_levels(rate: float, noise_shape: Any) -> int | None:
    """How many of 65,536 levels are dropped; None where nothing or all is, or where elements share a mask."""
    levels = round(rate * LEVELS)
    return levels if 0 < levels < LEVELS and noise_shape is None else None

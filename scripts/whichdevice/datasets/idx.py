"""Reader for IDX files of unsigned bytes, the format of MNIST and Fashion-MNIST.

Layout: two zero bytes, type code 0x08, number of dimensions, one big-endian uint32 per dimension, then the values.
"""

import struct
from math import prod
from pathlib import Path

import numpy as np

from whichdevice.datasets.archives import unpacked
from whichdevice.errors import StudyError

UINT8 = b"\x00\x00\x08"


def parse_idx(data: bytes) -> np.ndarray:
    """The array in `data`, uint8; raises ValueError. Allocates nothing that the header alone asks for."""
    if data[:3] != UINT8 or len(data) < 4:
        raise ValueError(f"no IDX file of unsigned bytes: it starts with {data[:4].hex() or 'nothing'}")
    header = 4 + 4 * data[3]
    if len(data) < header:
        raise ValueError("cut inside its header")
    shape = struct.unpack(f">{data[3]}I", data[4:header])
    if len(data) - header != prod(shape):
        raise ValueError(f"its header says {list(shape)}, but {len(data) - header} values follow")
    if not 1 <= len(shape) <= 8:
        raise ValueError(f"{len(shape)} dimensions")
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def read_idx(path: Path, shape: tuple[int, ...], below: int = 256) -> np.ndarray:
    """Read one .gz or plain IDX file of exactly that shape with values under `below`; raises StudyError."""
    data = b"".join(unpacked(path, limit=4 + 4 * len(shape) + prod(shape)))
    try:
        array = parse_idx(data)
    except ValueError as error:
        raise StudyError(f"{path} is cut, corrupted or another file: {error}; get it again") from error
    if array.shape != shape:
        raise StudyError(f"{path} holds {list(array.shape)} values, expected {list(shape)}: it is another file")
    if array.max(initial=0) >= below:
        raise StudyError(f"{path} holds the value {array.max()}, expected 0 to {below - 1}: it is another file")
    return array

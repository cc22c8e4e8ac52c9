"""IDX files are read whole or refused."""

import gzip
import struct
from math import prod
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from whichdevice.base.errors import StudyError
from whichdevice.models.datasets.images import parse_idx, read_idx


def idx(array: np.ndarray) -> bytes:
    return bytes([0, 0, 8, array.ndim]) + struct.pack(f">{array.ndim}I", *array.shape) + array.tobytes()


IMAGES = np.arange(24, dtype=np.uint8).reshape(4, 3, 2)
SHAPES = arrays.array_shapes(min_dims=1, max_dims=4, min_side=0, max_side=5)


@given(arrays.arrays(np.uint8, SHAPES))
@settings(max_examples=200)
def test_what_was_written_is_read(array: np.ndarray) -> None:
    np.testing.assert_array_equal(parse_idx(idx(array)), array)


@given(st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=255), st.binary(max_size=50))
@settings(max_examples=300)
def test_a_header_that_lies_about_its_size_is_refused(shape: list[int], content: bytes) -> None:
    data = bytes([0, 0, 8, len(shape)]) + struct.pack(f">{len(shape)}I", *shape) + content
    if prod(shape) != len(content):
        with pytest.raises(ValueError, match="its header says"):
            parse_idx(data)


def damaged() -> dict[str, bytes]:
    packed = gzip.compress(idx(IMAGES))
    crc = bytearray(packed)
    crc[-5] ^= 1
    return {
        "empty": b"",
        "cut in the gzip header": packed[:5],
        "cut in the data": packed[:-12],
        "cut in the CRC": packed[:-4],
        "wrong CRC": bytes(crc),
        "garbled": packed[:15] + b"\xff\xff\xff" + packed[18:],
        "not packed": idx(IMAGES),
        "a web page": b"<html>",
        "wrong magic": gzip.compress(b"\x00\x00\x0d" + idx(IMAGES)[3:]),
        "too long": gzip.compress(idx(IMAGES) + b"x"),
        "a bomb": gzip.compress(idx(np.zeros((4, 3, 2), np.uint8)) + bytes(10_000_000)),
        "lying": gzip.compress(bytes([0, 0, 8, 3]) + struct.pack(">3I", 2**32 - 1, 2**32 - 1, 28)),
        "another shape": gzip.compress(idx(IMAGES.reshape(3, 4, 2))),
    }


@pytest.mark.parametrize("case", damaged())
def test_a_damaged_file_is_one_clear_line(tmp_path: Path, case: str) -> None:
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(damaged()[case])
    with pytest.raises(StudyError, match=r"train-images-idx3-ubyte\.gz") as error:
        read_idx(path, (4, 3, 2))
    assert "\n" not in str(error.value)


def test_labels_out_of_range_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "labels"
    path.write_bytes(idx(np.array([0, 9, 10], np.uint8)))
    with pytest.raises(StudyError, match="holds the value 10, expected 0 to 9"):
        read_idx(path, (3,), below=10)

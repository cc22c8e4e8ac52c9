"""Whatever is read from elsewhere is read or refused in one clear line: no crash, no hang, no memory blow-up."""

import os
import random
import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pytest
from fuzz.mutations import mutated
from fuzz.readers import Reader, readers

from whichdevice.errors import StudyError

INPUTS = 500  # over all readers
MANY_INPUTS = int(os.environ.get("FUZZ_INPUTS", "10000"))
SECONDS = 300  # after which reading one input hangs, on a busy machine too
GROWTH = 500e6  # bytes, of the whole process
READERS = readers()
# A whole study's tables and page for each input.
EACH = [pytest.param(reader, marks=pytest.mark.slow if reader.share < 1 else ()) for reader in READERS]
QUICK = [reader for reader in READERS if reader.share == 1]


@contextmanager
def no_longer_than(seconds: int) -> Iterator[None]:
    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError("it hangs")

    signal.signal(signal.SIGALRM, ring)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)


def read(reader: Reader, content: bytes, folder: Path) -> StudyError | None:
    """The clear error, or None; anything else is raised with the input."""
    path = folder / reader.name
    path.write_bytes(content)
    try:
        with no_longer_than(SECONDS):
            reader.read(path)
    except StudyError as error:
        return error
    except BaseException as error:
        raise AssertionError(f"{reader.name}: {type(error).__name__}: {error}; input: {content[:3000]!r}") from error
    return None


@pytest.mark.parametrize("inputs", [INPUTS, pytest.param(MANY_INPUTS, marks=pytest.mark.long)])
@pytest.mark.parametrize("reader", EACH, ids=lambda reader: reader.name)
def test_wrong_input_is_one_clear_line(reader: Reader, inputs: int, tmp_path: Path) -> None:
    draw = random.Random(reader.name)
    before, refused = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, 0
    for _ in range(max(2, int(inputs * reader.share) // len(READERS))):
        error = read(reader, mutated(reader.valid, reader.name, draw), tmp_path)
        if error is not None:
            refused += 1
            assert str(error).strip()
            assert len(str(error).splitlines()) == 1, str(error)
            assert len(str(error)) < 2000, str(error)
    few = inputs == INPUTS and reader.name == "listing.txt"  # a few changed lines may all be names that are right
    assert refused or few or reader.name == "study.json", "no input was wrong"  # of a study it is a row
    assert (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * 1024 < GROWTH


@pytest.mark.parametrize("reader", EACH, ids=lambda reader: reader.name)
def test_the_valid_input_is_read(reader: Reader, tmp_path: Path) -> None:
    assert read(reader, reader.valid, tmp_path) is None


@pytest.mark.parametrize("reader", QUICK, ids=lambda reader: reader.name)
@pytest.mark.parametrize("content", [b"", b"\x00" * 1000, b"\xff\xfe" * 500, b"[" * 1500, b"{" * 1500])
def test_rubbish_is_one_clear_line(reader: Reader, content: bytes, tmp_path: Path) -> None:
    error = read(reader, content, tmp_path)
    assert error is None or len(str(error).splitlines()) == 1

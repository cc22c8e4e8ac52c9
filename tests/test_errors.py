"""What a person reads is one line of text, whatever a stranger wrote into it."""

import pytest

from whichdevice.base.errors import StudyError, lacks_memory, one_line

CLEAR = "\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", f"a{CLEAR}b", "a\u2028b", "a\u202eb", "a\x9b2Jb", "a\ud800b"])
def test_nothing_in_it_moves_the_cursor_or_begins_a_line(text):
    told = str(StudyError(f"record x: {text}"))
    assert told.isprintable() and told.startswith("record x: a") and told.endswith("b")
    assert one_line(text).isprintable()


def test_letters_of_all_languages_and_single_spaces_stay():
    text = "a stüdy/日本: 5 µs – «x»"
    assert str(StudyError(text)) == one_line(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "OOM when allocating tensor with shape[10000,10000]", "CUDA out of memory. Tried to allocate 20.00 GiB.",
        "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 1 bytes",
        "CUDA_ERROR_OUT_OF_MEMORY: out of memory", "INTERNAL: cuBLAS: CUBLAS_STATUS_ALLOC_FAILED when calling",
        "CUDNN_STATUS_ALLOC_FAILED", "std::bad_alloc",
        "DefaultCPUAllocator: can't allocate memory: you tried to allocate 400000000000 bytes",
        "Unable to allocate 1.00 GiB for an array", "MemoryError: the compiled step needs 3 GB",
    ],
)  # fmt: skip
def test_a_lack_of_memory_is_known_by_its_words(text: str) -> None:
    assert lacks_memory(RuntimeError(text))


@pytest.mark.parametrize(
    "text",
    [
        "RandomZoom needs a height factor", "BloomConfig has no attribute hidden_size",
        "there is no room for another axis", "the zoom of room.png", "CUBLAS_STATUS_EXECUTION_FAILED",
        "INVALID_ARGUMENT: shapes",
    ],
)  # fmt: skip
def test_other_errors_lack_no_memory(text: str) -> None:
    assert not lacks_memory(ValueError(text))
    assert lacks_memory(MemoryError(text))

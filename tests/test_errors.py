"""What a person reads is one line of text, whatever a stranger wrote into it."""

import pytest
from beside import beside

from whichdevice.base.errors import StudyError, lacks_memory, one_line

BESIDE = beside(__file__)

CLEAR = "\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize("text", ["a\nb", "a\r\nb", f"a{CLEAR}b", "a\u2028b", "a\u202eb", "a\x9b2Jb", "a\ud800b"])
def test_nothing_in_it_moves_the_cursor_or_begins_a_line(text):
    told = str(StudyError(f"record x: {text}"))
    assert told.isprintable() and told.startswith("record x: a") and told.endswith("b")
    assert one_line(text).isprintable()


def test_letters_of_all_languages_and_single_spaces_stay():
    text = "a stüdy/日本: 5 µs – «x»"
    assert str(StudyError(text)) == one_line(text) == text


@pytest.mark.parametrize("text", BESIDE["a lack of memory is known by its words"])
def test_a_lack_of_memory_is_known_by_its_words(text: str) -> None:
    assert lacks_memory(RuntimeError(text))


@pytest.mark.parametrize("text", BESIDE["other errors lack no memory"])
def test_other_errors_lack_no_memory(text: str) -> None:
    assert not lacks_memory(ValueError(text))
    assert lacks_memory(MemoryError(text))

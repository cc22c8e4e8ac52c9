"""What a person reads is one line of text, whatever a stranger wrote into it."""

import pytest

from whichdevice.__main__ import main
from whichdevice.errors import StudyError, one_line

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
    ("arguments", "message"),
    [
        (["aks"], "no command 'aks'; did you mean ask? (whichdevice --help)"),
        (
            ["check", "x.py", "--secnds", "3"],
            "check: '--secnds' is not known; did you mean --seconds? (whichdevice check --help)",
        ),
    ],
)
def test_a_misspelt_command_or_option_gets_the_nearest_right_one(arguments, message, capsys):
    assert main(arguments) == 2
    assert capsys.readouterr().err.strip() == message

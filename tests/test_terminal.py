"""What a terminal shows: lines that are broken between words."""

from whichdevice.terminal import wrapped


def test_lines_are_broken_between_words_for_a_terminal_alone() -> None:
    line = "mnist, weather_denmark: stand-in data of the same shapes"
    assert wrapped([line]) == [line]  # standard error of the tests is no terminal
    assert wrapped([line, ""], 40) == ["mnist, weather_denmark: stand-in data of", "the same shapes", ""]

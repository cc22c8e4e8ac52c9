"""A picture of a terminal shows what a person saw of a real run."""

import sys
import xml.etree.ElementTree as ET

from benchmarks.terminal_picture import drawn, shortened, watch

COMMAND = "import sys; w = sys.stderr.write; w('one\\n'); w('\\r\\033[2Kone of two'); w('\\r\\033[2Ktwo & last\\n')"


def test_lines_that_stay_are_apart_from_those_written_over() -> None:
    screen, _ = watch([sys.executable, "-c", COMMAND])
    assert [text for _, text in screen.stayed] == ["one", "two & last"]
    assert [text for _, text in screen.passed] == ["one of two"]
    assert "two & last" in shortened(screen)


def test_the_picture_is_whole_xml_with_the_command_on_top() -> None:
    texts = [element.text for element in ET.fromstring(drawn("whichdevice ask a<b", ["x & y"])).iter() if element.text]
    assert "$ whichdevice ask a<b" in texts and "x & y" in texts


def test_a_line_longer_than_the_terminal_is_broken() -> None:
    texts = [element.text for element in ET.fromstring(drawn("ask", ["x" * 250])).iter() if element.text]
    assert [len(text) for text in texts if "x" in text] == [100, 100, 50]

"""The test set that nobody fits: every published line is compared, or says why it cannot be."""

from fit import test_set
from fit.fitting import published_rows

from whichdevice.base.sheets.hardware import hardware_rows

LINES = test_set.lines()
FOUND = test_set.scored()


def test_every_line_is_compared_or_says_why_not():
    assert len({line.id for line in LINES}) == len(LINES) >= 100
    assert {line.compared for line in LINES} == {"level", "ratio", ""}
    for line in LINES:
        assert bool(line.reason) == (not line.compared), line.id
        assert "/" in line.source or not line.compared, line.id
        assert not line.compared or (line.device in hardware_rows() and line.seconds > 0), line.id


def test_no_line_is_in_the_fit():
    sources = {row.source_group.partition("_")[0] for row in published_rows()}
    assert not sources & {line.source_group for line in LINES}


def test_ratios_are_of_the_same_step_on_two_cards():
    over = list(test_set.ratios(FOUND))
    assert len(over) >= 12
    assert all(scored.line.device != test_set.REFERENCE for scored, _, _ in over)
    assert all(0.3 < published < 3 for _, published, _ in over)


def test_the_page_has_every_comparison_and_every_reason():
    text, page = "\n".join(map("\n".join, test_set.report().values())), test_set.PAGE.read_text(encoding="utf-8")
    assert all(f"| {scored.line.program} |" in text for scored in FOUND if scored.line.compared == "level")
    assert all(line.reason in text for line in LINES)
    assert all("\n".join(part) in page for part in test_set.report().values())

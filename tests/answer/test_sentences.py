"""What an answer says in one case and not in another: the rows of sentences.yaml."""

import pytest
from answer.test_printed import answered
from beside import beside

from whichdevice.decide.words import notes, text

SENTENCES = beside(__file__)


@pytest.mark.parametrize("case", SENTENCES)
def test_what_an_answer_says(case: str) -> None:
    found = answered(SENTENCES[case])
    said = " ".join(line.strip() for line in (*text(found), *notes(found)))
    assert [part for part in SENTENCES[case].get("has", []) if part not in said] == [], said
    assert [part for part in SENTENCES[case].get("lacks", []) if part in said] == [], said

"""A log of the user's requests as a load."""

import pytest

from whichdevice.apps.questions.request_log import read_requests
from whichdevice.base.errors import StudyError


def log(folder, text, name="log.csv"):
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("log.csv", "arrival,prompt,answer\n10,100,20\n12.5,300,5\n11,200,40\n"),
        ("log.csv", "TIMESTAMP,ContextTokens,GeneratedTokens\n2026-11-26 13:00:00,100,20\n2026-11-26 13:00:02.5,300,5\n"
         "2026-11-26T13:00:01,200,40\n"),
        ("log.jsonl", '{"timestamp": 0, "input_length": 100, "output_length": 20}\n\n'
         '{"arrival": 1, "prompt": 200, "answer": 40}\n{"arrival": 2.5, "prompt": 300, "answer": 5}\n'),
    ],
)  # fmt: skip
def test_requests_are_read_in_the_order_of_their_arrival(tmp_path, name, text):
    read = read_requests(log(tmp_path, text, name))
    assert read.arrivals == (0.0, 1.0, 2.5) and read.prompts == (100, 200, 300) and read.answers == (20, 40, 5)
    assert read.rps == pytest.approx(2 / 2.5)


HEAD = "arrival,prompt,answer\n1,100,20\n"


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("log.csv", HEAD + "2,many,20\n", r"line 3: prompt is 'many'; it must be a number of tokens, e.g. 812"),
        ("log.csv", HEAD + "2,100\n", r"log.csv, line 3: answer is empty"),
        ("log.csv", HEAD + "2,100,-5\n", r"log.csv, line 3: answer is '-5'"),
        ("log.csv", HEAD + "2,1.5,5\n", r"log.csv, line 3: prompt is '1.5'"),
        ("log.csv", HEAD + "soon,100,5\n", r"line 3: arrival is 'soon'; it must be seconds or a time: 2026-"),
        ("log.csv", "when,prompt,answer\n1,2,3\n", r"no column arrival; the first line must be arrival,prompt,answer"),
        ("log.csv", HEAD, r"two requests at different times are needed"),
        ("log.jsonl", '{"arrival": 1, "prompt": 1, "answer": 1}\n{"arrival": 2,\n', r"line 2: is no JSON object"),
        ("log.jsonl", '{"arrival": 1, "prompt": true, "answer": 1}\n', r"line 1: prompt is 'True'"),
    ],
)
def test_a_broken_line_is_named_with_the_fix_in_one_line(tmp_path, name, text, message):
    with pytest.raises(StudyError, match=message) as raised:
        read_requests(log(tmp_path, text, name))
    assert "\n" not in str(raised.value)


def test_a_log_that_cannot_be_read_says_so(tmp_path):
    with pytest.raises(StudyError, match=r"--requests .*missing.csv: cannot be read"):
        read_requests(tmp_path / "missing.csv")
    (tmp_path / "bytes.csv").write_bytes(b"\xff\xfe\x00arrival")
    with pytest.raises(StudyError, match="cannot be read"):
        read_requests(tmp_path / "bytes.csv")

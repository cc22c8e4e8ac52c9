"""A config file that is no whole YAML is named with its line."""

import re
from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.study.config.load import check_yaml


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "c.yaml: holds no keys; it needs lines such as `study: quick`"),
        (b"- a\n", "c.yaml: holds no keys; it needs lines such as `study: quick`"),
        (b"study: caf\xe9\n", "c.yaml: is not UTF-8 text (byte 10); save it as UTF-8"),
        (b"study: 2024-13-45\n", "c.yaml: is not YAML: month must be in 1..12"),
    ],
)
def test_other_damage_is_named_too(content: bytes, message: str, working_folder: Path) -> None:
    Path("c.yaml").write_bytes(content)
    with pytest.raises(StudyError) as caught:
        check_yaml(Path("c.yaml"))
    assert str(caught.value) == message


def test_an_absent_file_is_named(working_folder: Path) -> None:
    with pytest.raises(StudyError, match=r"^c\.yaml: cannot be read: No such file or directory$"):
        check_yaml(Path("c.yaml"))


def test_a_byte_order_mark_does_no_harm(working_folder: Path) -> None:
    Path("c.yaml").write_bytes(b"\xef\xbb\xbfstudy: try\n")
    assert check_yaml(Path("c.yaml")) == {"study": "try"}


LAUGHS = "\n".join(f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 12))
MERGES = "\n".join(f"a{level}: &a{level} {{<<: [{', '.join([f'*a{level - 1}'] * 9)}]}}" for level in range(1, 12))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (f"a0: &a0 [x]\n{LAUGHS}\nstudy: *a11\n", "c.yaml, line 6: more than 100,000 values once its aliases"),
        (f"a0: &a0 {{x: 1}}\n{MERGES}\nstudy: *a11\n", "c.yaml, line 6: more than 100,000 values once its aliases"),
        ("study: &a [*a]\n", "c.yaml, line 1: an alias is inside its own anchor"),
        (f"seed: 1{':1' * 100_000}\n", "c.yaml, line 1: this is too long for a number"),
    ],
)
def test_what_would_hold_far_too_much_is_refused_before_it_is_built(text, message, working_folder) -> None:
    Path("c.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(StudyError, match=re.escape(message)):
        check_yaml(Path("c.yaml"))


def test_aliases_in_reason_are_read(working_folder: Path) -> None:
    Path("c.yaml").write_text("a: &a {x: 1}\nb: {<<: *a, y: 2}\nc: [*a, *a]\n", encoding="utf-8")
    assert check_yaml(Path("c.yaml"))["b"] == {"x": 1, "y": 2}

"""The hardware sheet is read whole, or refused with the line and the column."""

from pathlib import Path

import pytest

from whichdevice.config.hardware import HARDWARE, hardware_rows
from whichdevice.errors import StudyError


def test_the_sheet_as_it_is_here() -> None:
    assert hardware_rows()["TPU v2"]["half_dense_tflops"] == "46"


@pytest.mark.parametrize(
    ("right", "wrong", "message"),
    [
        ("device,kind,", "device,sort,", "no column kind"),
        (",46,bf16,", ",many,bf16,", "line 2: half_dense_tflops is 'many'"),
        (",46,bf16,", ",-46,bf16,", "line 2: half_dense_tflops is '-46'"),
        (",46,bf16,", ",inf,bf16,", "line 2: half_dense_tflops is 'inf'"),
        ("TPU v4$", "TPU v4(", "line 4: matches is no pattern: missing \\)"),
    ],
)
def test_a_slip_is_told_with_its_line(right: str, wrong: str, message: str, tmp_path: Path) -> None:
    text = HARDWARE.read_text(encoding="utf-8")
    assert right in text
    (tmp_path / "hardware.csv").write_text(text.replace(right, wrong, 1), encoding="utf-8")
    with pytest.raises(StudyError, match=f"^hardware.csv.*{message}"):
        hardware_rows(tmp_path / "hardware.csv")


def test_a_row_that_ends_early_is_empty_from_there(tmp_path: Path) -> None:
    (tmp_path / "hardware.csv").write_text(HARDWARE.read_text(encoding="utf-8") + "My device,gpu\n", encoding="utf-8")
    assert hardware_rows(tmp_path / "hardware.csv")["My device"]["half_type"] == ""

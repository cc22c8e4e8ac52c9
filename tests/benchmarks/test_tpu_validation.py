"""The comparison of the TPU model with published times: the list, the committed answers and the docs agree."""

from pathlib import Path

import pytest
from benchmarks.tpu_model import small_workloads
from benchmarks.tpu_model.comparison import Comparison, read, summary, table, written
from benchmarks.tpu_model.published import published_rows

DOCS = Path(__file__).parents[2] / "docs" / "tpu-model.md"


def row(published: float, low: float | None, high: float | None) -> Comparison:
    return Comparison("any", "v2-2x2", published, low, high, 100.0)


@pytest.mark.parametrize(
    ("published", "low", "high", "verdict"),
    [
        (2.0, 1.0, 3.0, "yes"),
        (0.5, 1.0, 3.0, "below"),
        (4.0, 1.0, 3.0, "above"),
        (2.0, 1.0, None, "not below"),
        (2.0, None, None, "-"),
    ],
)
def test_a_published_time_lies_in_the_range_or_on_a_side_of_it(published, low, high, verdict):
    assert row(published, low, high).verdict == verdict


def test_a_low_end_alone_counts_as_no_range():
    line = summary([row(2.0, 1.0, 3.0), row(2.0, 1.0, None), row(9.0, 1.0, 3.0)])
    assert line.startswith("1 of 2 ranges hold the published time (50 %); published times below a low end: 0 of 3")
    assert "published / high: median 1.83, 0.67 to 3.00" in line
    assert "by a factor 3.00" in line


def test_what_is_written_is_read_back(tmp_path):
    rows = [row(2.0, 1.0, None), Comparison("other", "v6e-1x1", 3.0, None, None, None, "does not fit, it says")]
    written(rows, tmp_path / "rows.csv")
    assert read(tmp_path / "rows.csv") == rows


def test_every_listed_row_was_compared_and_none_besides():
    listed = [(each.id, each.topology.replace(":", "-"), each.step_ms) for each in published_rows()]
    compared = [(each.id, each.topology, each.published_ms) for each in read()]
    assert [name for name, *_ in compared] == [name for name, *_ in listed]
    assert compared == [(name, slice_, pytest.approx(ms, rel=1e-3)) for name, slice_, ms in listed]


def lines_between(first: str, last: str) -> list[str]:
    text = DOCS.read_text(encoding="utf-8")
    return text[text.index(first) : text.index(last)].splitlines()


def test_the_docs_show_the_committed_comparison():
    shown = lines_between("## Validation", "### What is missing")
    assert [line for line in shown if line.startswith("|")] == table(read())
    assert summary(read()) in " ".join(shown)


def test_the_docs_show_the_committed_gaps_of_the_small_workloads():
    shown = lines_between("### Small published workloads", "### Larger models")
    assert [line for line in shown if line.startswith("|")] == small_workloads.table(small_workloads.read())


def test_the_gaps_stand_beside_what_was_published():
    published = small_workloads.published()
    assert published["weather_gru", 256] == 493
    assert published["shakespeare_lstm", 1024] == 170  # an epoch of 17 s in 100 steps
    assert published["mnist_cnn", 512] == pytest.approx(58 * 512 / 1000)  # printed as microseconds a sample
    for gap in small_workloads.read():
        assert gap.published_ms == pytest.approx(published[gap.workload, gap.batch_size], rel=1e-3)
        assert gap.published_ms > max(gap.bfloat16_low, gap.float32_low)

"""Which records of a results folder count: its own, and those merged that the last call named."""

from pathlib import Path

import pytest

from whichdevice.records.results_folder import record_paths

RUN = "mnist_cnn/tensorflow-float32-b256/r1/record.json"


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Own runs, and those of two sources: one measured here too."""
    for name in ("runs/cpu", "merged/a/gpu", "merged/b/tpu", "merged/b/cpu"):
        file = tmp_path / name / RUN
        file.parent.mkdir(parents=True)
        file.write_text("{}", "utf-8")
    (tmp_path / "merged/b/index.json").write_text("{}", "utf-8")
    return tmp_path


def devices(results: Path) -> list[str]:
    """Where each record lies, without the common rest of its path."""
    return [path.relative_to(results).as_posix().removesuffix(f"/{RUN}") for path in record_paths(results)]


def test_merged_records_count_and_own_ones_come_before_merged_ones_of_the_same_run(results: Path) -> None:
    assert devices(results) == ["merged/a/gpu", "merged/b/tpu", "runs/cpu"]


def test_a_source_that_the_last_call_did_not_name_counts_no_more(results: Path) -> None:
    (results / "merged/counted.json").write_text('["b"]', "utf-8")
    assert devices(results) == ["merged/b/tpu", "runs/cpu"]
    (results / "merged/counted.json").write_text('["../../b"]', "utf-8")  # no way out of the folder
    assert devices(results) == ["merged/b/tpu", "runs/cpu"]
    (results / "merged/counted.json").write_text('["..", "", ".", "b"]', "utf-8")
    assert devices(results) == ["merged/b/tpu", "runs/cpu"]


def test_all_sources_count_where_nothing_readable_says_which(results: Path) -> None:
    for text in ("{", "1", "[" * 100_000):
        (results / "merged/counted.json").write_text(text, "utf-8")
        assert devices(results) == ["merged/a/gpu", "merged/b/tpu", "runs/cpu"]


def test_a_results_folder_whose_sources_were_all_dropped_is_no_other_folder(results: Path) -> None:
    (results / "runs/cpu" / RUN).unlink()
    (results / "merged/counted.json").write_text("[]", "utf-8")
    assert devices(results) == []


def test_of_two_sources_with_one_run_the_later_one_counts(results: Path) -> None:
    for source, ended in (("a", "2026-01-02T00:00:00Z"), ("b", "2026-01-01T00:00:00Z")):
        file = results / "merged" / source / "tpu" / RUN
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f'{{"ended": "{ended}"}}', "utf-8")
    assert devices(results) == ["merged/a/gpu", "merged/a/tpu", "runs/cpu"]


def test_any_other_folder_is_searched(results: Path) -> None:
    assert devices(results / "merged/b") == ["cpu", "tpu"]

"""Which records of a results folder count: its own, and of other runs those that were merged."""

from pathlib import Path

import pytest

from whichdevice.base.errors import StudyError
from whichdevice.base.files import write_atomically
from whichdevice.study.records.store import MergedRecord, MergedSource, merged_records, record_paths

RUN, KEY = "mnist_cnn/tensorflow-float32-b256/r1", "0123456789ab"


def merge(results: Path, name: str, *devices: str, key: str | None = None, ended: str = "2026-01-01T00:00:00Z") -> None:
    """A merged source with a record of each device."""
    records = {f"{device}/{RUN}": MergedRecord(key=key) for device in devices}
    for run in records:
        write_atomically(
            f'{{"ended": "{ended}"}}', results / "merged" / name / "runs" / run / (key or "") / "record.json"
        )
    write_atomically(MergedSource(records=records).model_dump_json(), results / "merged" / name / "source.json")


@pytest.fixture
def results(tmp_path: Path) -> Path:
    """Own runs, and those of two sources: one measured here too."""
    write_atomically("{}", tmp_path / "runs/cpu" / RUN / KEY / "record.json")
    merge(tmp_path, "a", "gpu")
    merge(tmp_path, "b", "tpu", "cpu", key=KEY)
    return tmp_path


def devices(results: Path) -> list[str]:
    """Where each record is, without the common rest of its path."""
    return [path.relative_to(results).as_posix().partition("/mnist")[0] for path in record_paths(results)]


def test_merged_records_count_and_own_ones_come_before_merged_ones_of_the_same_run(results: Path) -> None:
    assert devices(results) == ["merged/a/runs/gpu", "merged/b/runs/tpu", "runs/cpu"]


def test_a_record_that_its_source_does_not_name_does_not_count(results: Path) -> None:
    write_atomically("{}", results / "merged/a/runs/tpu" / RUN / "record.json")
    write_atomically("{}", results / "merged/.c.123/runs/gpu" / RUN / "record.json")
    write_atomically(MergedSource().model_dump_json(), results / "merged/.c.123/source.json")
    assert devices(results) == ["merged/a/runs/gpu", "merged/b/runs/tpu", "runs/cpu"]


def test_a_name_that_is_no_run_leads_nowhere(results: Path) -> None:
    records = {f"../../../{RUN}": MergedRecord(), f"gpu/../../{RUN}": MergedRecord(), "x": MergedRecord()}
    write_atomically(MergedSource(records=records).model_dump_json(), results / "merged/a/source.json")
    assert devices(results) == ["merged/b/runs/tpu", "runs/cpu"]


@pytest.mark.parametrize("text", ["{", "1", "[" * 100_000, '{"records": {"x": {"key": "../../../../.."}}}'])
def test_a_garbled_source_is_one_line_with_the_way_out(results: Path, text: str) -> None:
    write_atomically(text, results / "merged/a/source.json")
    with pytest.raises(StudyError, match=r"cannot read .*merged/a/source\.json: delete .*merged/a and merge again$"):
        merged_records(results)

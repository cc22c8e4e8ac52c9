"""`tpu run` from nothing to records, and no machine afterwards."""

from pathlib import Path

from cloud.conftest import Cloud


def test_a_study_is_measured_and_its_records_come_home(cloud: Cloud) -> None:
    done = cloud.tpu("run", "--yes")
    assert done.code == 0, done.text
    assert cloud.records() == cloud.every
    assert cloud.api.alive() == []
    assert "4 records brought back" in done.out

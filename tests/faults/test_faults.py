"""Whatever happens to a study, finished records stay byte for byte, unfinished runs go on, and the report tells."""

import sys
from pathlib import Path

import pytest
from faults import small_disk
from faults.campaign import kills
from faults.planted import FAULTS
from faults.trial import STUDY, Trial
from workflow.conftest import copy_project

# A disk that is full and calls that are killed have a short test each in tests/workflow.
pytestmark = [
    pytest.mark.slow,
    pytest.mark.long,
    pytest.mark.skipif(sys.platform != "linux", reason="mounts and signals of Linux"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return copy_project(tmp_path_factory.mktemp("faults") / "a study").folder


# The others have tests of their own in tests/workflow; the campaign plants all of them.
@pytest.mark.parametrize(
    "name",
    ["disk_full", "killed_as_a_record_lands", "record_cut", "dataset_bit_flipped", "clock_set_back", "read_only_tree"],
)
def test_a_planted_fault_loses_nothing(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_disk, "ROOM", (0, 2**20))  # the campaign tries more
    trial = Trial(folder, name, STUDY)
    reason = FAULTS[name](trial)
    trial.watch.end()
    if reason is not None:
        pytest.skip(reason)
    assert trial.losses == []


def test_kills_at_random_moments_lose_nothing(folder: Path) -> None:
    assert kills(folder, number=3, seed=3, duration=12, say=print) == []

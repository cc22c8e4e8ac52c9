"""Nothing of a study changes while another call has it, or in a dry run; it knows what it would bring."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
import synthetic

from whichdevice.locks import study_lock
from whichdevice.planning.claim import Claim
from whichdevice.planning.study_plan import StudyPlan, plan_study
from whichdevice.storage.place import open_place
from whichdevice.storage.publish import publish

CONFIG = {**synthetic.SMALL, "data": {"source": "standin"}}
LOCKED = """
import sys, pathlib
from whichdevice.locks import study_lock
with study_lock(pathlib.Path("results/small")):
    print("held", flush=True)
    sys.stdin.read()
"""


def tree(folder: str = "results") -> dict[str, tuple[str, int]]:
    """Content and time of every file, and every folder."""
    return {
        str(path): (hashlib.sha256(path.read_bytes()).hexdigest(), path.stat().st_mtime_ns)
        if path.is_file()
        else ("", 0)
        for path in Path(folder).rglob("*")
    }


def call(device: str, claim: Claim) -> StudyPlan:
    """A call that merges `device` of the records that lie beside it."""
    return plan_study({**CONFIG, "merge": [{"from": f"other_{device}", "rename": {"cpu": device}}]}, claim=claim)


@pytest.fixture
def merged(working_folder: Path) -> dict[str, tuple[str, int]]:
    """A study that merged one machine, as it lies there; another machine's records are at hand."""
    for device in ("laptop", "desktop"):
        study = synthetic.small_study(devices={"cpu": synthetic.small_study().devices["cpu"]})
        synthetic.write_study(study, Path(f"other_{device}"))
    claim = Claim(dry=False)
    call("laptop", claim)
    claim.release()
    assert list(Path("results").rglob("record.json"))
    return tree()


def devices(plan: StudyPlan) -> set[str]:
    return {Path(path).parts[4] for path in plan.other_records()}


def test_a_dry_run_knows_what_it_would_merge_and_changes_nothing(merged: dict[str, tuple[str, int]]) -> None:
    plan = call("desktop", Claim())
    assert devices(plan) == {"desktop"} and len(plan.other_times()) == 4
    assert all(path.startswith("results/small/merged/") for path in plan.other_records())
    assert tree() == merged


def test_a_dry_run_of_what_is_merged_already_finds_nothing_new(merged: dict[str, tuple[str, int]]) -> None:
    times = [merged[path][1] for path in call("laptop", Claim()).other_records()]
    assert call("laptop", Claim()).other_times() == times
    assert tree() == merged


def test_a_call_beside_the_one_that_has_the_study_changes_nothing(
    merged: dict[str, tuple[str, int]], project_root: Path
) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", LOCKED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(project_root / "scripts")},
    )
    try:
        assert owner.stdout is not None and owner.stdout.readline() == b"held\n"
        before = tree()
        call("desktop", Claim(dry=False))
        assert tree() == before
    finally:
        owner.communicate()
    claim = Claim(dry=False)
    assert devices(call("desktop", claim)) == {"desktop"}
    assert tree() != before
    with pytest.raises(Exception, match="in use by another study"):
        study_lock(Path("results/small"))  # the call that changed it has it to its end
    claim.release()


def test_a_dry_run_fetches_no_published_study(working_folder: Path, tmp_path: Path) -> None:
    synthetic.write_study(synthetic.small_study(), tmp_path / "theirs" / "small")
    publish(tmp_path / "theirs" / "small", open_place(str(tmp_path / "bucket")))
    plan = plan_study({"results_from": str(tmp_path / "bucket" / "small")})
    assert plan.study.study == "small" and plan.wanted() == [] and tree() == {}

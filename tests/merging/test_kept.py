"""The study's own config names no source of merged records, so that no address stands in the results: what was brought
counts, and the commands on the report's page lose nothing."""

import shutil
from pathlib import Path

import synthetic
import yaml

from whichdevice.config.load import write_study
from whichdevice.config.model import Device
from whichdevice.planning.claim import Claim
from whichdevice.planning.study_plan import StudyPlan, plan_study
from whichdevice.records.facts import Machine

OTHER = Machine(cpu="Other CPU", memory=2**34, operating_system="Linux", identity="bbbb")
CONFIG = {**synthetic.SMALL, "data": {"source": "standin"}, "run_on": ["cpu"]}
OWN = Path("results/small/config.yaml")


def brought() -> StudyPlan:
    """A study that has merged another machine's records, which are gone there now."""
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu")})
    synthetic.write_study(study, Path("other"), change=lambda run, record: record.model_copy(update={"machine": OTHER}))
    claim = Claim(dry=False)
    plan = plan_study({**CONFIG, "merge": [{"from": "other", "rename": {"cpu": "laptop"}}]}, claim=claim)
    write_study(plan.study, OWN)
    claim.release()
    shutil.rmtree("other")
    return plan


def test_its_own_config_keeps_them(working_folder: Path) -> None:
    plan = brought()
    assert {run.cell.device for run in plan.elsewhere.records} == {"laptop"}
    again = plan_study(yaml.safe_load(OWN.read_text("utf-8")), files=[OWN])
    assert again.elsewhere.records == plan.elsewhere.records
    assert again.study.devices["laptop"].elsewhere


def test_its_own_config_keeps_none_that_was_left_out(working_folder: Path) -> None:
    synthetic.write_study(synthetic.small_study(devices={"cpu": Device(kind="cpu", replicas=2)}), Path("other"))
    laptop = {**CONFIG["devices"], "laptop": {"kind": "cpu"}}
    claim = Claim(dry=False)
    call = {**CONFIG, "devices": laptop, "merge": [{"from": "other", "rename": {"cpu": "laptop"}}]}
    plan = plan_study(call, claim=claim)
    write_study(plan.study, OWN)
    claim.release()
    assert plan.elsewhere.notes and not plan.elsewhere.records
    assert not plan_study(yaml.safe_load(OWN.read_text("utf-8")), files=[OWN]).elsewhere.records


def test_what_a_later_call_no_longer_merged_stays_out(working_folder: Path) -> None:
    brought()
    claim = Claim(dry=False)
    plan = plan_study(CONFIG, claim=claim)
    write_study(plan.study, OWN)
    claim.release()
    assert not plan_study(yaml.safe_load(OWN.read_text("utf-8")), files=[OWN]).elsewhere.records


def test_what_an_earlier_version_brought_counts(working_folder: Path) -> None:
    """It noted no sources."""
    plan = brought()
    Path("results/small/merged/counted.json").unlink()
    assert plan_study(yaml.safe_load(OWN.read_text("utf-8")), files=[OWN]).elsewhere.records == plan.elsewhere.records


def test_a_config_that_merges_nothing_has_none_of_them(working_folder: Path) -> None:
    brought()
    assert not plan_study(CONFIG).elsewhere.records
    assert not plan_study(CONFIG, files=["study.yaml"]).elsewhere.records

from pathlib import Path

import pytest
from planning.planned import CONFIG, Plan

from whichdevice.study.planning import study_plan
from whichdevice.study.planning.study_plan import plan_study


@pytest.fixture
def plan(working_folder: Path, monkeypatch: pytest.MonkeyPatch) -> Plan:
    """Plan a call on a host that has a CPU and a GPU, whatever this one has."""
    absent = {"tpu": "no TPU found on this host"}
    monkeypatch.setattr("sys.prefix", str(working_folder))  # an environment that nothing is known of
    monkeypatch.setattr(study_plan, "absent_devices", lambda study, elsewhere: absent)
    return lambda **changes: plan_study({**CONFIG, **changes})

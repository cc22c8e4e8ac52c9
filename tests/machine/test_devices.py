"""A study's devices are compared with those of this host."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import whichdevice
from whichdevice.base.errors import StudyError
from whichdevice.study.config.model import Device, Study
from whichdevice.study.planning import devices

NO_GPU = "no GPU found on this host (NVML: not installed)"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """A host with one CPU and these many other devices; a test may change them."""
    counts = {"cpu": 99, "gpu": 0, "tpu": 0}

    def fake(name: str) -> SimpleNamespace:
        def reason(replicas: int = 1) -> str | None:
            if counts[name] >= replicas:
                return None
            return NO_GPU if not counts[name] else f"{counts[name]} found, {replicas} asked"

        return SimpleNamespace(absent_reason=reason)

    monkeypatch.setattr(devices, "kind", fake)
    return counts


def chosen(study: Study) -> list[str]:
    """The devices that a call of the study measures here."""
    absent = devices.absent_devices(study)
    return [name for name in study.devices if name not in absent]


def study(run_on: object = "auto", **named: Device) -> Study:
    return Study(run_on=run_on, devices=named or {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")})


def test_too_few_for_the_replicas_count_as_absent(host: dict[str, int]) -> None:
    host["gpu"] = 2
    found = devices.detect({"one": Device(kind="gpu"), "four": Device(kind="gpu", replicas=4)})
    assert found == {"one": None, "four": "2 found, 4 asked"}


def test_a_listed_device_that_is_absent_is_an_error_of_one_line(host: dict[str, int]) -> None:
    with pytest.raises(StudyError) as error:
        chosen(study(["cpu", "gpu"]))
    assert str(error.value) == (
        f"gpu: {NO_GPU}; run this on a machine with one, or use run_on=all to leave the choice to a scheduler"
    )


def require_kind(study: Study, kind: str) -> list[str]:
    """The devices of a kind that this host measures, of a study without merged records."""
    return devices.require_kind(study, kind, devices.absent_devices(study))


def test_require_says_why_a_kind_is_absent(host: dict[str, int]) -> None:
    with pytest.raises(StudyError, match=r"^gpu: no GPU found on this host \(NVML: not installed\); run this on"):
        require_kind(study(), "gpu")


def test_require_says_when_the_study_has_no_such_device(host: dict[str, int]) -> None:
    with pytest.raises(StudyError, match="tpu: the study has no device of this kind; add one"):
        require_kind(study(), "tpu")
    with pytest.raises(StudyError, match="gpu: run_on lists only cpu; add gpu to it"):
        require_kind(study(["cpu"]), "gpu")


def test_detection_is_quick_and_imports_no_framework() -> None:
    """In a fresh process: processor time, so that a busy host does not fail it; a framework takes more."""
    code = (
        "import sys, time\n"
        "start = time.process_time()\n"
        "from whichdevice.measure.machine import devices\n"
        "for kind in devices.KINDS: devices.kind(kind).absent_reason()\n"
        "spent = time.process_time() - start\n"
        "loaded = {'tensorflow', 'jax', 'torch', 'keras', 'numpy', 'pydantic'} & set(sys.modules)\n"
        "assert not loaded, loaded\n"
        "assert spent < 2, spent\n"
    )
    scripts = str(Path(whichdevice.__file__).parents[1])
    done = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": scripts}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr

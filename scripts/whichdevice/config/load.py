"""From what a person wrote to a checked study, and back to a file."""

import os
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from whichdevice.config.faults import brief, config_error, did_you_mean
from whichdevice.config.model import Call, Study
from whichdevice.config.self_check import with_self_check
from whichdevice.config.yaml_file import check_yaml
from whichdevice.errors import StudyError

AnyStudy = TypeVar("AnyStudy", bound=Study)

# Resources that a device may not name, and what to do instead.
REFUSED_RESOURCES = {
    **{name: f"write {name.partition('_')[0]}_mb" for name in ("mem", "mem_mib", "disk", "disk_mib")},
    "slurm_extra": "add it to set-resources of profiles/slurm/config.yaml, beside --exclusive",
}


def load_study(values: dict[str, Any], where: str = "config") -> Call:
    """Check Snakemake's config, files and command line merged; missing keys take their defaults.

    Raises StudyError with one line that names `where`, the key, what is wrong and what would be right.
    """
    call = with_self_check(_checked(Call, values, where))
    for name in call.run_on if isinstance(call.run_on, list) else []:
        if name not in call.devices:
            raise StudyError(f"{where}: run_on: {name} is no device here{did_you_mean(name, call.devices)}")
    _check_devices(call, where)
    _check_resources(call, where)
    return call


def resolved(call: Call) -> Study:
    """The study without what holds for one call only."""
    return Study.model_validate({name: getattr(call, name) for name in Study.model_fields})


def write_study(study: Study, path: Path) -> None:
    """Write the resolved study atomically; a file that already says the same stays untouched."""
    text = yaml.safe_dump(study.model_dump(mode="json"), sort_keys=False, allow_unicode=True, width=120)
    if path.is_file() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        aside.write_text(text, encoding="utf-8")
        os.replace(aside, path)
    finally:
        aside.unlink(missing_ok=True)


def read_study(path: Path) -> Study:
    """Read a resolved study; raises StudyError that names the file."""
    return _checked(Study, check_yaml(path), str(path))


def _checked(model: type[AnyStudy], values: dict[str, Any], where: str) -> AnyStudy:
    if not isinstance(values, dict):
        raise StudyError(f"{where}: holds {brief(values)}; it needs keys with values")
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise config_error(error, model, where) from error


def _check_resources(call: Call, where: str) -> None:
    for name, device in call.devices.items():
        for resource, value in device.resources.items():
            place = f"{where}: devices.{name}.resources: {resource}"
            if resource in REFUSED_RESOURCES:
                raise StudyError(f"{place} is not for a device: {REFUSED_RESOURCES[resource]}")
            if resource in ("mem_mb", "disk_mb") and not isinstance(value, int):
                raise StudyError(f"{place} is {value!r}; it needs a number of megabytes")


def _check_devices(call: Call, where: str) -> None:
    for name, workload in call.workloads.items():
        for device in workload.device or []:
            if device not in call.devices:
                hint = did_you_mean(device, call.devices)
                raise StudyError(f"{where}: workloads.{name}.device: {device} is no device here{hint}")

"""From what a person wrote to a checked study, and back to a file."""

import os
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import ValidationError

from whichdevice.cells import Cell, workload_cells
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
    _check_modules(call, where)
    _set_loops(call)
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


def _check_modules(call: Call, where: str) -> None:
    from whichdevice.workloads import is_path, read_address, workload_names

    known = workload_names()
    for name, workload in call.workloads.items():
        module = " ".join((workload.module or name).split())
        if is_path(module) and not Path(module).is_file():
            raise StudyError(f"{where}: workloads.{name}.module: no file {module}; paths start where Snakemake runs")
        if not is_path(module) and ":" not in module and module not in known:
            place = f"workloads.{name}.module: {module}" if workload.module else f"workloads.{name}"
            hint = did_you_mean(module, known)
            raise StudyError(
                f"{where}: {place} is no built-in workload{hint} (own ones need `module: path/to/file.py`)"
            )
        if ":" in module:
            try:
                read_address(module)
            except StudyError as error:
                raise StudyError(f"{where}: workloads.{name}.module: {error}") from error


def _set_loops(call: Call) -> None:
    """Where nobody names a loop: those that can train the model; one with a train_step of its own has `fit` alone."""
    from whichdevice.workloads import workload_class

    for name, workload in call.workloads.items():
        module = workload.module or name
        if "loop" in workload.model_fields_set or not workload.module:
            continue
        try:
            loops = getattr(workload_class(module), "loops", workload.loop)
        except StudyError:  # whoever runs it says so
            continue
        if not {*workload.loop} <= {*loops}:
            workload.loop = list(loops)


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


def check_only(call: Call, where: str = "config") -> None:
    """Raise StudyError unless every value of `only` occurs in the study and together they select something.

    Apart from `load_study`, since `only` may name a device that merged records alone have.
    """
    wanted = call.only.model_dump(exclude_none=True)
    if not wanted:
        return
    cells = [
        {**asdict(cell), "repeat": repeat} for cell in _cells(call) for repeat in range(1, call.measure.repeats + 1)
    ]
    for axis, values in wanted.items():
        present = sorted({cell[axis] for cell in cells if cell[axis] is not None})
        for value in values:
            if value not in present:
                hint = did_you_mean(value, present) if present else "; no workload sets it"
                raise StudyError(f"{where}: only.{axis}: {value} does not occur in this study{hint}")
    if not any(all(cell[axis] in values for axis, values in wanted.items()) for cell in cells):
        chosen = ", ".join(f"{axis} {' or '.join(map(str, values))}" for axis, values in wanted.items())
        raise StudyError(f"{where}: only selects nothing: no workload has {chosen} together")


def _cells(call: Call) -> list[Cell]:
    from whichdevice.workloads import workload_class

    found: list[Cell] = []
    for name, workload in call.workloads.items():
        batch_size = 0 if workload.batch_size else workload_class(workload.module or name).recipe.batch_size
        for device, settings in call.devices.items():
            found += workload_cells(device, settings.kind, name, workload, batch_size)
    return found

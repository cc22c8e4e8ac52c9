"""Decide which devices of a study this host has."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING

from whichdevice.base.errors import StudyError
from whichdevice.measure.machine.devices import kind

if TYPE_CHECKING:
    from whichdevice.study.config.model import Device, Study

def detect(devices: "dict[str, Device]") -> dict[str, str | None]:
    """Return, for each configured device, None if this host has it with all its replicas, otherwise why not."""
    return {name: kind(device.kind).absent_reason(device.replicas) for name, device in devices.items()}


def absent_devices(study: "Study", elsewhere: Mapping[str, str] = MappingProxyType({})) -> dict[str, str]:
    """The devices that a call of this study does not measure here, by `run_on`, each with the reason.

    `auto` leaves out those that this host lacks, `all` none, a list those that it does not name. This host must
    have the named ones: StudyError otherwise. `elsewhere`: devices that only other machines measure, with the reason.
    """
    away = dict(elsewhere)
    if study.run_on == "all":
        return away
    configured = {name: device for name, device in study.devices.items() if name not in away}
    if study.run_on == "auto":
        return away | {name: reason for name, reason in detect(configured).items() if reason is not None}
    for name in study.run_on:
        reason = away[name] if name in away else detect({name: configured[name]})[name]
        if reason is not None:
            raise StudyError(_elsewhere(name, reason))
    return away | {name: "not named in run_on" for name in configured if name not in study.run_on}


def require_kind(study: "Study", kind: str, absent: Mapping[str, str]) -> list[str]:
    """The devices of one kind that a call which asks for this kind measures here, without the absent ones.

    Raises StudyError when the study names no such device, or this host lacks all of them and `run_on` is not `all`.
    """
    named = [name for name, device in study.devices.items() if device.kind == kind]
    if not named:
        raise StudyError(f"{kind}: the study has no device of this kind; add one under `devices:` in the config")
    here = [name for name in named if name not in absent]
    if not here and isinstance(study.run_on, list):
        raise StudyError(f"{kind}: run_on lists only {', '.join(study.run_on)}; add {', '.join(named)} to it")
    if not here:
        raise StudyError(_elsewhere(kind, "; ".join(dict.fromkeys(absent[name] for name in named))))
    return here


def _elsewhere(device: str, reason: str) -> str:
    return f"{device}: {reason}; run this on a machine with one, or use run_on=all to leave the choice to a scheduler"

"""Which row of the hardware sheet a device is: the one that the config names, else the one that fits its own name."""

import re
from collections.abc import Mapping

from whichdevice.config.hardware import HardwareRow
from whichdevice.config.model import Study

Sheet = Mapping[str, HardwareRow]


def sheet_row(device: str, device_name: str | None, study: Study, sheet: Sheet) -> str | None:
    """The row of a device, or None where it has none or the config names that of another device."""
    if wrong_row(device, device_name, study, sheet):
        return None
    return _configured(device, study, sheet) or _recognised(device_name, sheet)


def wrong_row(device: str, device_name: str | None, study: Study, sheet: Sheet) -> str | None:
    """Why the row that the config names is not the device's, and what to set.

    Only a name that fits another row says so: clouds hide names, and one that fits no row may be of the named one.
    """
    named, found = _configured(device, study, sheet), _recognised(device_name, sheet)
    if named is None or found is None or not (fits := sheet[named].matches):
        return None
    if re.search(fits, device_name or ""):
        return None
    told = f"devices.{device}.hardware is {named}, and the device is a {found}"
    return f"{told}: set devices: {{{device}: {{hardware: {found}}}}}"


def _configured(device: str, study: Study, sheet: Sheet) -> str | None:
    named = study.devices[device].hardware if device in study.devices else None
    return named if named in sheet else None


def _recognised(device_name: str | None, sheet: Sheet) -> str | None:
    if not device_name:
        return None
    fitting = (name for name, row in sheet.items() if row.matches and re.search(row.matches, device_name))
    return next(fitting, None)

"""What a merged device is: kind and replicas from its records, price and hardware sheet from its own study's config."""

import sys
from typing import Any, cast, get_args

from whichdevice.config.hardware import hardware_rows
from whichdevice.config.model import Device, DeviceKind
from whichdevice.config.yaml_file import parse_yaml
from whichdevice.errors import StudyError
from whichdevice.storage.failures import explained
from whichdevice.storage.place import Place

CONFIG = "config.yaml"
MOST_BYTES = 2**20


def merged_device(kind: str, replicas: int, hardware: str | None, usd_per_hour: float | None) -> Device:
    """A device that is never measured here; raises StudyError on a kind that there is not."""
    if kind not in get_args(DeviceKind):
        raise StudyError(f"merge: {kind[:20]!r} is no kind of device; there are {', '.join(get_args(DeviceKind))}")
    return Device(
        kind=cast(DeviceKind, kind),
        replicas=max(1, replicas),
        hardware=hardware,
        usd_per_hour=usd_per_hour or None,  # 0 in what an earlier version brought: none
        elsewhere=True,
    )


def device_settings(place: Place, listing: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """Of each device of a source's own config: its row of the hardware sheet, if we have it, and its price."""
    if int(listing.get(CONFIG, {"size": MOST_BYTES + 1})["size"]) > MOST_BYTES:
        return {}
    with explained(place.address):
        text = place.fs.cat_file(place.path(CONFIG)).decode("utf-8", "replace")
    try:
        devices = parse_yaml(text, CONFIG)["devices"].items()
    except (StudyError, TypeError, KeyError, AttributeError):
        return {}
    return {str(name): _settings(settings) for name, settings in devices if isinstance(settings, dict)}


def _settings(settings: dict[str, Any]) -> dict[str, Any]:
    price, sheet = settings.get("usd_per_hour"), settings.get("hardware")
    known = isinstance(price, int | float) and not isinstance(price, bool) and 0 < price <= sys.float_info.max
    return {
        "hardware": sheet if isinstance(sheet, str) and sheet in hardware_rows() else None,
        "usd_per_hour": float(price) if known and price is not None else None,
    }

"""Whether a bucket and this machine lie in different regions: slow, and every byte between them is paid for."""

import os
import urllib.request
from pathlib import Path
from typing import Any

from whichdevice.storage.place import GOOGLE, Place

PRODUCT = Path("/sys/class/dmi/id/product_name")
PATIENCE = 0.5  # seconds; on Google's machines the metadata server answers in milliseconds
# Bucket locations that are no single region, and how the regions in them begin.
WIDE = {
    "us": ["us-"],
    "eu": ["europe-"],
    "asia": ["asia-"],
    "nam4": ["us-central1", "us-east1"],
    "eur4": ["europe-north1", "europe-west4"],
    "eur5": ["europe-west1", "europe-west2"],
    "eur7": ["europe-west2", "europe-west3"],
    "eur8": ["europe-west3", "europe-west6"],
    "asia1": ["asia-northeast1", "asia-northeast2"],
}


def region_warning(place: Place) -> str | None:
    """One line where both regions are known and differ, else None. Off Google's machines nothing is asked."""
    if place.protocol not in GOOGLE or (region := machine_region()) is None:
        return None
    try:
        bucket = place.fs.call("GET", "b/{}", place.bucket, json_out=True)
    except Exception:
        return None  # many accounts may read objects and not what is known of the bucket
    if is_near(region, bucket):
        return None
    return (
        f"warning: bucket {place.bucket} lies in {str(bucket.get('location')).lower()}, this machine in {region}: "
        "transfers are slower and billed; a bucket in the machine's region costs less"
    )


def is_near(region: str, bucket: dict[str, Any]) -> bool:
    """Whether a bucket's location covers a region."""
    location = str(bucket.get("location", "")).lower()
    pair = [str(name).lower() for name in bucket.get("customPlacementConfig", {}).get("dataLocations", [])]
    return any(region.startswith(start) for start in (pair or WIDE.get(location, [location])))


def machine_region() -> str | None:
    """The region of this machine if it is one of Google's, e.g. `us-central1`."""
    host = os.environ.get("GCE_METADATA_HOST")
    if host is None and not _is_googles():
        return None
    address = f"http://{host or 'metadata.google.internal'}/computeMetadata/v1/instance/zone"
    request = urllib.request.Request(address, headers={"Metadata-Flavor": "Google"})
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE) as answer:  # nosec B310  # http, fixed above
            zone = answer.read(200).decode("ascii", "replace").strip().rpartition("/")[2]
    except (OSError, ValueError):
        return None
    return zone.rpartition("-")[0] or None


def _is_googles() -> bool:
    try:
        return "Google" in PRODUCT.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return False

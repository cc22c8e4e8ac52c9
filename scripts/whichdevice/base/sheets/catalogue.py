"""Offers of a published catalogue, gpuhunt's: each provider has a file `version`, and catalog.zip of that version.

A version begins with the day on which the prices were read. The cheapest instance of each device and kind counts. A
catalogue names GPUs without their form: where a name fits several devices, the instance or the provider tells.
"""

import csv
import io
import re
import zipfile
from collections.abc import Iterable, Mapping
from datetime import date, datetime
from urllib.request import urlopen

from whichdevice.base.errors import StudyError
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.base.sheets.prices import Offer

ADDRESS = "https://dstack-gpu-pricing.s3.eu-west-1.amazonaws.com/v3"
PROVIDERS = {
    "aws": "AWS", "azure": "Azure", "verda": "Verda", "gcp": "GCP", "lambdalabs": "Lambda", "nebius": "Nebius",
    "oci": "OCI", "runpod": "RunPod", "cloudrift": "CloudRift",
}  # fmt: skip
ALL_SXM = ("AWS", "GCP", "OCI")  # where every A100, H100 and H200 is an SXM module
FORM_PATTERNS = {"SXM": re.compile(r"sxm|hbm3|standard_nd", re.I), "PCIe": re.compile(r"pcie|standard_nc", re.I)}
FORM_WORDS = re.compile(r"\b(pcie|sxm\d?|\d+gb|quadro)\b|rtx", re.I)
SAME_MEMORY = 0.1  # share by which two statements of one memory differ at most
CATALOGUE_SECONDS = 30.0  # that a catalogue may take to answer
MAX_BYTES = 200_000_000  # of a provider's offers


def read_offers(address: str, sheet: Mapping[str, HardwareRow]) -> list[Offer]:
    """Return the offers of all providers of a catalogue; raises StudyError where it is not as expected."""
    offers: list[Offer] = []
    for name, provider in PROVIDERS.items():
        place = f"{address.rstrip('/')}/{name}"
        try:
            version = _read(f"{place}/version").decode().strip()
            day = datetime.strptime(version[:8], "%Y%m%d").date()
            with zipfile.ZipFile(io.BytesIO(_read(f"{place}/{version}/catalog.zip"))) as packed:
                if packed.getinfo(f"{name}.csv").file_size > MAX_BYTES:
                    raise ValueError("it is too large")
                lines = packed.read(f"{name}.csv").decode("utf-8").splitlines()
            offers += _cheapest(csv.DictReader(lines), provider, day, f"gpuhunt's catalogue {name} {version}", sheet)
        except (OSError, ValueError, KeyError, TypeError, zipfile.BadZipFile) as error:
            why = str(error) or "no answer"
            raise StudyError(f"prices: {place} gave no prices ({why}); those here stay") from error
    if not offers:
        raise StudyError(f"prices: {address} has no offer of a known device; those here stay")
    return offers


def _read(address: str) -> bytes:
    with urlopen(address, timeout=CATALOGUE_SECONDS) as answer:  # nosec B310  # the address is the user's own
        return bytes(answer.read(MAX_BYTES))


def _cheapest(
    rows: Iterable[Mapping[str, str]], provider: str, day: date, source: str, sheet: Mapping[str, HardwareRow]
) -> list[Offer]:
    best: dict[tuple[str, str], Offer] = {}
    for row in rows:
        count = int(row["gpu_count"] or 0)
        device = _device(row, provider, sheet) if count else None
        if device is None or float(row["price"]) <= 0:
            continue
        offer = Offer(
            provider=provider, instance=row["instance_name"], device=device, count=count, region=row["location"],
            offer="spot" if row["spot"].lower() == "true" else "on_demand", instance_usd_per_hour=float(row["price"]),
            date=day, source=source,
        )  # fmt: skip
        known = best.get((device, offer.offer))
        if known is None or offer.usd_per_hour < known.usd_per_hour:
            best[device, offer.offer] = offer
    return list(best.values())


def _device(row: Mapping[str, str], provider: str, sheet: Mapping[str, HardwareRow]) -> str | None:
    """Return the device of a catalogue's row; None where none or several fit."""
    memory = float(row["gpu_memory"] or 0)
    fitting = [
        name for name, known in sheet.items()
        if known.kind == "gpu" and _letters(name) == _letters(row["gpu_name"])
        and (not memory or abs(memory - (known.mem_gb or 0)) <= SAME_MEMORY * memory)
    ]  # fmt: skip
    if len(fitting) > 1:
        forms = [form for form, pattern in FORM_PATTERNS.items() if pattern.search(row["instance_name"])]
        form = "SXM" if provider in ALL_SXM else forms[0] if len(forms) == 1 else None
        fitting = [name for name in fitting if form and form in name]
    return fitting[0] if len(fitting) == 1 else None


def _letters(name: str) -> tuple[str, str]:
    """Return the sorted letters and the digits of a GPU's name: `RTX 6000 Pro` and `RTXPRO6000` have the same."""
    plain = FORM_WORDS.sub("", name).lower()
    return "".join(sorted(re.findall("[a-z]", plain))), "".join(re.findall(r"\d", plain))

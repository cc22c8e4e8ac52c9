"""What a rented TPU VM costs an hour, by the price sheet; an estimate, as prices differ by zone and change."""

from collections.abc import Mapping
from dataclasses import dataclass

from whichdevice.cloud.accelerators import Accelerator
from whichdevice.config.hardware import HardwareRow, hardware_rows

Sheet = Mapping[str, HardwareRow]


@dataclass(frozen=True)
class Rent:
    """US dollars an hour of the whole machine on demand, None where the sheet has no price; and where that is from."""

    usd_per_hour: float | None
    source: str

    def up_to(self, hours: float) -> str:
        """The estimate for so many hours, for a person."""
        return "unknown" if self.usd_per_hour is None else f"{self.usd_per_hour * hours:.2f} USD"


def rent_of(accelerator: Accelerator, sheet: Sheet | None = None) -> Rent:
    """The sheet's price of a chip times the chips."""
    row = (hardware_rows() if sheet is None else sheet).get(accelerator.hardware)
    offer = row.cheapest if row else None
    if offer is None or offer.on_demand is None:
        return Rent(None, f"config/prices.csv has no price for {accelerator.hardware}; see cloud.google.com/tpu/pricing")
    source = f"{accelerator.chips} × {offer.on_demand:g} USD, config/prices.csv: {offer.words}"
    return Rent(accelerator.chips * offer.on_demand, source)


def rent_lines(rent: Rent, hours: float, spot: bool) -> list[str]:
    """The estimate as lines: an hour, and the whole of the machine's lifetime."""
    if rent.usd_per_hour is None:
        return [f"Price: unknown. {rent.source}"]
    lines = [
        f"Price: about {rent.usd_per_hour:.2f} USD an hour (an estimate, on demand: {rent.source}).",
        f"At most about {rent.up_to(hours)} for the longest it may live, {hours:g} h (an estimate; disks and "
        "traffic come on top).",
    ]
    return [*lines, "Spot costs less, by how much changes; it may be taken away at any moment."] if spot else lines

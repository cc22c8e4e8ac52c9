"""The cores of the machines that devices come with: what feeds a device from there.

config/machines.csv has vCPUs of whole machines, rented and free. The cores of a device are the median of its offers, by
the card; several cards have the sum. A device in no offer is taken to have `ASSUMED`.
"""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Literal

from pydantic import BaseModel, ConfigDict, PositiveInt

from whichdevice.base.files import CONFIG
from whichdevice.base.sheets.prices import Z80, spread

MACHINES = CONFIG / "machines.csv"
# How fast a vCPU elsewhere feeds a device, over a core here: as fast, within 1.5 times either way in 8 of 10 cases. It
# is one of a core's two threads, at 2 to 3.7 GHz; here a core may run one thread or two, at 2 to 5 GHz.
SPEED_LOG_SD = math.log(1.5) / Z80


class Machine(BaseModel):
    """A machine that is offered with `count` devices, as it was read on the day `date`."""

    model_config = ConfigDict(frozen=True)

    provider: str
    instance: str
    device: str
    count: PositiveInt
    offer: Literal["rented", "free"]
    vcpus: PositiveInt
    date: date
    source: str


@dataclass(frozen=True)
class Cores:
    """Cores of the machine that a device comes with: the median of offers, with the least and the most."""

    number: float
    low: float
    high: float
    log_sd: float  # of the logarithm of the number
    assumed: bool = False

    def of(self, devices: int) -> "Cores":
        """Return the cores of a machine with so many devices."""
        number, low, high = (devices * cores for cores in (self.number, self.low, self.high))
        return Cores(number, low, high, self.log_sd, self.assumed)


ASSUMED = Cores(8, 4, 16, math.log(2) / Z80, assumed=True)


def cores(machines: Sequence[Machine], offer: Literal["rented", "free"] = "rented") -> Cores:
    """Return the cores by the card of machines of one device."""
    known = [machine for machine in machines if machine.offer == offer]
    if not known:
        return ASSUMED
    numbers = [machine.vcpus / machine.count for machine in known]
    exact = offer == "free" or known[0].device.startswith("TPU")  # of one provider each
    return Cores(statistics.median(numbers), min(numbers), max(numbers), 0.0 if exact else spread(numbers))

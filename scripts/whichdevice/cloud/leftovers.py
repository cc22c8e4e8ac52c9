"""What is alive of what this program made, in every zone of the config: to be listed, and to be removed."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from whichdevice.cloud.accelerators import accelerator
from whichdevice.cloud.keys import Keys
from whichdevice.cloud.machine import DELETE_SECONDS, Say, by_hand
from whichdevice.cloud.order import PREFIX, labels_of
from whichdevice.cloud.rent import rent_of
from whichdevice.cloud.stopping import Stopping
from whichdevice.cloud.tpu_api import Alive, Place, TpuApi
from whichdevice.config.model import TpuVm
from whichdevice.errors import StudyError

FREE_STATES = {"PREEMPTED", "TERMINATED", "STOPPED"}  # there, and not paid for


def leftovers(api: TpuApi, vm: TpuVm, project: str) -> list[Alive]:
    """Everything with this config's labels; a queued request whose machines are unseen counts by its name."""
    found = []
    wanted = labels_of(vm)
    for zone in vm.zone:
        for one in api.alive(Place(project, zone)):
            unseen = one.queued and not one.labels and one.name.startswith(PREFIX)
            if unseen or wanted.items() <= one.labels.items():
                found.append(one)
    return found


def table(found: Iterable[Alive], now: datetime | None = None) -> list[str]:
    """One line each: what, where, how old, and about how much money so far."""
    rows = [("name", "zone", "type", "state", "hours", "about USD so far")]
    now = now or datetime.now(UTC)
    for one in found:
        hours = max(0.0, (now - one.made).total_seconds() / 3600)
        kind = f"queued {one.accelerator_type}" if one.queued else one.accelerator_type
        rows.append((one.name, one.place.zone, kind, one.state, f"{hours:.1f}", _spent(one, hours)))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _spent(one: Alive, hours: float) -> str:
    """An estimate at the price on demand; a queued request costs nothing, its machine does."""
    if one.queued or one.state in FREE_STATES:
        return "-"
    try:
        rent = rent_of(accelerator(one.accelerator_type))
    except StudyError:
        return "unknown"
    return "unknown" if rent.usd_per_hour is None else f"{rent.usd_per_hour * hours:.2f}"


@dataclass
class Removal:
    """Deletes what is left, requests before machines, and sees that it is gone."""

    api: TpuApi
    say: Say
    stopping: Stopping

    def remove(self, found: list[Alive]) -> None:
        """Raises StudyError that names what is still there after the time for it."""
        left = list(found)
        told: set[str] = set()

        def gone() -> bool:
            requests = {one.name for one in left if one.queued}
            for one in [one for one in left if one.request not in requests]:  # a request takes its machine along
                try:
                    state = self.api.state(one.path)
                    if state not in (None, "DELETING"):
                        self.api.delete(one.path)
                except StudyError as error:
                    if str(error) not in told:
                        self.say(f"{error} (trying again)")
                    told.add(str(error))
                    continue
                if state is None:
                    left.remove(one)
                    Keys(one.name).forget()
                    self.say(f"{one.name} is deleted.")
            return not left

        if not self.stopping.until(gone, DELETE_SECONDS):
            raise StudyError(f"{left[0].name} COULD NOT BE DELETED and may cost money: {by_hand(left[0].path)}")

"""Whether merged records are of the device that their name stands for: one name, one kind of device."""

from collections.abc import Container

from whichdevice.cells import Run
from whichdevice.config.model import Device, Study
from whichdevice.config.storage import Merge
from whichdevice.errors import StudyError, one_line
from whichdevice.merging.mirror import Mirrored


class Devices:
    """What each name stands for: the config's device, else that of the newest record of the first source with it."""

    def __init__(self, study: Study) -> None:
        self._known: dict[str, Device | Mirrored] = dict(study.devices)
        self._models: dict[str, set[str]] = {}

    def left_out(self, runs: dict[Run, Mirrored], merge: Merge, kept: bool) -> dict[Run, str]:
        """Runs of one source whose device has another kind, other replicas or other hardware than its name, and why.

        Raises StudyError where it is of no model of processor or accelerator that its name stands for.
        """
        found: dict[Run, str] = {}
        models: dict[str, dict[str, Run]] = {}
        before = set(self._known)
        for run in sorted(runs, key=lambda run: runs[run].ended or 0.0, reverse=True):
            facts, name = runs[run], run.cell.device
            if (other := self._unlike(name, facts)) is not None:
                found[run] = f"{other}; {self._way_out(name, facts, name in before)}"
            elif (model := _model(facts)) is not None:
                models.setdefault(name, {}).setdefault(model, run)
        for name, each in models.items():
            self._refuse_other_models(name, each, runs, merge, kept)
            self._models.setdefault(name, set()).update(each)
        return found

    def _unlike(self, name: str, facts: Mirrored) -> str | None:
        """In what a record's device is another one than its name says, whose price and peaks are not its own."""
        if facts.kind is None:
            return None  # refused; the tables say why
        own = self._known.setdefault(name, facts)
        renamed = facts.device != name  # on purpose: a row of the sheet that is named here wins
        keys = ("kind", "replicas") if renamed else ("kind", "replicas", "hardware")
        pairs = {key: (getattr(facts, key), getattr(own, key)) for key in keys}
        other = [
            f"{key} {there} there and {here} here"
            for key, (there, here) in pairs.items()
            if there != here and None not in (there, here)
        ]
        return f"device {name} has {', '.join(other)}" if other else None

    def _way_out(self, name: str, facts: Mirrored, named_before: bool) -> str:
        if not named_before:
            return f"newer records of {facts.device} there say what it is now"
        free = free_name(name, self._known)
        return f"give it another name, rename: {{{facts.device}: {free}}}, or correct devices.{name}"

    def _refuse_other_models(
        self, name: str, models: dict[str, Run], runs: dict[Run, Mirrored], merge: Merge, kept: bool
    ) -> None:
        """One in common is enough: a study may mix models under one name, whose cells then carry a mark."""
        known = self._models.get(name)
        if known is None or not known.isdisjoint(models):
            return
        model, run = next(iter(models.items()))
        way_out = renaming(merge, kept, runs[run].device, free_name(name, self._known))
        raise StudyError(
            f"merge: {run.path} of {merge.source} is of another device ({one_line(model[:80])}) than others of that "
            f"name ({one_line(min(known)[:80])}); {way_out}"
        )


def renaming(merge: Merge, kept: bool, device: str, free: str) -> str:
    """What to write where one name stands for two devices."""
    source = "<where it came from>" if kept else merge.source
    return f"give its device another name: merge: [{{from: {source}, rename: {{{device}: {free}}}}}]"


def free_name(name: str, taken: Container[str]) -> str:
    """A name for another device beside one of that name."""
    return next(free for number in range(2, 1000) if (free := f"{name}_{number}") not in taken)


def _model(facts: Mirrored) -> str | None:
    """The model of processor or accelerator, as the record tells it."""
    if facts.machine is None:
        return None
    return facts.machine.cpu if facts.kind == "cpu" else facts.machine.device_name

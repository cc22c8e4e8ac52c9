"""Whether a run is repeated because the machine was busy, and which of two attempts counts."""

from whichdevice.records.schema import Attempt, Energy, Record, Request

TIMED_PARTS = ("warm_up", "steady")


def repetition(first: Record, request: Request, wanted: bool) -> tuple[Request | None, str | None]:
    """The request of a second attempt, or None with the reason where a disturbed run is not repeated."""
    if first.status != "ok" or not first.noise.disturbed:
        return None, None
    if not wanted:
        return None, "measure.retry_disturbed is off"
    took = (first.ended - first.started).total_seconds()
    learning = sum(epoch.seconds + (epoch.validation_seconds or 0.0) for epoch in first.epochs)
    left = request.timeout - took
    if left < took - learning:
        return None, f"no time left: it took {took:.0f} s of measure.timeout = {request.timeout:g} s"
    again = request.model_copy(update={"timeout": left})
    if request.learn:
        again = again.model_copy(update={"learn": False, "epochs": 0, "learn_seconds": None})
    return again, None


def with_note(record: Record, why_not: str | None) -> Record:
    """The record of an only attempt, with the reason why a disturbed one was not repeated."""
    if why_not is None:
        return record
    return record.model_copy(update={"noise": record.noise.model_copy(update={"not_repeated": why_not})})


def chosen(first: Record, second: Record) -> Record:
    """One record of two attempts: the quieter one counts, the other is kept in `attempts`."""
    if second.status != "ok" or (second.noise.severity or 0.0) >= (first.noise.severity or 0.0):
        return first.model_copy(update={"attempts": [_attempt(2, second)], "ended": second.ended})
    kept = {"attempts": [_attempt(1, first)], "asked": first.asked, "started": first.started}
    if not first.asked.learn:
        return second.model_copy(update=kept)
    timing = {"cold": second.cold, "steady": second.steady, "noise": second.noise, "ended": second.ended}
    if second.breakdown is not None and second.breakdown.reason is None:
        timing["breakdown"] = second.breakdown
    return first.model_copy(update={**kept, **timing, "energy": _with_timing_of(first.energy, second.energy)})


def _attempt(number: int, record: Record) -> Attempt:
    names = ("status", "reason", "noise", "cold", "steady", "energy", "started", "ended")
    return Attempt(
        number=number, learned=bool(record.epochs), **{name: getattr(record, name) for name in names}
    )  # fmt: skip


def _with_timing_of(energy: Energy, other: Energy) -> Energy:
    """The energy of one process with the timed parts of another."""
    parts = {name: part for name, part in energy.parts.items() if name not in TIMED_PARTS}
    parts |= {name: other.parts[name] for name in TIMED_PARTS if name in other.parts}
    beside = {name: _with_timing_of(own, other.beside.get(name, Energy())) for name, own in energy.beside.items()}
    return energy.model_copy(update={"parts": parts, "beside": beside})

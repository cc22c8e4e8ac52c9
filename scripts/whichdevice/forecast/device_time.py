"""The modelled device time of one step: a range in seconds from the scheduled program. Rules: docs/tpu-model.md.

Low: each instruction takes max(operations / peak, HBM bytes / bandwidth). High: max(cycles / clock, HBM bytes with
padding / bandwidth), and collectives the ring formula. In both, an asynchronous transfer costs what remains of it
at its end, after it was served with the bandwidth that the instructions since its start left idle.
"""

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Literal

from whichdevice.errors import StudyError
from whichdevice.forecast.categories import category_of
from whichdevice.forecast.collectives import collective_bytes, collective_kind, group_size, ring_seconds
from whichdevice.forecast.hlo import MALFORMED, Computation, Instruction, Program
from whichdevice.forecast.loops import Known, constants_of, trip_count
from whichdevice.forecast.products import products_of
from whichdevice.forecast.targets import Device
from whichdevice.forecast.traffic import is_free, traffic_of
from whichdevice.forecast.transfers import Queue, ends_transfer, starts_transfer, transferred

ENOUGH_CYCLES = 0.95  # share of bytes below which the high end is not given
End = Literal["low", "high"]
Amounts = defaultdict[str, float]


def _amounts() -> Amounts:
    return defaultdict(float)


@dataclass
class Elapsed:
    """What running a computation once comes to, on one device."""

    seconds: float = 0.0
    busy: float = 0.0  # seconds for which HBM bytes alone would keep the memory busy
    flops: float = 0.0  # products
    hbm_bytes: float = 0.0
    touched: float = 0.0  # bytes, in any memory, of the instructions that cycles should time
    timed: float = 0.0  # those among them whose instructions carry cycles
    categories: Amounts = field(default_factory=_amounts)  # seconds
    collectives: Amounts = field(default_factory=_amounts)  # how many
    collective_bytes: Amounts = field(default_factory=_amounts)
    unknown_loops: int = 0

    def add(self, other: "Elapsed", times: int = 1) -> None:
        """Add another one, run so many times."""
        for name in ("seconds", "busy", "flops", "hbm_bytes", "touched", "timed"):
            setattr(self, name, getattr(self, name) + times * getattr(other, name))
        for name in ("categories", "collectives", "collective_bytes"):
            for key, value in getattr(other, name).items():
                getattr(self, name)[key] += times * value
        self.unknown_loops += other.unknown_loops


@dataclass(frozen=True)
class DeviceTime:
    """The range, and what it rests on. `high` is None where cycles or trip counts are missing."""

    low: float
    high: float | None
    timed_share: float
    unknown_loops: int
    at_low: Elapsed
    at_high: Elapsed


def device_time(program: Program, device: Device) -> DeviceTime:
    """Model one run of the program on one device; raises StudyError where the program makes no sense."""
    try:
        low, high = (_Model(program, device, end).run(program.entry, {}, ()) for end in ("low", "high"))
    except MALFORMED as error:
        raise StudyError(f"TPU program: makes no sense ({type(error).__name__})") from error
    share = high.timed / high.touched if high.touched else 1.0
    given = share >= ENOUGH_CYCLES and not high.unknown_loops
    # The memory moves every byte: transfers that an earlier program may have started are no free lunch.
    bound = max(low.seconds, low.busy)
    return DeviceTime(bound, max(high.seconds, bound) if given else None, share, high.unknown_loops, low, high)


class _Model:
    """Walks the program for one end of the range."""

    def __init__(self, program: Program, device: Device, end: End) -> None:
        self._program, self._device, self._end = program, device, end

    def run(self, computation: Computation, known: Known, above: tuple[str, ...]) -> Elapsed:
        """One run of a computation; `above` names those that led here."""
        if computation.name in above:
            raise StudyError(f"TPU program: {computation.name} calls itself")
        above = (*above, computation.name)
        total, queue = Elapsed(), Queue()
        for instruction in computation.instructions.values():
            if ends_transfer(instruction):
                self._wait(total, queue.wait_for(instruction.operands[:1]))
                continue
            if starts_transfer(instruction):
                self._start(total, queue, instruction, computation)
                continue
            elapsed = self._one(instruction, computation, known, above)
            queue.drain(elapsed.seconds - elapsed.busy)
            total.add(elapsed)
        self._wait(total, queue.wait_for(None))
        return total

    def _wait(self, total: Elapsed, seconds: float) -> None:
        total.seconds += seconds
        total.categories["transfers"] += seconds

    def _start(self, total: Elapsed, queue: Queue, instruction: Instruction, computation: Computation) -> None:
        nbytes = transferred(instruction, computation)
        total.hbm_bytes += nbytes
        total.busy += nbytes / self._device.bandwidth
        # The program before may have made room for it; only the bound by bytes counts it then.
        if not (self._end == "low" and "cross_program_prefetch_index" in instruction.attributes):
            queue.start(instruction.name, nbytes / self._device.bandwidth)

    def _one(self, instruction: Instruction, computation: Computation, known: Known, above: tuple[str, ...]) -> Elapsed:
        if instruction.opcode == "while":
            return self._loop(instruction, computation, known, above)
        if instruction.opcode == "conditional":
            roles = [name for role, name in instruction.called.items() if role.startswith("branch")]
            runs = [self.run(self._program.computation(name), {}, above) for name in roles]
            return max(runs, key=lambda each: each.seconds, default=Elapsed())
        if instruction.opcode in ("call", "async-start"):
            name = instruction.called.get("to_apply") or instruction.called.get("calls", "")
            return self.run(self._program.computation(name), {}, above)
        return Elapsed() if is_free(instruction) else self._plain(instruction, computation)

    def _loop(
        self, instruction: Instruction, computation: Computation, known: Known, above: tuple[str, ...]
    ) -> Elapsed:
        trips = trip_count(instruction, computation, self._program, known)
        inner = constants_of(instruction, computation, self._program, known)
        body = self.run(self._program.computation(instruction.called.get("body", "")), inner, above)
        total = Elapsed(unknown_loops=int(trips is None))
        total.add(body, 1 if trips is None else trips)
        return total

    def _plain(self, instruction: Instruction, computation: Computation) -> Elapsed:
        products = products_of(instruction, computation, self._program)
        traffic = traffic_of(instruction, computation, self._program)
        kind = collective_kind(instruction)
        nbytes = traffic.hbm if self._end == "low" else traffic.padded
        busy = nbytes / self._device.bandwidth
        elapsed = Elapsed(busy=busy, flops=products.flops, hbm_bytes=nbytes)
        if self._end == "low":
            elapsed.seconds = max(products.passes_flops / self._device.peak, busy)
        else:
            elapsed.seconds = max((instruction.cycles or 0) / self._device.clock, busy)
        if kind:
            size = collective_bytes(instruction, computation)
            elapsed.collectives[kind] = 1
            elapsed.collective_bytes[kind] = size
            if self._end == "high":
                devices = group_size(instruction, self._program.partitions)
                elapsed.seconds = max(busy, ring_seconds(kind, size, devices, self._device.link))
        else:
            elapsed.touched = traffic.everywhere
            elapsed.timed = traffic.everywhere if instruction.cycles is not None else 0.0
        elapsed.categories[category_of(instruction, self._program, products.flops > 0)] = elapsed.seconds
        return elapsed

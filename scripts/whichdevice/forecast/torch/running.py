"""How else a traced step could run on a device: passes of other sizes."""

from dataclasses import dataclass

from whichdevice.forecast.products import Pass, ProgramRequest
from whichdevice.forecast.targets import Target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import memory_ends, work_of
from whichdevice.forecast.torch.memory import HALF, LIGHT, RESERVE, Plan, need
from whichdevice.forecast.torch.several import Way, accumulated, on_gpus
from whichdevice.forecast.torch.step import Trace
from whichdevice.forecast.work import Work

MAX_PASS = 2**24  # examples of a pass: a larger one is tried of no model
STEP = 4  # from one size to the next: the time between two is on a straight line


@dataclass(frozen=True)
class Running:
    """A step on a target as it was asked for, from which others start."""

    plan: Plan
    first: int  # examples of the trace that a step of few blocks is compared with
    compiled: bool
    request: ProgramRequest
    target: Target
    way: Way
    work: Work

    def _seconds(self, work: Work) -> float:
        return forecast_step(work, self.target.row, self.request.mode, self.target.devices).seconds

    def _time(self, trace: Trace, compiled: bool) -> float:
        """Seconds of a step of one device."""
        return self._seconds(work_of(self.target, trace, self.request.precision, compiled))

    def _shared(self, size: int, ways: tuple[str, ...], passes: int = 1) -> Trace:
        """Return a step of passes of so many examples on each device, which share it as the step that was asked for."""
        ways = ((HALF,) if self._master else ()) + ways
        trace = accumulated(self.plan.trace(size, ways, self.first), passes)
        return on_gpus(trace, self.target.devices, self.way.sharing, self._master, passes)

    @property
    def _master(self) -> bool:
        """Whether weights of 16 bits are kept in float32 beside them."""
        return self.way.sharing == "fsdp" and self.plan.step.precision.startswith("mixed")

    def passes(self) -> list[Pass]:
        """Return what passes of 1, 4, 16 and more examples take, until none fits; then with checkpointing.

        The largest of each is found by halves, to an eighth.
        """
        asked = self.request.batch_size // self.target.devices
        available, one = self.target.available(RESERVE), self._seconds(self.work) / asked
        passes: list[Pass] = []

        def fits(size: int, ways: tuple[str, ...]) -> bool | None:
            """Return whether a pass fits, which is then kept; None where it cannot be traced."""
            try:
                trace = self._shared(size, ways)
            except Exception:  # one example is too few for a batch norm, other numbers do not fit its shapes
                return None
            if memory_ends(self.target, trace, self.compiled)[1] > available:
                return False
            times = self._time(trace, self.compiled) / size / one
            passes.append(Pass(batch=size, checkpointing=bool(ways), memory_needed=need(trace), time=times))
            return True

        size = 1
        for ways in ((), (LIGHT,)):
            while size <= MAX_PASS:
                known = fits(size, ways)
                if known is False or (known is None and size >= asked):
                    break
                size *= STEP
            low, high = size // STEP, size
            while size <= MAX_PASS and high - low > high // 8:
                middle = (low + high) // 2
                low, high = (middle, high) if fits(middle, ways) else (low, middle)
        return passes

"""How else a traced step could run on a device: passes of other sizes, and what makes it faster."""

import math
from contextlib import suppress
from dataclasses import dataclass

import torch

from whichdevice.forecast.products import Change, Pass, ProgramRequest
from whichdevice.forecast.targets import Target
from whichdevice.forecast.time_model import forecast_step
from whichdevice.forecast.torch.facts import work_of
from whichdevice.forecast.torch.memory import AFTERWARDS, FUSED, HALF, LIGHT, RESERVE, SPREAD, Plan, need
from whichdevice.forecast.torch.several import Way, accumulated, on_gpus
from whichdevice.forecast.torch.trace import Trace, built
from whichdevice.forecast.work import Work
from whichdevice.models.script.torch_fakes import Fakes

MAX_PASS = 2**24  # examples of a pass: a larger one is tried of no model
STEP = 4  # from one size to the next: the time between two is on a straight line
COMPILE = "torch.compile"
LAYOUTS = {True: "channels first", False: "channels last: .to(memory_format=torch.channels_last)"}  # by today's
COMPILE_SD, FORMAT_SD, LAYOUT_SD, SAME_SD = 0.15, 0.1, 0.1, 0.02  # of the logarithm of a factor, at least; assumed
# A 16-bit product with a width that is no multiple of 8 takes longer: 14 in place of 10 ms for a vocabulary
# (PaddlePaddle/models#5134), 4 % of a step on an RTX 3090 (nanoPALM#6), a quarter of one on an A100 (nanoGPT).
ODD_TIMES, ODD_SD, WIDTH, MIN_WIDTH, MAX_WIDTHS = 1.5, 0.3, 8, 64, 3


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
        available, one = self.target.available(RESERVE) * (1 - SPREAD), self._seconds(self.work) / asked
        passes: list[Pass] = []

        def fits(size: int, ways: tuple[str, ...]) -> bool | None:
            """Return whether a pass fits, which is then kept; None where it cannot be traced."""
            try:
                trace = self._shared(size, ways)
            except Exception:  # one example is too few for a batch norm, other numbers do not fit its shapes
                return None
            if need(trace) > available:
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

    def faster(self) -> list[Change]:
        """Return what makes the step faster, each alone: compiled, a fused optimiser, the other layout or format."""
        before, way, work = self._seconds(self.work), self.way, self.work

        def change(name: str, trace: Trace, log_sd: float, times: float) -> Change:
            return Change(
                name=name, memory_needed=need(trace), time=times, log_sd=max(log_sd, abs(math.log(times)) / 3)
            )

        def changed(name: str, trace: Trace, log_sd: float, compiled: bool = self.compiled) -> Change:
            return change(name, trace, log_sd, self._time(trace, compiled) / before)

        changes = [] if self.compiled else [changed(COMPILE, way.trace, COMPILE_SD, True)]
        if way.trace.memory["optimizer"]:
            changes.append(changed(FUSED, AFTERWARDS[FUSED](way.trace), SAME_SD))
        if way.trace.images and work.software == "eager" and self.target.row.compiler == "cuda":
            times = self._seconds(work.in_other_layout()) / before
            changes.append(change(LAYOUTS[work.has_channels_last], way.trace, LAYOUT_SD, times))
        if self.plan.step.precision != "bfloat16" and self.target.row.half_dense_tflops and not self._master:
            with suppress(Exception):  # what a model makes of 16 bits is the model's
                half = self._shared(way.batch, (HALF, *way.changes), way.accumulation)
                changes.append(changed(HALF, half, FORMAT_SD))
        if way.changes:
            plain = self._shared(way.batch, (), way.accumulation)
            changes.append(changed(f"no {LIGHT}", plain, SAME_SD))
        with suppress(Exception):  # a script's module comes as it is
            changes += self._even_widths()
        return sorted((one for one in changes if one.time < 1), key=lambda one: one.time)

    def _even_widths(self) -> list[Change]:
        """Return what layers of products gain by widths that are multiples of 8, where products are of 16 bits."""
        layers = [
            layer.weight.shape
            for layer in built(self.plan.step, Fakes()).modules()
            if isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"
        ]
        odd = [shape for shape in layers if any(map(_is_odd, shape))]
        parts = forecast_step(self.work, self.target.row, self.request.mode, self.target.devices).parts
        share = parts.get("product half", 0.0) / sum(parts.values())
        share *= sum(map(math.prod, odd)) / max(1, sum(map(math.prod, layers)))
        if not share:
            return []
        widths = sorted({size for shape in odd for size in shape if _is_odd(size)}, reverse=True)[:MAX_WIDTHS]
        name = "widths " + ", ".join(f"{-(-size // WIDTH) * WIDTH:,} in place of {size:,}" for size in widths)
        longer = 1 + share * (ODD_TIMES - 1)
        spread = share * ODD_TIMES * ODD_SD / longer
        return [Change(name=name, memory_needed=need(self.way.trace), time=1 / longer, log_sd=spread)]


def _is_odd(size: int) -> bool:
    """Return whether a width is wide, and no multiple of 8."""
    return size >= MIN_WIDTH and size % WIDTH > 0

"""Newer ways to train against published numbers: preferences, rewards, mixtures of experts, diffusion models, Whisper.

fit/data/newer_published.csv has what others measured, fit/data/newer_digests.json the traces of their steps.
`python -m fit.newer trace` traces what is missing: it needs PyTorch, transformers and `pip install diffusers`;
`python -m fit.newer` writes the table of docs/reference/newer-trainings.md. Nothing is fitted to these numbers.

A step of which the source says all that decides it is the `same` one. The others are shown, too: of shorter texts, of
other kernels, as people lived it.
"""

import sys
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import Json
from pydantic.dataclasses import dataclass

from fit.fitting import DATA, read_lines
from fit.generated import DOCS, put_lines, table
from fit.language_models import packed, read_digests, write_lines
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import StepTime, forecast_step
from whichdevice.forecast.torch.memory import RESERVE, need
from whichdevice.forecast.torch.several import accumulated, on_gpus
from whichdevice.forecast.torch.trace import Trace

PUBLISHED, DIGESTS = DATA / "newer_published.csv", DATA / "newer_digests.json"
PAGE = DOCS / "reference" / "newer-trainings.md"
MADE_BY = "python -m fit.newer"


@dataclass(frozen=True)
class Line:
    """One published number: `counter` is what counted the memory, the whole GPU (`gpu`) or PyTorch's (`reserved`)."""

    id: str
    source: str
    model: str
    options: Json[Any]
    device: str
    gpus: int
    sharing: str
    batch: int
    accumulation: int
    notes: str
    counter: str = ""
    length: int | None = None
    peak_gb: float | None = None
    step_s: float | None = None
    same_step: bool = False

    @property
    def way(self) -> str:
        """How it is trained, in a few words."""
        named = [str(self.options[name]) for name in ("objective", "method") if name in self.options]
        length = f"{self.length} tokens" if self.length else f"{self.options.get('size', 1024)}²"
        light = ["checkpointing"] if self.options.get("gradient_checkpointing") else []
        return ", ".join([*(named or ["full"]), f"{self.batch} × {self.accumulation} × {length}", *light])

    def trace(self) -> Trace:
        """The trace of one pass of one GPU."""
        from whichdevice.forecast.products import ProgramRequest
        from whichdevice.forecast.torch.records import Traced
        from whichdevice.models.loading import Model

        name = f"hf:{self.model}"
        asked = ProgramRequest(
            device=self.device, workload="w", module=name, precision=Model.read(name).usual_format,
            batch_size=self.batch, sequence_length=self.length, options=dict(self.options),
        )  # fmt: skip
        return Traced(asked).trace(self.batch)


def published() -> list[Line]:
    """Every line of the table."""
    return read_lines(Line, PUBLISHED)


@dataclass(frozen=True)
class Compared:
    """A published number with its forecast."""

    line: Line
    peak_gb: float
    step: StepTime
    parts: Mapping[str, float]

    @property
    def memory_ratio(self) -> float | None:
        """The forecast over the published peak."""
        return self.peak_gb / self.line.peak_gb if self.line.peak_gb else None


def compared() -> list[Compared]:
    """Each published number whose step is traced, with its forecast."""
    found, digests = [], read_digests(DIGESTS)
    for line in published():
        if line.id in digests:
            target, trace = find_target(line.device, line.gpus), accumulated(digests[line.id], line.accumulation)
            shared = on_gpus(trace, line.gpus, line.sharing, False, line.accumulation)  # type: ignore[arg-type]
            step = forecast_step(shared.work, target.row, "train", line.gpus)
            peak = need(shared) + (RESERVE if line.counter == "gpu" else 0.0)
            found.append(Compared(line, peak / 1e9, step, shared.memory))
    return found


def write_digests() -> None:
    """Trace what is missing, and write one line a step."""
    known = dict(read_digests(DIGESTS))
    for line in published():
        if line.id not in known:
            print(line.id, flush=True)
            known[line.id] = line.trace()
            write_lines(DIGESTS, {name: packed(known[name]) for name in sorted(known)})
    read_digests.cache_clear()


def rows(found: list[Compared]) -> Iterator[list[str]]:
    """The lines of the page's table."""
    for one in found:
        line = one.line
        on = f"{line.gpus} × {line.device}" if line.gpus > 1 else line.device
        memory = (_number(line.peak_gb), _number(one.peak_gb), _number(one.memory_ratio))
        forecast = f"{_number(one.step.seconds)} [{_number(one.step.low)}–{_number(one.step.high)}]"
        times = (_number(line.step_s), forecast, _number(one.step.seconds / line.step_s if line.step_s else None))
        note = line.notes if line.same_step else f"another step: {line.notes}"
        yield [line.model, line.way, on, f"{note} ({line.source})", *memory, *times]


HEADS = ("model", "how", "on", "notes", "peak, GB", "forecast", "ratio", "step, s", "forecast", "ratio")


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.3g}"


def summary(found: list[Compared]) -> str:
    """One line about the peaks of the steps that are the same."""
    ratios = [one.memory_ratio for one in found if one.line.same_step and one.memory_ratio]
    near = sum(abs(ratio - 1) <= 0.1 for ratio in ratios)
    return f"Of {len(ratios)} published peaks of the same step {near} are met within 10 %."


def main() -> None:
    """Trace what is missing where that is asked for, and put the table into the page."""
    if sys.argv[1:] == ["trace"]:
        write_digests()
    found = compared()
    put_lines(PAGE, MADE_BY, [summary(found), "", *table(HEADS, rows(found), words=4)])


if __name__ == "__main__":
    main()

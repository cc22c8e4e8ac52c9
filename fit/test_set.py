"""A test set that nobody fits: published trainings of MLPerf, AMD, Megatron and fine-tuning, next to their forecasts.

    python -m fit.test_set     # the table of docs/results/test-set.md, from the committed traces

The steps were traced for this table, by code that is in this file's history.
No row is in the fit or in a choice of the model. `compared` says how: `level` where the product describes the step;
`ratio` where only cards can be compared with each other, as the code is tuned by hand, is in FP8, or shares a layer
over GPUs: the nearest thing to forecast is a compiled step, without the host. What cannot be described has its reason.
Rates are of one GPU.
"""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from pydantic.dataclasses import dataclass

from fit.fitting import DATA, Row, read_digests, read_lines, summed_work
from fit.generated import DOCS, percent, put_lines, table, times
from fit.scores import score
from fit.validation import Forecasts
from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.forecast.time_model import Peaks, StepTime, forecast_step
from whichdevice.forecast.work import Software, Work

TABLE = DATA / "test_set.csv"
DIGESTS = DATA / "test_set.json"
PAGE = DOCS / "results" / "test-set.md"
REFERENCE = "H200 SXM"  # whose time the others' are divided by


@dataclass(frozen=True)
class Line:
    """One published training."""

    id: str
    source_group: str
    source: str
    device: str
    program: str
    batch: float = 0.0
    examples_per_s: float = 0.0
    compared: str = ""
    reason: str = ""

    @property
    def seconds(self) -> float:
        """An example, on one GPU."""
        return 1 / self.examples_per_s


@dataclass(frozen=True)
class Scored:
    """A published training next to its forecast: seconds an example."""

    line: Line
    work: Work
    step: StepTime

    @property
    def forecast(self) -> float:
        """Seconds an example; without the host where only cards are compared."""
        seconds = self.step.device_time if self.line.compared == "ratio" else self.step.seconds
        return seconds / self.line.batch

    @property
    def ratio(self) -> float:
        """Published over forecast."""
        return self.line.seconds / self.forecast

    @property
    def inside(self) -> bool:
        """Whether the published time is inside of the 80 % interval."""
        return self.step.low <= self.line.seconds * self.line.batch <= self.step.high


def lines() -> list[Line]:
    """Every line of the table."""
    return read_lines(Line, TABLE)


def work_of(line: Line) -> Work:
    """The work of its step, operation by operation or, where only cards are compared, compiled."""
    program = read_digests(DIGESTS)[line.program]
    software: Software = "torch.compile" if line.compared == "ratio" else "eager"
    return summed_work(program[software], software, line.batch / program["size"])


def scored() -> list[Scored]:
    """The forecast of every line that can be described."""
    sheet = hardware_rows()
    return [
        Scored(line, work, forecast_step(work, sheet[line.device]))
        for line in lines()
        if line.compared
        for work in [work_of(line)]
    ]


def ratios(found: Sequence[Scored]) -> Iterator[tuple[Scored, float, float]]:
    """Each line of MLPerf with how many times as long it takes as on REFERENCE: published, forecast."""
    base = {its.line.program: its for its in found if its.line.device == REFERENCE}
    for its in found:
        other = base.get(its.line.program)
        if its.line.source_group == "mlperf" and other is not None and other is not its:
            yield its, its.line.seconds / other.line.seconds, its.forecast / other.forecast


def as_forecasts() -> Forecasts:
    """The lines in the form that decisions are scored in."""
    sheet, found = hardware_rows(), scored()
    rows = tuple(
        Row(
            its.line.source_group, its.line.device, its.line.seconds, 1.0, its.line.program, its.line.program,
            "train", its.work, Peaks.of(sheet[its.line.device]),
        )
        for its in found
    )  # fmt: skip
    names = ("log_sd_shared", "log_sd_own", "host_time", "host_log_sd")
    columns = np.array([[getattr(its.step, name) for name in names] for its in found]).T
    return Forecasts(rows, np.log([its.ratio for its in found]), *columns)


def report() -> dict[str, list[str]]:
    """The parts of the page: levels, ratios over REFERENCE, and what cannot be described."""
    found = scored()
    levels, over = [its for its in found if its.line.compared == "level"], list(ratios(found))
    its = score(np.log([one.ratio for one in levels])) | {"inside": sum(one.inside for one in levels)}
    errors = score(np.log([forecast / published for _, published, forecast in over]))
    described: dict[tuple[str, ...], list[str]] = {}
    for line in lines():
        if not line.compared:
            devices = described.setdefault((line.source_group, line.program, line.reason), [])
            devices += [line.device] if line.device not in devices else []
    rows = (
        [
            one.line.source_group, one.line.device, one.line.program, f"{1e3 * one.line.seconds:.4g}",
            f"{1e3 * one.forecast:.4g}", f"{one.ratio:.2f}", "yes" if one.inside else "no",
        ]
        for one in levels
    )  # fmt: skip
    of_cards = (
        [one.line.device, one.line.program, f"{true:.2f}", f"{ours:.2f}", f"{ours / true:.2f}"]
        for one, true, ours in over
    )
    others = ([group, program, ", ".join(devices), why] for (group, program, why), devices in described.items())
    heads = ("published by", "device", "step", "ms an example", "forecast", "published / forecast", "inside")
    return {
        "times": [f"{_off(its)}; {its['inside']} are inside.", "", *table(heads, rows, words=3)],
        "ratios": [
            f"{_off(errors)}.", "",
            *table(("device", "step", "published", "forecast", "forecast / published"), of_cards, words=2),
        ],
        "reasons": list(table(("published by", "what", "devices", "why"), others, words=4)),
    }  # fmt: skip


def _off(its: Mapping[str, float]) -> str:
    return f"The median of {its['rows']} is {percent(its['median_error'])} off, 80 % are within {times(its['within'])}"


def main() -> None:
    """Write the parts of the page."""
    for name, lines_of in report().items():
        put_lines(PAGE, f"python -m fit.test_set, {name}", lines_of)


if __name__ == "__main__":
    main()

"""Numbers that the sources published, with their settings, and the forecasts of the very same steps. Imports no pandas.

    for experiment in experiments(read_published(PUBLISHED)):
        experiment.claims, experiment.first.batch_size, experiment.format_on("tpu")
"""

import csv
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

from whichdevice.base.errors import StudyError
from whichdevice.base.files import CONFIG, csv_rows
from whichdevice.base.numbers import two
from whichdevice.base.sheets.hardware import HardwareRow
from whichdevice.forecast.products import ProgramRequest
from whichdevice.forecast.targets import find_target
from whichdevice.forecast.time_model import FED_DEVICES

PUBLISHED = CONFIG / "published.csv"
TODAY = ("T4", "V100 SXM2", "RTX 4090", "H100 SXM", "TPU v5e", "TPU v6e")
# How a framework's float32 is computed, where a source names no format: a TPU multiplies it in bfloat16.
USUAL = {"cpu": "float32", "gpu": "float32", "tpu": "mixed_bfloat16"}
STEADY = ("step_time", "epoch_time", "total_time", "wall_time", "throughput")  # the first that all devices have counts
COLD = {"first_epoch_time": "first epoch with compilation", "throughput_cold": "with compilation"}
SPEED = "TFLOP/s"
EPOCH_EXAMPLES = {"mnist_official": 60_000, "mnist_cnn": 60_000, "fashion_cnn": 60_000}  # of an epoch
CUDNN_SINCE = "2019-10"  # TensorFlow 2.0: Keras' recurrent layers run cuDNN's kernels from then on
CLAIMED = "published_"  # how a workload of these forecasts is named, so that none is taken for the study's own
VALIDATION = ("", "yes", "no")  # whether a published time holds validation, as Keras' own times do


@dataclass(frozen=True, kw_only=True)
class Claim:
    """A published figure; times in seconds. None: the source does not say."""

    source: str
    date: str
    device: str
    device_class: str
    workload: str
    metric: str
    unit: str
    value: float | None
    batch_size: int | None
    caveat: str
    sequence_length: int | None = None
    epochs: int | None = None
    steps_per_epoch: int | None = None
    suspect_factor: int | None = None
    status: str = ""
    hardware: str = ""  # row of config/hardware.csv
    precision: str = ""
    validation: str = ""

    @property
    def is_timed(self) -> bool:
        """Whether it is a time or speed of steps."""
        return self.metric in STEADY or self.metric in COLD

    @property
    def steps(self) -> int | None:
        """Return how many steps a published time has; None where it is another figure, or the source does not say."""
        epoch = self.steps_per_epoch
        if epoch is None and self.batch_size and self.workload in EPOCH_EXAMPLES:
            epoch = math.ceil(EPOCH_EXAMPLES[self.workload] / self.batch_size)
        training = epoch and (self.epochs or 1) * epoch
        steps = {"step_time": 1, "epoch_time": epoch, "first_epoch_time": epoch}
        return (steps | dict.fromkeys(("wall_time", "total_time"), training)).get(self.metric)

    def cause(self, sheet: Mapping[str, HardwareRow]) -> str | None:
        """Return why a forecast on the same device differs or is missing, by the publication alone; None: unknown."""
        peak = sheet[self.hardware].fp32_tflops if self.hardware in sheet else None
        cases = {
            self._too_much(peak): self.suspect_factor is not None,
            "no batch size published": self.batch_size is None,
            "no forecasts of CPUs": self.device_class == "cpu",
            "no name of the GPU published": not self.hardware,
            COLD.get(self.metric, ""): self.metric in COLD,
            "fed over a network": self.hardware in FED_DEVICES and self.unit != SPEED,
            "recurrent layers without cuDNN, before TensorFlow 2.0": self.device_class == "gpu"
            and self.sequence_length is not None
            and self.date < CUDNN_SINCE,
        }
        return ", ".join(words for words, holds in cases.items() if holds) or None if self.is_timed else None

    def _too_much(self, peak: float | None) -> str:
        if self.suspect_factor is None or self.value is None:
            return ""
        impossible = f"impossible, the peak is {two(peak)} {self.unit}: " if peak and self.value > peak else ""
        return f"{impossible}{self.suspect_factor:g} times too much, {two(self.value / self.suspect_factor)} without it"


@dataclass(frozen=True)
class Experiment:
    """One source's figures of one workload at one size, each measurement once."""

    claims: list[Claim]

    @property
    def first(self) -> Claim:
        """A figure, which has workload, batch size and length as all of them."""
        return self.claims[0]

    @property
    def timed(self) -> Claim | None:
        """A figure of the steady time or speed, which says of how many steps it is."""
        return next((claim for claim in self.claims if claim.metric in STEADY and claim.value is not None), None)

    def format_on(self, kind: str) -> str:
        """The number format of the same work on a kind of device."""
        named = (claim.precision for claim in self.claims if claim.device_class == kind and claim.precision)
        return next(named, USUAL[kind])

    def requests(self) -> Iterator[ProgramRequest]:
        """Yield its step on the source's own devices and on today's; nothing where the source does not say its size."""
        first = self.first
        if first.batch_size is None or self.timed is None:
            return
        published_on = (claim.hardware for claim in self.claims if claim.device_class != "cpu" and claim.hardware)
        for target in map(find_target, dict.fromkeys((*published_on, *TODAY))):  # products run on every core of a TPU
            yield ProgramRequest(
                device=target.device,
                devices=target.devices,
                workload=CLAIMED + first.workload,
                module=first.workload,
                precision=self.format_on(target.kind),
                batch_size=first.batch_size,
                sequence_length=first.sequence_length,
            )


def read_published(path: Path) -> list[Claim]:
    """The published figures. Raises StudyError when the file lacks a column or a number is none."""
    try:
        rows = csv_rows(path)
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise StudyError(f"cannot read {path}: {error}") from error
    needed = {field.name for field in fields(Claim) if field.default is MISSING}
    if rows and (missing := sorted(needed - rows[0].keys())):
        raise StudyError(f"{path}: no column {missing[0]}")
    return [_claim(row, f"{path}: row {place}") for place, row in enumerate(rows, start=1)]


def _claim(row: dict[str, str], where: str) -> Claim:
    known: dict[str, Any] = {field.name: row[field.name] or "" for field in fields(Claim) if field.name in row}
    if known.get("validation", "") not in VALIDATION:
        raise StudyError(f"{where}: validation is {row['validation']!r}; write yes, no or nothing")
    for field in fields(Claim):
        if field.type is not str and field.name in known:
            known[field.name] = _number(known[field.name], f"{where}: {field.name}")
    if known["unit"] in (scale := {"ms": 1e-3, "us/sample": 1e-6 * (known["batch_size"] or 1)}):
        known |= {"value": known["value"] * scale[known["unit"]], "unit": "s"}
    return Claim(**known)


def _number(text: str, what: str) -> float | None:
    try:
        number = float(text) if text else None
    except ValueError:
        number = math.nan
    if number is not None and not math.isfinite(number):
        raise StudyError(f"{what} is {text!r}, which is no number")
    return int(number) if number is not None and number.is_integer() else number


def experiments(claims: Iterable[Claim]) -> list[Experiment]:
    """Return what each source did: of the figures of one measurement (step, epoch, training) one."""
    works: dict[tuple[object, ...], list[Claim]] = {}
    for claim in claims:
        work = (claim.source, claim.workload, claim.batch_size, claim.sequence_length)
        works.setdefault(work, []).append(claim)
    return [Experiment(list(_once(claims_of))) for claims_of in works.values()]


def _once(claims: list[Claim]) -> Iterator[Claim]:
    """Yield figures without those that say the same as another one in other words."""
    metrics: dict[str, set[str]] = {}
    for claim in claims:
        if claim.metric in STEADY and claim.value is not None:
            metrics.setdefault(claim.device, set()).add(claim.metric)
    common = next((metric for metric in STEADY if all(metric in known for known in metrics.values())), None)
    for claim in claims:
        if claim.metric not in STEADY or claim.metric == common or claim.device not in metrics:
            yield claim


def claim_requests(modules: Collection[str] | None = None) -> list[ProgramRequest]:
    """Return every published step of these workload files, or of all, on its source's devices and on today's."""
    asked = (
        request
        for experiment in experiments(read_published(PUBLISHED))
        if modules is None or experiment.first.workload in modules
        for request in experiment.requests()
    )
    return list({request.path: request for request in asked}.values())

"""The record of one run: everything asked, found and timed, enough to recompute each number in the report.

Times are seconds, memory is bytes, rates are per second. A record holds no user names, host names or
absolute paths. Fields that a failed run never reached are None or empty.
"""

from typing import Annotated, Any

from pydantic import AwareDatetime, Field

from whichdevice.records.conditions import Energy, Memory, Noise
from whichdevice.records.facts import DataFacts, Machine, Software, WorkloadFacts
from whichdevice.records.part import Evidence, Integer, Part, Status, no_newer_than
from whichdevice.records.redaction import Told
from whichdevice.records.request import Request
from whichdevice.records.timings import Breakdown, Cold, Epoch, Latency, Learning, Steady

SCHEMA_VERSION = 1


class Attempt(Part):
    """An attempt at the run that does not count, because the other one was quieter."""

    number: Integer  # 1 or 2
    learned: bool  # the record's epochs, results, artefacts, memory and energy of epochs are of this attempt
    status: Status
    reason: Told | None = None
    noise: Noise
    cold: Cold
    steady: Steady
    energy: Energy
    started: AwareDatetime
    ended: AwareDatetime


class Artefact(Part):
    """A file kept beside the record, relative to the record's folder."""

    file: str
    sha256: str


class Record(Part):
    """One run."""

    schema_version: Annotated[Integer, no_newer_than(SCHEMA_VERSION)] = SCHEMA_VERSION
    study: str
    run: str  # <device>/<workload>/<cell>/r<repeat>
    evidence: Evidence = "measured"
    status: Status
    reason: Told | None = None  # one line, for every status but ok
    asked: Request
    workload: WorkloadFacts | None = None
    machine: Machine = Field(default_factory=Machine)
    software: Software = Field(default_factory=Software)
    data: DataFacts | None = None
    cold: Cold = Field(default_factory=Cold)
    steady: Steady = Field(default_factory=Steady)
    epochs: list[Epoch] = Field(default_factory=list)
    learning: Learning = Field(default_factory=Learning)
    breakdown: Breakdown | None = None
    latency: Latency | None = None  # of mode predict
    results: dict[str, Any] = Field(default_factory=dict)  # final numbers: validation_accuracy, misclassified ...
    memory: Memory = Field(default_factory=Memory)
    energy: Energy = Field(default_factory=Energy)
    noise: Noise = Field(default_factory=Noise)
    artefacts: dict[str, Artefact] = Field(default_factory=dict)
    attempts: list[Attempt] = Field(default_factory=list)  # others than the one that counts
    started: AwareDatetime
    ended: AwareDatetime

    @property
    def learned_epochs(self) -> float:
        """How many epochs were learned, with the part of the last one where train.seconds ended it."""
        steps = self.epochs[-1].steps if self.epochs else None
        if steps is None or self.workload is None:
            return len(self.epochs)
        return len(self.epochs) - 1 + steps / self.workload.steps_per_epoch

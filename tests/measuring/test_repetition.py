"""A disturbed run is measured once more; which attempt counts depends on the noise alone."""

from datetime import timedelta
from pathlib import Path

import pytest
import synthetic

from whichdevice.base.locks import LOCK_FOLDER
from whichdevice.measure.record import Artefact, Energy, MeteredPart, Noise, Record
from whichdevice.study import measure as measuring
from whichdevice.study.cells import Run, study_runs
from whichdevice.study.config.load import write_study
from whichdevice.study.measure import chosen, measure, repeating, repetition, with_note
from whichdevice.study.records.store import read_record
from whichdevice.study.request import planned_record

STUDY = synthetic.small_study()
LEARNS, TIMES = (Run(study_runs(STUDY)[0].cell, repeat) for repeat in (1, 2))


def attempt(run: Run, severity: float, status: str = "ok", seconds: float = 30.0) -> Record:
    record = synthetic.record_of(STUDY, run)
    energy = Energy(joules=10 * severity, meter="RAPL", parts={"steady": MeteredPart(joules=severity, seconds=1)})
    if record.epochs:
        energy.parts["epoch 1"] = MeteredPart(joules=100, seconds=10)
    return record.model_copy(
        update={
            "status": status,
            "noise": Noise(severity=severity, disturbed=severity > 1, reasons=["company"] if severity > 1 else []),
            "steady": record.steady.model_copy(update={"step_time": severity, "windows": []}),
            "energy": energy,
            "ended": record.started + timedelta(seconds=seconds),
        }
    )


def test_a_disturbed_run_is_repeated_within_the_time_that_is_left() -> None:
    disturbed = attempt(TIMES, 2.0, seconds=100)
    again, why_not = repetition(disturbed, disturbed.asked, 100.0)
    assert why_not is None and again is not None
    assert again.timeout == disturbed.asked.timeout - 100
    assert again == disturbed.asked.model_copy(update={"timeout": again.timeout})


@pytest.mark.parametrize(
    ("seconds", "left", "reason"),
    [(800.0, 900.0, "no time left: it took 800 s"), (30.0, 29.0, "no time left: 29 s of measure.retry_seconds")],
)
def test_a_disturbed_run_that_is_not_repeated_says_why(seconds: float, left: float, reason: str) -> None:
    disturbed = attempt(TIMES, 2.0, seconds=seconds)
    again, why_not = repetition(disturbed, disturbed.asked, left)
    assert again is None and why_not is not None and reason in why_not
    assert with_note(disturbed, why_not).noise.not_repeated == why_not


def test_the_quieter_attempt_counts_and_the_other_is_kept() -> None:
    first, second = attempt(TIMES, 3.0), attempt(TIMES, 0.5)
    record = chosen(first, second)
    assert record.steady.step_time == 0.5 and not record.noise.disturbed
    assert [(other.number, other.noise.severity, other.steady.step_time) for other in record.attempts] == [
        (1, 3.0, 3.0)
    ]
    assert record.started == first.started and record.asked == first.asked


@pytest.mark.parametrize("second", [attempt(TIMES, 4.0), attempt(TIMES, 0.1, status="failed")])
def test_a_noisier_or_failed_second_attempt_does_not_count(second: Record) -> None:
    record = chosen(attempt(TIMES, 3.0), second)
    assert record.steady.step_time == 3.0 and record.noise.disturbed
    assert [(other.number, other.status) for other in record.attempts] == [(2, second.status)]


def test_learning_is_not_repeated_and_stays_with_what_it_gave() -> None:
    first = attempt(LEARNS, 3.0)
    again, _ = repetition(first, first.asked, 30.0)
    assert again is not None and (again.learn, again.epochs) == (False, 0)
    second = attempt(LEARNS, 0.5).model_copy(update={"epochs": [], "results": {}})
    record = chosen(first, second)
    assert record.steady.step_time == 0.5 and record.epochs == first.epochs and record.results == first.results
    assert record.attempts[0].learned
    parts = {name: part.joules for name, part in record.energy.parts.items()}
    assert parts == {"steady": 0.5, "epoch 1": 100} and record.energy.joules == 30


def test_long_learning_does_not_count_against_the_time_that_is_left() -> None:
    first = attempt(LEARNS, 3.0, seconds=800)
    for epoch in first.epochs:
        epoch.seconds = 250
    assert repetition(first, first.asked, 300.0)[0] is not None


def test_second_attempts_take_from_the_time_of_the_whole_study() -> None:
    first, second = attempt(TIMES, 3.0, seconds=40), attempt(TIMES, 0.5)
    second = second.model_copy(
        update={"started": first.ended, "ended": first.ended + timedelta(seconds=25)}
    )
    assert repeating(first) == 0
    assert repeating(chosen(first, second)) == repeating(chosen(second, first.model_copy(update={
        "started": second.ended, "ended": second.ended + timedelta(seconds=25), "noise": second.noise}))) == 25


@pytest.fixture
def scripted(working_folder: Path, monkeypatch: pytest.MonkeyPatch):
    """Measure the first run of a study with attempts of these severities; None is an interrupt."""
    study = synthetic.small_study(devices={"cpu": synthetic.Device(kind="cpu")}).model_copy(deep=True)
    study.data.sources = {"mnist": "standin"}
    config = working_folder / study.root / "config.yaml"
    write_study(study, config)
    path = working_folder / planned_record(study, TIMES)
    monkeypatch.setenv(LOCK_FOLDER, str(working_folder))

    def run(*severities: float | None) -> Record:
        script = iter(severities)

        def run_attempt(study, run, request, folder, log, phase, data) -> Record:
            if (severity := next(script)) is None:
                raise KeyboardInterrupt
            (folder / "profile.pb").write_text(str(severity))
            file = Artefact(file=f"{folder.name}/profile.pb", sha256="0" * 64)
            return attempt(TIMES, severity).model_copy(update={"artefacts": {"profile": file}})

        monkeypatch.setattr(measuring, "run_attempt", run_attempt)
        measure(config, path, working_folder / "log")
        return read_record(path)

    run.path = path
    return run


def folders(record_path: Path) -> list[str]:
    return [(folder / "profile.pb").read_text() for folder in record_path.parent.iterdir() if folder.is_dir()]


def test_both_attempts_stand_in_the_record_and_artefacts_of_the_one_that_counts(scripted) -> None:
    record = scripted(3.0, 0.5)
    assert record.noise.severity == 0.5 and len(record.attempts) == 1
    assert folders(scripted.path) == ["0.5"]
    assert (scripted.path.parent / record.artefacts["profile"].file).read_text() == "0.5"


def test_an_interrupt_in_the_second_attempt_leaves_the_earlier_record(scripted) -> None:
    scripted(0.5)
    with pytest.raises(KeyboardInterrupt):
        scripted(3.0, None)
    assert read_record(scripted.path).noise.severity == 0.5
    assert folders(scripted.path) == ["0.5"]

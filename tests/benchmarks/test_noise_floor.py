"""The benchmark's rates on made-up speeds whose truth is known."""

from argparse import Namespace
from pathlib import Path

import numpy as np
import pytest
import synthetic
from benchmarks import noise_floor
from benchmarks.quiet_host import QuietHost

from whichdevice.measure.record import Noise, Record
from whichdevice.study.cells import study_runs
from whichdevice.study.records.store import write_record
from whichdevice.study.request import planned_record

OPTIONS = Namespace(
    blocks=12, repeats=8, family=4, seconds=1.0, workload="mnist_official", batch_size=128, slowdown=0.10, fraction=0.1
)


def records(spread: float) -> list[Record]:
    """A record for each run: one speed with noise; disturbed beside a load."""
    study, random, found = noise_floor.study_of(OPTIONS), np.random.default_rng(0), []
    for run in study_runs(study):
        record = synthetic.record_of(study, run)
        record.steady.throughput = 1000 * float(np.exp(random.normal(0, spread)))
        disturbed = run.cell.workload == noise_floor.LOADED
        record.noise = Noise(disturbed=disturbed)
        found.append(record)
    return found


def test_one_cell_three_times_and_beside_a_load():
    study = noise_floor.study_of(OPTIONS)
    assert {run.cell.workload for run in study_runs(study)} == {*noise_floor.CELLS}
    assert not study.measure.retry_disturbed
    assert len({workload.batch_size[0] for workload in study.workloads.values()}) == 1


def test_it_prints_what_is_true_of_the_speeds(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(noise_floor, "FAMILIES", 300)
    noise_floor.report(records(0.02), OPTIONS)
    out = capsys.readouterr().out
    assert "found in 20 of 20" in out and "elsewhere in 0" in out
    assert "Of all runs without a load flagged: 0 of 36" in out
    assert "on one core flagged: 12 of 12" in out
    assert float(out.split("The same cell twice: ")[1].split("%")[0]) <= 8


def test_a_small_slowdown_in_much_noise_is_not_found(capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(noise_floor, "FAMILIES", 50)
    noise_floor.report(records(0.2), Namespace(**vars(OPTIONS) | {"slowdown": 0.01}))
    assert "found in 20 of 20" not in capsys.readouterr().out


def test_records_of_other_options_are_not_taken_for_these(working_folder: Path) -> None:
    study = noise_floor.study_of(OPTIONS)
    run = study_runs(study)[0]
    write_record(synthetic.record_of(study, run), Path(planned_record(study, run)))
    with pytest.raises(SystemExit, match="measured with other options; take another --folder"):
        noise_floor.measured(study, QuietHost(0))

"""A measured cell without a ratio says why, and no more than is so."""

from collections.abc import Callable
from pathlib import Path

import synthetic
from report_page import ROOT

from whichdevice.cells import Run
from whichdevice.config.model import Device, Workload
from whichdevice.records.schema import Record
from whichdevice.report.advice import uncompared
from whichdevice.report.cells import cell_table
from whichdevice.report.verdict import board, lead
from whichdevice.results import StudyResults
from whichdevice.tables.make import write_tables

BOTH = {"cpu": Device(kind="cpu"), "gpu": Device(kind="gpu")}
REHEARSED = {"cpu": Device(kind="cpu"), "rehearsal": Device(kind="cpu", replicas=8)}


def results(
    folder: Path,
    devices: dict[str, Device],
    change: Callable[[Run, Record], Record | None] = lambda run, record: record,
    sizes: tuple[int, ...] = (256,),
) -> StudyResults:
    study = synthetic.small_study(devices=devices, workloads={"mnist_cnn": Workload(batch_size=list(sizes))})
    config, paths = synthetic.write_study(study, folder, artefacts=False, change=change)
    write_tables(config, paths, ROOT / "config/published.csv", folder / "tables")
    return StudyResults(config, folder / "tables")


def verdicts(study: StudyResults, size: int = 256) -> dict[str, str]:
    """What stands beside each measured cell of this batch size."""
    rows = [row for row in cell_table(study)["rows"] if row["evidence"] == "measured"]
    return {row["device"]: row["verdict"] for row in rows if row["batch_size"].value == size}


def test_a_cell_that_failed_on_the_reference_is_not_said_to_be_missing_there(tmp_path: Path) -> None:
    def change(run: Run, record: Record) -> Record:
        broken = run.cell.device == "cpu" and run.cell.batch_size == 512
        return synthetic.failed_record(synthetic.small_study(devices=BOTH), run) if broken else record

    study = results(tmp_path, BOTH, change, sizes=(256, 512))
    assert verdicts(study, 512) == {"gpu": "cpu: 0 of 2 ok, 2 failed"}


def test_a_cell_that_the_reference_was_not_asked_for_is_not_run_there(tmp_path: Path) -> None:
    devices = BOTH | {"own": Device(kind="gpu")}
    study = results(tmp_path, devices)
    study.summary = study.summary[study.summary["device"] != "cpu"]
    study.speedups = study.speedups[study.speedups["device"] != "gpu"]
    assert verdicts(study)["gpu"] == "not run on cpu"


def test_repeats_without_a_partner_are_said_to_have_none(tmp_path: Path) -> None:
    def apart(run: Run, record: Record) -> Record | None:
        return record if (run.cell.device == "cpu") == (run.repeat == 1) else None

    assert verdicts(results(tmp_path, BOTH, apart)) == {
        "cpu": "the reference",
        "gpu": "no repeat in common with cpu",
    }


def test_another_model_of_the_same_name_is_said_to_be_one(tmp_path: Path) -> None:
    def wider(run: Run, record: Record) -> Record:
        if run.cell.device == "gpu":
            record.workload = record.workload.model_copy(update={"parameters": 7})
        return record

    assert verdicts(results(tmp_path, BOTH, wider))["gpu"] == "another model on cpu"


def test_a_rehearsal_is_named_so_and_is_no_device_to_compare(tmp_path: Path) -> None:
    study = results(tmp_path, REHEARSED)
    assert verdicts(study) == {
        "cpu": "no other device measured",
        "rehearsal": "a rehearsal on virtual replicas, which shows no speed",
    }
    assert lead(study, board(study)) == [
        "Only cpu was measured, so which device is best cannot be said.",
        "Rehearsals on virtual replicas, which show no speed: rehearsal.",
    ]
    assert uncompared(study) == ["Measured on cpu, one device only, so there is nothing to compare: mnist_cnn."]


def test_nothing_but_a_rehearsal_is_said_to_be_one(tmp_path: Path) -> None:
    study = results(tmp_path, REHEARSED, lambda run, record: record if run.cell.device == "rehearsal" else None)
    assert lead(study, board(study))[0] == "Only rehearsal was measured, so which device is best cannot be said."

"""The page says what the tables say, runs nothing, fetches nothing and shows names as names."""

import re
from pathlib import Path

import pytest
import synthetic
from report_page import Page, page_of

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Workload
from whichdevice.study.report.contents import write_report

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Page]:
    """A study of two devices whose runs are all well: its folder, and its page."""
    folder = tmp_path_factory.mktemp("plain")
    return folder, page_of(synthetic.small_study(), folder)


def test_the_headline_tells_what_failed_and_what_was_not_measured(tmp_path: Path) -> None:
    study = synthetic.small_study()

    def change(run: Run, record: Record) -> Record:
        bad = run.cell.batch_size == 256 and run.repeat == 1
        return synthetic.failed_record(study, run, reason="killed <now> & then") if bad else record

    page = page_of(study, tmp_path, devices=["cpu"], change=change)
    text = re.sub(r"\s+", " ", page.text)
    again = "whichdevice study all --configfile results/small/config.yaml --config retry=failed -- --forcerun measure"
    assert f"1 of 4 runs failed. Repeat: {again}" in text
    assert "Not measured: gpu (no gpu on this host)" in text
    assert "whichdevice study gpu" in text
    assert "Measured on cpu (Example CPU 3.6 GHz): 3 runs of 2 cells" in text
    assert "stand-ins" in text
    assert "killed <now> & then" in text
    assert "0.53 TFLOP/s" in text  # a published figure, with its caveat
    assert "physically impossible" in text


def test_refused_runs_are_told_apart_from_failed_ones(tmp_path: Path) -> None:
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu")})

    def change(run: Run, record: Record, bad: tuple[str, ...] = ("refused", "out_of_memory")) -> Record:
        if run.cell.batch_size == 256 and run.repeat <= len(bad):
            return synthetic.failed_record(study, run, bad[run.repeat - 1], "not enough memory")
        return record

    both = page_of(study, tmp_path / "both", change=change).text
    assert both.count("1 of 4 runs failed. Repeat:") == 2  # headline and the section
    assert both.count("1 refused: did not fit this host.") == 2
    alone = page_of(study, tmp_path / "alone", change=lambda run, record: change(run, record, ("refused",))).text
    assert "runs failed" not in alone
    assert alone.count("To try again those that fit by then") == 2
    assert alone.count("1 refused: did not fit this host.") == 2


def test_names_from_outside_stay_text(tmp_path: Path) -> None:
    nasty = "<script>alert(1)</script>"
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu", hardware=nasty)})

    def change(run: Run, record: Record) -> Record:
        record.machine.device_name = nasty
        record.software.versions["<img src=x>"] = "1"
        return record

    page = page_of(study, tmp_path, change=change)
    assert not re.search("<(script>alert|img src=x)", (tmp_path / "report.html").read_text("utf-8"))
    assert nasty in page.text


def test_the_page_fetches_nothing(plain: tuple[Path, Page]) -> None:
    folder, page = plain
    assert page.addresses
    assert not [each for each in page.addresses if re.match(r"(?!data:)[a-z]+:|/", each)]  # data, or beside the page
    assert "@import" not in (folder / "report.html").read_text("utf-8")


def test_a_study_without_any_record_has_a_page(tmp_path: Path) -> None:
    text = page_of(synthetic.small_study(), tmp_path, change=lambda run, record: None).text
    assert "Nothing was measured yet." in text


def test_a_missing_figure_is_named_with_its_command(plain: tuple[Path, Page], tmp_path: Path) -> None:
    folder = plain[0]
    with pytest.raises(StudyError, match="whichdevice study figures"):
        write_report(folder / "config.yaml", folder / "tables", tmp_path / "figures", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_the_page_says_which_device_and_how_replicas_scale(tmp_path: Path) -> None:
    devices = {
        "cpu": Device(kind="cpu"), "cpu8": Device(kind="cpu", replicas=8),
        "gpu1": Device(kind="gpu"), "gpu4": Device(kind="gpu", replicas=4),
    }  # fmt: skip
    page = page_of(synthetic.small_study(devices=devices), tmp_path)
    text = re.sub(r"\s+", " ", page.text)
    assert "1 → 4" in text and "256 → 1024" in text
    assert "cpu8 / cpu" not in text  # a rehearsal is no verdict


def test_backends_are_compared_in_the_answer(tmp_path: Path) -> None:
    workload = Workload(batch_size=[256], backend=["jax", "tensorflow"])
    study = synthetic.small_study(devices={"cpu": Device(kind="cpu")}, workloads={"mnist_cnn": workload})
    text = re.sub(r"\s+", " ", page_of(study, tmp_path).text)
    assert re.search(r"mnist_cnn · float32jax0\.\d+ \[[\d.]+ – [\d.]+\] times as fast as tensorflow", text)

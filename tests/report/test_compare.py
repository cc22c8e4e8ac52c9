"""The page of a comparison."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.base.errors import StudyError
from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.load import read_study
from whichdevice.study.config.model import Measure, Workload
from whichdevice.study.report.compare import compare
from whichdevice.study.tables import runs, summary
from whichdevice.study.tables.base import table, write_table
from whichdevice.study.tables.make import collect


def compared(folder: Path, there: list[Path]) -> tuple[list[str], str]:
    """What is said of a study against these records, and the page."""
    study = synthetic.small_study(measure=Measure(repeats=4))
    config, paths = synthetic.write_study(study, folder / "here", artefacts=False)
    tables = folder / "here/tables"
    found = table(collect(read_study(config), paths)[0], runs.RUN_COLUMNS)
    write_table(found, tables / "runs.csv")
    write_table(summary.summary_table(found), tables / "summary.csv")
    page = folder / "here/compare.html"
    lines = compare(config, tables, "results/<there>", there, page)
    return lines, page.read_text("utf-8")


def slower(run: Run, record: Record) -> Record:
    """Another TensorFlow, with which every run takes half as long again, and differs a little from run to run."""
    record.software.versions["tensorflow"] = "2.20.0"
    return synthetic.slowed(record, 1.5 + 0.01 * run.repeat)


def test_the_comparison_in_words_table_and_page(tmp_path: Path) -> None:
    study = synthetic.small_study(workloads={"mnist_cnn": Workload(batch_size=[256, 512])}, measure=Measure(repeats=4))
    _, there = synthetic.write_study(study, tmp_path / "there", artefacts=False, change=slower)
    lines, page = compared(tmp_path, there)
    control = [
        f"the fixed work (a product shared by all cores, by NumPy) on the host of {device}: "
        "1 [1 – 1] times as fast here, n = 8, 8."
        for device in ("cpu", "gpu")
    ]
    assert lines == [
        "small against results/<there>: 2 cells measured on both sides: 2 faster; 2 only here; 2 only there.",
        *(f"  control: {line}" for line in control),
        "  tensorflow: 2.21.0 here, 2.20.0 there",
    ]
    assert "2 cells measured on both sides: 2 faster; 2 only here" in page
    assert "tensorflow: 2.21.0 here, 2.20.0 there" in page and "results/&lt;there&gt;" in page
    assert all(f"Control: {line}" in page for line in control)
    assert page.count("<b>faster</b>") == 2
    assert "https:" not in page and (tmp_path / "here/tables/compare.csv").stat().st_size > 100


def test_no_readable_record_is_one_line(tmp_path: Path) -> None:
    cut = tmp_path / "record.json"
    cut.write_text("{", encoding="utf-8")
    with pytest.raises(StudyError, match=r"^against: no record below results/<there> can be read: record "):
        compared(tmp_path, [cut])


def test_nothing_but_copies_of_the_study_is_one_line(tmp_path: Path) -> None:
    study = synthetic.small_study(measure=Measure(repeats=4))
    _, copies = synthetic.write_study(study, tmp_path / "there", artefacts=False)
    with pytest.raises(StudyError, match=r"^against: every record below results/<there> is a copy of one of this"):
        compared(tmp_path, copies)

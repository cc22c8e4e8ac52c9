"""Numbers on the page are those of the tables, and verdicts are worded."""

import re
from pathlib import Path

import pandas as pd
import pytest
import synthetic
from report_page import Page, page_of
from synthetic_energy import metered

from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Workload
from whichdevice.study.report.numbers import with_setting

UNITS = {"": 1, "k": 1e3, "M": 1e6, "%": 0.01, "µs": 1e-6, "ms": 1e-3, "s": 1, "min": 60}
UNITS |= {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def change(run: Run, record: Record) -> Record:
    """The GPU has no meter; the CPU's speeds of one workload are as the GPU's, give or take."""
    if run.cell.workload == "fashion_cnn" and run.cell.device == "cpu":
        record = synthetic.slowed(record, 1 / (10.1 * (1 + 0.1 * (run.repeat % 2))))
    return record if run.cell.device == "gpu" else metered(record)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("numbers")


@pytest.fixture(scope="module")
def page(folder: Path) -> Page:
    workloads = {
        "mnist_cnn": Workload(batch_size=[16, 256], precision=["float32", "mixed_bfloat16"]),
        "fashion_cnn": Workload(batch_size=[64], fraction=[0.5]),
        "matmul": Workload(batch_size=[512, 2048]),
        "weather_gru": Workload(batch_size=[8], sequence_length=[168]),
    }
    devices = {
        "cpu": Device(kind="cpu", usd_per_hour=0.5), "gpu": Device(kind="gpu", usd_per_hour=2.0),
        "tpu": Device(kind="tpu", replicas=8, hardware="TPU v2"),
    }  # fmt: skip
    study = synthetic.small_study(devices=devices, workloads=workloads, measure=Measure(repeats=4))
    return page_of(study, folder, devices=["cpu", "gpu"], change=change)


def known(folder: Path) -> set[float]:
    """Every number of every table, also those listed in texts such as sizes."""
    found: set[float] = set()
    for path in (folder / "tables").glob("*.csv"):
        for _, column in pd.read_csv(path, dtype="str").items():
            for text in column.dropna().unique():
                found |= {float(part) for part in text.split() if re.fullmatch(r"-?\d+(\.\d+)?(e[+-]?\d+)?", part)}
    return found


@pytest.mark.parametrize(("section", "least"), [("cells", 200)])
def test_every_number_stands_in_a_table_and_is_written_so(page: Page, folder: Path, section: str, least: int) -> None:
    numbers, tables = page.numbers[section], known(folder)
    assert len(numbers) > least
    assert [each for each in numbers if each[0] not in tables] == []
    assert [each for each in numbers if not same(*each)] == []


def same(value: float, text: str) -> bool:
    """Whether a text is this number with three digits or more, in its own unit or in the table's."""
    digits, unit = re.fullmatch(r"([\d.,e+-]+) ?(\D*)", text).groups()  # type: ignore[union-attr]
    told = float(digits.replace(",", ""))
    off = min(abs(told * UNITS[unit] - value), abs(told - value))
    return off <= 0.0051 * abs(value) or (value < 100 and not unit and off <= 0.5)


def test_no_cell_of_numbers_holds_another_one(page: Page) -> None:
    assert not re.search(r"\d", page.loose["cells"])


@pytest.mark.parametrize(
    ("words", "setting", "told"),
    [
        ("faster", "one machine, one session", "faster"),
        ("faster", "2 machines, 2 sessions", "faster; 2 machines, 2 sessions"),
        ("", "2 machines, 2 sessions", "2 machines, 2 sessions"),
        ("not compared", None, "not compared"),
    ],
)
def test_a_ratio_across_machines_or_sessions_says_so(words: str, setting: str | None, told: str) -> None:
    assert with_setting(words, pd.Series({"setting": setting})) == told

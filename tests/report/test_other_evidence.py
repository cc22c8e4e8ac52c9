"""The audit on the page."""

from pathlib import Path

import pandas as pd
import pytest
import synthetic

from whichdevice.config.model import Device, Measure, Workload
from whichdevice.report.contents import audit_section
from whichdevice.results import StudyResults

PUBLISHED = Path(__file__).parents[2] / "config" / "published.csv"


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> StudyResults:
    """A CPU that ran one of the published workloads and a matrix product."""
    folder = tmp_path_factory.mktemp("study")
    small = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")}, measure=Measure(repeats=2),
        workloads={"mnist_cnn": Workload(batch_size=[256]), "matmul": Workload(batch_size=[512])},
    )  # fmt: skip
    config, paths = synthetic.write_study(small, folder, artefacts=False)
    return synthetic.Results(config, paths)


def test_every_claim_has_a_row_and_the_impossible_ones_lead(study: StudyResults) -> None:
    rows = audit_section(study)["rows"]
    assert len(rows) == len(pd.read_csv(PUBLISHED))
    assert [row["impossible"] for row in rows].index(False) == 3


def test_the_sentence_counts_what_the_table_holds(study: StudyResults) -> None:
    table, section = study.audit, audit_section(study)
    speeds = table[table["possible"] != "no speed"]
    assert f"Of {len(speeds)} published speeds 3 are beyond the peak" in section["summary"]
    assert f"{(speeds['possible'] == 'possible').sum()} are possible" in section["summary"]
    assert f"{table['measured'].notna().sum()} of all {len(table)} figures" in section["summary"]
    assert "matmul: throughput on Colab GPU (K80): 15.7 TFLOP/s is 1.91 times the peak of 2 × K80" in " ".join(
        section["impossible"]
    )


def test_a_claim_shows_what_its_recipe_gives_here_or_why_not(study: StudyResults) -> None:
    rows = audit_section(study)["rows"]
    measured = next(row for row in rows if row["what"] == "mnist_cnn b256: step time")
    assert measured["measured"].endswith("µs per example")
    assert measured["interval"].startswith("[") and "n = 2" in measured["where"]
    assert "float32, loop epoch, " in measured["where"]  # the publication is taken for fit
    product = next(row for row in rows if "matmul" in row["what"] and row["measured"])
    assert "loop" not in product["where"]
    assert (
        next(row for row in rows if "weather_gru" in row["what"])["here"] == "not measured here: no run of weather_gru"
    )

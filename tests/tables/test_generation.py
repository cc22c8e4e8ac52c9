"""Generated tokens in table `summary` and in the report: prompts and single tokens, each with its time."""

import pytest
import synthetic

from whichdevice.study.config.model import Device, Workload
from whichdevice.study.report.cells import cell_table
from whichdevice.study.results import StudyResults
from whichdevice.study.tables.make import write_tables

SEQUENCES = {"module": "shakespeare_lstm", "sequence_length": [100]}
GENERATE = Workload(mode="generate", batch_size=[1, 32], backend="jax", **SEQUENCES)


@pytest.fixture(scope="module")
def study(tmp_path_factory, project_root) -> StudyResults:
    """A CPU that trains a model and generates with it."""
    folder = tmp_path_factory.mktemp("generated")
    made = synthetic.small_study(
        devices={"cpu": Device(kind="cpu")},
        workloads={"shakespeare_lstm": Workload(batch_size=[32], sequence_length=[100]), "generated": GENERATE},
    )
    config, records = synthetic.write_study(made, folder, artefacts=False)
    write_tables(config, records, project_root / "config" / "published.csv", folder / "tables")
    return StudyResults(config, folder / "tables")


def test_the_report_shows_prompts_and_tokens(study):
    rows = [row for row in cell_table(study)["rows"] if row.get("prefill_time") is not None]
    assert [row["batch_size"].text for row in rows] == ["1", "32"]
    assert all(row["prefill_time"].value.value != row["step_time"].value.value for row in rows)

"""Generated tokens in table `summary` and in the report: prompts and single tokens, each with its time."""

from pathlib import Path

import pytest
import synthetic

from whichdevice.config.model import Device, Workload
from whichdevice.records.store import edited, read_record
from whichdevice.report.cells import cell_table
from whichdevice.results import StudyResults
from whichdevice.tables.make import write_tables

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


def test_a_time_of_the_prompts_that_its_windows_do_not_give_is_an_edited_record(study):
    path = study.runs.loc[study.runs["workload"] == "generated", "record"].iloc[0]
    record = read_record(Path(path))
    assert edited(record) is None
    faster = record.generated.prefill.model_copy(update={"step_time": record.generated.prefill.step_time / 2})
    changed = record.model_copy(update={"generated": record.generated.model_copy(update={"prefill": faster})})
    assert (edited(changed) or "").startswith("prefill.step_time is ")

"""Generated pages equal the code, and the project's address is in one place."""

import json
from pathlib import Path
from types import ModuleType

import pandas as pd
import pytest
import synthetic
from pandas.testing import assert_frame_equal

from whichdevice.base.sheets.hardware import HARDWARE
from whichdevice.measure.record import Record
from whichdevice.study.config.model import Measure, Workload
from whichdevice.study.tables.base import read_table
from whichdevice.study.tables.make import TABLES, write_tables


def test_what_is_generated_is_what_is_committed(generate: ModuleType) -> None:
    stale = [path.name for path, text in generate.generated().items() if path.read_text(encoding="utf-8") != text]
    assert stale == [], "run `python docs/generate.py`"


def test_the_address_is_in_one_place(generate: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    address = "https://example.org/someone/whichdevice"
    assert address not in "".join(map(str, generate.generated().values()))
    monkeypatch.setattr(generate, "ADDRESS", address)
    found = {path.name: text for path, text in generate.generated().items()}
    assert f"$ git clone {address} whichdevice" in found["install.md"]
    assert f'repository-code: "{address}"' in found["CITATION.cff"]
    first = next(cell for cell in json.loads(found["colab.ipynb"])["cells"] if cell["cell_type"] == "code")
    assert f'ADDRESS = "{address}"' in "".join(first["source"])


def test_claims_of_the_page_are_those_of_the_table_and_its_accuracies_of_real_data(scorecard: ModuleType) -> None:
    parts = scorecard.results_parts()
    lines = parts["claims"].split("\n\n")[0].splitlines()[2:]
    timed = [row for row in scorecard.published() if row["published_device"]]
    assert len(lines) == len(timed) > 20
    assert sum("–" in line for line in lines) == sum(not row["ours"] for row in timed)
    assert "stand-in" not in parts["reproduced"]


def test_kept_records_are_read_by_today_s_code(records: ModuleType) -> None:
    """Without forecasts the CPU was the only choice for five trainings."""
    kept = pd.read_parquet(records.FILE)
    for row in kept[kept["path"] != "config.yaml"].itertuples():
        assert Record.model_validate_json(row.text).status, row.path
    answers = pd.read_csv(records.FOLDER / "tables/quick/answers.csv")
    assert not answers["fastest"].str.startswith("cpu").any()


@pytest.mark.slow
def test_packed_records_make_the_same_tables_again(records: ModuleType, tmp_path: Path) -> None:
    study = synthetic.small_study(workloads={"mnist_cnn": Workload(batch_size=[64])}, measure=Measure(repeats=2))
    config, paths = synthetic.write_study(study, tmp_path / "kept", artefacts=False)
    write_tables(config, paths, HARDWARE.with_name("published.csv"), tmp_path / "first")
    first = read_table(tmp_path / "first/summary.csv", TABLES["summary"])
    file = tmp_path / "records.parquet"
    records.pack(config.parent, file)
    records.pack(config.parent, file)  # replaces the study, and doubles nothing
    assert_frame_equal(records.tables(file, tmp_path / "again"), first)
    assert "mnist_cnn" in (tmp_path / "again/kept/answers.csv").read_text(encoding="utf-8")


@pytest.mark.slow
def test_operations_of_the_workload_pages_are_those_that_jax_counts(generate: ModuleType) -> None:
    committed = generate.COSTS.read_text(encoding="utf-8").splitlines()
    assert generate.workload_costs(["mnist_official"]).splitlines()[-1] in committed


@pytest.mark.long
def test_operations_of_every_workload_page_are_those_that_jax_counts(generate: ModuleType) -> None:
    assert generate.counted_costs() == generate.COSTS.read_text(encoding="utf-8")

"""Models learn on the real data, where it is available."""

import json
from pathlib import Path

import numpy as np
import pytest

from whichdevice.config.load import write_study
from whichdevice.config.model import Study
from whichdevice.datasets.prepare import prepare_dataset
from whichdevice.measuring.measure import measure
from whichdevice.measuring.request import dataset_folder, planned_record
from whichdevice.records.schema import Record
from whichdevice.study_cells import study_runs

pytestmark = pytest.mark.slow


@pytest.fixture
def learned(real_data: Path, working_folder: Path):
    """Measure one run of a workload on the original files of its dataset; the record and its folder."""

    def run(dataset: str, workload: str, **settings) -> tuple[Record, Path]:
        if not (real_data / dataset).is_dir():
            pytest.skip(f"the original {dataset} is not in {real_data}")
        study = Study(
            study="real",
            devices={"cpu": {"kind": "cpu"}},
            data={"source": "files", "dir": str(real_data), "sources": {dataset: "files"}},
            measure={"seconds": 0.1, "min_steps": 1, "repeats": 1, "timeout": 300},
            train={"epochs": 1, "seconds": None},
            workloads={workload: settings},
        )
        prepare_dataset(dataset, "files", str(real_data), 1, dataset_folder(study, dataset))
        config = Path(study.root, "config.yaml")
        write_study(study, config)
        (only,) = study_runs(study)
        path = Path(planned_record(study, only))
        record = measure(config, path, Path("run.log"))
        assert record.status == "ok", f"{record.reason}\n{Path('run.log').read_text(encoding='utf-8')}"
        return record, path.parent

    return run


def test_a_small_model_learns_from_the_real_images(learned):
    record, folder = learned("mnist", "mnist_cnn", batch_size=[128], fraction=[0.1])
    assert record.data.source == "files"
    assert record.results["validation_accuracy"] > 0.6
    kept = np.load(folder / record.artefacts["predictions"].file)
    assert len(kept["labels"]) == 10_000
    right = (kept["predicted"] == kept["labels"]).sum()
    assert record.results["validation_accuracy"] == pytest.approx(right / 10_000, abs=5e-5)
    assert record.results["misclassified"] == 10_000 - right


@pytest.mark.long
def test_the_text_model_learns_from_the_real_text(learned):
    """From the 5.5 of one in 256 characters towards English."""
    record, folder = learned(
        "tiny_shakespeare", "shakespeare_lstm", batch_size=[32], sequence_length=[50], epochs=2, steps_per_epoch=15
    )
    first, last = record.epochs
    assert last.loss < first.loss
    assert last.loss < 3.7 < np.log(256)
    assert last.validation_loss < 3.7  # the frequencies of single characters alone give 3.3
    samples = json.loads((folder / record.artefacts["samples"].file).read_text(encoding="utf-8"))
    assert [sample["epoch"] for sample in samples] == [1, 2]
    assert {len(text) for sample in samples for text in sample["texts"]} == {250}

"""One study that has a bit of everything makes the same tables as before, number by number.

After a change that is meant to change a table: python tests/tables/test_golden.py, and read the difference.
"""

import sys
from pathlib import Path

import pandas as pd
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # as a script
import synthetic

from whichdevice.measure.record import Record
from whichdevice.study.cells import Run
from whichdevice.study.config.model import Device, Measure, Study, Train, Workload
from whichdevice.study.tables.base import read_table, write_table
from whichdevice.study.tables.make import TABLES

GOLDEN = Path(__file__).parent / "golden"
NAMES = ("summary", "limits", "roofline", "comparisons", "costs")
# Of the machine, the software, and what the code of today says beside the numbers.
LEFT_OUT = {"module"}


def study() -> Study:
    """Three devices; training, predictions, generated tokens, operations."""
    here: list = ["cpu", "gpu"]
    workloads = {
        "mnist_cnn": Workload(batch_size=[64, 256, 1024], backend=["tensorflow", "jax"]),
        "matmul": Workload(batch_size=[512, 2048], backend=["tensorflow", "jax"], device=here),
        "memory_stream": Workload(batch_size=[256], device=here),
        "halves": Workload(module="mnist_cnn", batch_size=[256], precision=["float32", "mixed_bfloat16"]),
        "predicted": Workload(module="mnist_cnn", mode="predict", batch_size=[1, 1024], device=here),
        "spoken": Workload(module="shakespeare_lstm", mode="generate", batch_size=[1, 32], sequence_length=[100]),
    }
    return synthetic.small_study(
        devices={
            "cpu": Device(kind="cpu", usd_per_hour=0.1),
            "gpu": Device(kind="gpu", usd_per_hour=1.0),
            "gpu2": Device(kind="gpu", replicas=2, usd_per_hour=2.0),
        },
        workloads=workloads,
        measure=Measure(repeats=3),
        train=Train(epochs=3, repeats=2),
    )


def change(run: Run, record: Record) -> Record | None:
    """Some runs fail, run out of time, diverge, are disturbed or were never measured."""
    place = (run.cell.device, run.cell.workload, run.cell.batch_size, run.cell.backend, run.repeat)
    if place == ("gpu", "mnist_cnn", 1024, "jax", 1):
        return synthetic.failed_record(synthetic_study, run)
    if place == ("cpu", "mnist_cnn", 256, "tensorflow", 2):
        return record.model_copy(update={"status": "timed_out", "reason": "learning took too long"})
    if place == ("cpu", "mnist_cnn", 1024, "tensorflow", 2):
        nothing = dict.fromkeys(("loss", "validation_loss"))
        record.epochs[-1] = record.epochs[-1].model_copy(update=nothing)
        record.results |= nothing
    if place == ("gpu", "mnist_cnn", 64, "tensorflow", 3):
        record.noise.disturbed = True
    return None if place == ("gpu2", "mnist_cnn", 256, "tensorflow", 3) else record


synthetic_study = study()


def made(folder: Path) -> dict[str, pd.DataFrame]:
    """The tables by name."""
    found = synthetic.results(synthetic_study, folder, change=change)
    return {name: getattr(found, name).drop(columns=LEFT_OUT, errors="ignore") for name in NAMES}


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, pd.DataFrame]:
    return made(tmp_path_factory.mktemp("golden"))


@pytest.mark.parametrize("name", NAMES)
def test_a_table_is_as_before(name: str, tables: dict[str, pd.DataFrame]) -> None:
    columns = {column: about for column, about in TABLES[name].items() if column not in LEFT_OUT}
    before = read_table(GOLDEN / f"{name}.csv", columns)
    assert len(before)
    pd.testing.assert_frame_equal(tables[name], before, rtol=1e-4, atol=1e-12)


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        for name, frame in made(Path(scratch)).items():
            write_table(frame, GOLDEN / f"{name}.csv")

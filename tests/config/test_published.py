"""The published study is each publication's recipe."""

from whichdevice.base.files import CONFIG
from whichdevice.models.loading import Model
from whichdevice.study.cells import study_runs
from whichdevice.study.config.load import read_study


def test_batch_and_sequence_are_those_of_the_workloads_own_recipes() -> None:
    several = (
        "matmul", "memory_stream", "mnist_cnn", "fashion_cnn_lee", "mnist_cnn_predict",
    )  # published at several sizes  # fmt: skip
    study = read_study(CONFIG / "published.yaml")
    for cell in {run.cell for run in study_runs(study) if run.cell.workload not in several}:
        recipe = Model.read(study.workloads[cell.workload].module or cell.workload).recipe
        assert (cell.batch_size, cell.sequence_length) == (recipe.batch_size, recipe.sequence_length), cell.name

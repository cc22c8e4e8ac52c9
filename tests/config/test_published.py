"""The published study is each publication's recipe."""

from whichdevice.config.schema import published
from whichdevice.models.loading import workload_class
from whichdevice.study_cells import study_runs


def test_entries_of_one_module_share_no_settings() -> None:
    fashion = [published().workloads[name] for name in ("fashion_cnn_2018", "fashion_cnn_lee")]
    assert [(w.batch_size, w.epochs, w.steps_per_epoch) for w in fashion] == [([1024], 10, 100), ([512], 20, None)]
    weather = [published().workloads[name] for name in ("weather_gru_tpu", "weather_gru_tutorial")]
    assert [(w.epochs, w.steps_per_epoch, w.validation) for w in weather] == [(10, 10, False), (20, 100, True)]


def test_batch_and_sequence_are_those_of_the_workloads_own_recipes() -> None:
    several = (
        "matmul",
        "memory_stream",
        "mnist_cnn",
        "fashion_cnn_lee",
        "mnist_cnn_predict",
    )  # published at several sizes
    study = published()
    for cell in {run.cell for run in study_runs(study) if run.cell.workload not in several}:
        recipe = workload_class(study.workloads[cell.workload].module or cell.workload).recipe
        assert (cell.batch_size, cell.sequence_length) == (recipe.batch_size, recipe.sequence_length), cell.name


def test_every_repeat_is_a_process_and_three_learn_to_the_end() -> None:
    study = published()
    assert (study.measure.repeats, study.train.repeats, study.train.epochs, study.train.seconds) == (10, 3, None, None)
    assert all(
        workload.epochs
        for name, workload in study.workloads.items()
        if name not in ("matmul", "memory_stream", "mnist_cnn_loops", "mnist_cnn_predict")
    )

"""A request holds what can change a run's numbers, and nothing else."""

from whichdevice.cells import Cell, Run
from whichdevice.config.model import Study, Train, Workload
from whichdevice.measuring.request import build_request
from whichdevice.study_cells import study_runs


def study(**changes) -> Study:
    return Study(**{"workloads": {"mnist_cnn": Workload(batch_size=[256, 512])}, **changes})


def cpu_run(repeat: int = 1, **axes) -> Run:
    return Run(Cell("cpu", "mnist_cnn", "tensorflow", "float32", 256, **axes), repeat)


def test_all_first_repeats_come_before_all_second_ones():
    repeats = [run.repeat for run in study_runs(study())]
    assert repeats == sorted(repeats)
    assert len(repeats) == 3 * 2 * 3  # devices, batch sizes, repeats


def test_an_added_batch_size_changes_no_other_request():
    more = study(workloads={"mnist_cnn": Workload(batch_size=[256, 512, 1024])})
    assert build_request(study(), cpu_run()) == build_request(more, cpu_run())


def test_only_the_first_repeats_learn_and_the_others_do_not_depend_on_epochs():
    short, long = study(train=Train(epochs=2)), study(train=Train(epochs=9))
    assert build_request(long, cpu_run(1)).epochs == 9
    assert build_request(short, cpu_run(2)) == build_request(long, cpu_run(2))


def test_recipes_fill_what_the_config_leaves_open():
    request = build_request(
        Study(workloads={"weather_gru": Workload()}, train=Train(epochs=None)),
        Run(Cell("cpu", "weather_gru", "tensorflow", "float32", 256), 1),
    )
    assert (request.epochs, request.steps_per_epoch, request.dataset) == (20, 100, "weather_denmark")


def test_predicting_learns_nothing_and_a_single_operation_has_no_mode():
    workloads = {
        "trained": Workload(module="mnist_cnn", batch_size=[1]),
        "predicted": Workload(module="mnist_cnn", batch_size=[1], mode="predict"),
        "matmul": Workload(batch_size=[1]),
    }
    study = Study(workloads=workloads, measure={"breakdown": True})
    asked = {name: build_request(study, Run(Cell("cpu", name, "tensorflow", "float32", 1), 1)) for name in workloads}
    assert {name: request.mode for name, request in asked.items()} == {
        "trained": "train",
        "predicted": "predict",
        "matmul": None,
    }
    assert (asked["trained"].learn, asked["trained"].breakdown) == (True, True)
    assert (asked["predicted"].learn, asked["predicted"].epochs, asked["predicted"].breakdown) == (False, 0, False)
    assert asked["predicted"].dataset == "mnist"

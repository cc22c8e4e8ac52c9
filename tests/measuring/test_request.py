"""A request holds what can change a run's numbers, and nothing else."""

from whichdevice.study.cells import Cell, Run
from whichdevice.study.config.model import Study, Train, Workload
from whichdevice.study.request import build_request


def study(**changes) -> Study:
    return Study(**{"workloads": {"mnist_cnn": Workload(batch_size=[256, 512])}, **changes})


def cpu_run(repeat: int = 1, **axes) -> Run:
    return Run(Cell("cpu", "mnist_cnn", "tensorflow", "float32", 256, **axes), repeat)


def test_an_added_batch_size_changes_no_other_request():
    more = study(workloads={"mnist_cnn": Workload(batch_size=[256, 512, 1024])})
    assert build_request(study(), cpu_run()) == build_request(more, cpu_run())


def test_only_the_first_repeats_learn_and_the_others_do_not_depend_on_epochs():
    short, long = study(train=Train(epochs=2)), study(train=Train(epochs=9))
    assert build_request(long, cpu_run(1)).epochs == 9
    assert build_request(short, cpu_run(2)) == build_request(long, cpu_run(2))


def test_predicting_learns_nothing_and_a_single_operation_has_no_mode():
    workloads = {
        "trained": Workload(module="mnist_cnn", batch_size=[1]),
        "predicted": Workload(module="mnist_cnn", batch_size=[1], mode="predict"),
        "matmul": Workload(batch_size=[1]),
    }
    study = Study(workloads=workloads)
    asked = {name: build_request(study, Run(Cell("cpu", name, "tensorflow", "float32", 1), 1)) for name in workloads}
    assert {name: request.mode for name, request in asked.items()} == {
        "trained": "train",
        "predicted": "predict",
        "matmul": None,
    }
    assert asked["trained"].learn
    assert (asked["predicted"].learn, asked["predicted"].epochs) == (False, 0)
    assert asked["predicted"].dataset == "mnist"

"""Each device's fastest settings, compared by the one rule."""

import pandas as pd
import pytest
import synthetic

from whichdevice.cells import Run
from whichdevice.config.model import Measure, Study, Workload
from whichdevice.tables.cost_choices import MORE
from whichdevice.tables.crossover import OWN_BEST, crossover_table
from whichdevice.tables.fastest import fastest_table
from whichdevice.tables.saturation import saturation_table
from whichdevice.tables.speedups import speedup_table
from whichdevice.tables.statistics import SAME, UNDECIDED

JITTER = {1: 0.99, 2: 1.0, 3: 1.01, 4: 1.0}


def found(speeds: dict[tuple[str, int], float], repeats: int = 4) -> pd.DataFrame:
    """Table `fastest` where each device and batch size has this throughput; the gpu's repeats differ by a per cent."""
    study: Study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256, 1024])}, measure=Measure(repeats=repeats)
    )
    runs = synthetic.runs_table(
        study,
        lambda run: (
            speeds[run.cell.device, run.cell.batch_size] * (JITTER[run.repeat] if run.cell.device == "gpu" else 1)
        ),
    )
    return fastest_table(runs).set_index("device")


def test_of_each_device_its_fastest_settings_are_compared_with_the_fastest_device() -> None:
    table = found({("cpu", 256): 90.0, ("cpu", 1024): 80.0, ("gpu", 256): 100.0, ("gpu", 1024): 900.0})
    assert table["batch_size"].to_dict() == {"cpu": 256, "gpu": 1024}
    assert set(table["lowest"]) == {"gpu"}
    assert table.loc["cpu", "ratio"] == pytest.approx(10, rel=0.01) and table.loc["cpu", "verdict"] == MORE
    assert table.loc["gpu", "value"] == pytest.approx(1e6 / 900, rel=0.01)


def test_equal_devices_are_the_same_and_one_repeat_decides_nothing() -> None:
    speeds = dict.fromkeys([("cpu", 256), ("cpu", 1024), ("gpu", 256), ("gpu", 1024)], 100.0)
    assert SAME in set(found(speeds)["verdict"].dropna())
    assert set(found(speeds, repeats=1)["verdict"].dropna()) == {UNDECIDED}


def test_devices_are_compared_on_the_largest_share_of_the_data_that_most_of_them_measured() -> None:
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256], fraction=[0.1, 0.25, 0.5])}, measure=Measure(repeats=3)
    )

    def speed(run: Run) -> float | None:
        failed = run.cell.device == "cpu" and run.cell.fraction == 0.5
        return None if failed else {"cpu": 100.0, "gpu": 900.0}[run.cell.device]

    table = fastest_table(synthetic.runs_table(study, speed)).set_index("device")
    assert table["fraction"].to_dict() == {"cpu": 0.25, "gpu": 0.25}
    assert table.loc["cpu", "ratio"] == pytest.approx(9)


def test_two_models_of_one_name_are_never_compared() -> None:
    study = synthetic.small_study(workloads={"mnist_cnn": Workload(batch_size=[256])}, measure=Measure(repeats=4))
    runs = synthetic.runs_table(study, lambda run: {"cpu": 100.0, "gpu": 900.0}[run.cell.device])
    for alike, other in (
        (True, runs),
        (False, runs.assign(parameters=runs["parameters"].where(runs["kind"] == "cpu", 7))),
    ):
        assert fastest_table(other)["ratio"].notna().any() == alike
        assert (len(speedup_table(other, study)) > 0) == alike
        pairs = crossover_table(other, study)
        assert (len(pairs) > 0) == alike and set(pairs["model"]) <= set(fastest_table(other)["model"])


def test_settings_whose_other_repeats_failed_are_chosen_by_no_table() -> None:
    """One quick repeat of three is no best: it may be lucky, and one pair decides nothing."""
    study = synthetic.small_study(
        workloads={"mnist_cnn": Workload(batch_size=[256, 1024], backend=["jax", "torch"])}, measure=Measure(repeats=3)
    )

    def speed(run: Run) -> float | None:
        quick = run.cell.device == "gpu" and (run.cell.batch_size == 1024 or run.cell.backend == "torch")
        ran_out = quick and run.repeat > 1
        return None if ran_out else {"cpu": 1.0, "gpu": 42.0 if quick else 40.0}[run.cell.device] * JITTER[run.repeat]

    runs = synthetic.runs_table(study, speed)
    table = fastest_table(runs).set_index("device")
    assert (table.loc["gpu", "backend"], table.loc["gpu", "batch_size"], table.loc["gpu", "n_value"]) == ("jax", 256, 3)
    assert (table.loc["cpu", "verdict"], table.loc["cpu", "n"]) == (MORE, 3)
    pairs = crossover_table(runs, study)
    assert pairs.loc[pairs["comparison"] == OWN_BEST, "second_means"].tolist() == ["jax epoch"]
    gpu = runs[(runs["device"] == "gpu") & (runs["backend"] == "jax")]
    assert saturation_table(gpu).empty  # one size is left to judge

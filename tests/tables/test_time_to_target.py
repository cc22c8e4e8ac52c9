"""Targets, and what it takes to reach them."""

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
import synthetic
from synthetic_energy import metered

from whichdevice.base.sheets.hardware import hardware_rows
from whichdevice.measure.record import Cold, Epoch, Record
from whichdevice.study.config.model import Device, Measure, Study, Train, Workload
from whichdevice.study.tables.base import table
from whichdevice.study.tables.make import TABLES
from whichdevice.study.tables.runs import configured_runs, epoch_rows
from whichdevice.study.tables.time_to_target import Goal, goal_of, recipe_target, time_to_target_table


def study_of(name: str, **keys: object) -> Study:
    return synthetic.small_study(workloads={name: Workload(**keys)})


KIZRAK = "published: Kizrak, 2019: 168 of 10,000 wrong after 10 epochs, 0.9832"
CHOSEN = "chosen for stand-in data; nobody published it"
OWN = "config: workloads.mnist_cnn.target"


@pytest.mark.parametrize(
    ("name", "target", "source", "metric", "validated", "goal"),
    [
        ("mnist_cnn", 0.5, "files", "accuracy", True, Goal(0.5, "validation_metric", True, OWN)),
        ("mnist_cnn", 0.5, "standin", "accuracy", True, Goal(0.5, "validation_metric", True, OWN)),
        ("mnist_cnn", 0.5, "files", "accuracy", False, Goal(0.5, "metric", True, OWN)),
        ("mnist_cnn", None, "files", "accuracy", True, Goal(0.98, "validation_metric", True, KIZRAK)),
        ("mnist_cnn", None, "standin", "accuracy", True, Goal(0.95, "validation_metric", True, CHOSEN)),
        ("shakespeare_lstm", None, "standin", "accuracy", False, (None, "no target on stand-in data: set ")),
        ("shakespeare_lstm", None, "files", "accuracy", True, (0.64, "published: ")),
        ("weather_gru", None, "files", None, False, (None, "no target: the published one is of validation data; ")),
        ("weather_gru", None, "files", None, True, (0.0023, "published: ")),
    ],
)
def test_the_goal_is_the_configs_else_the_recipes_for_these_data(name, target, source, metric, validated, goal) -> None:
    found = goal_of(study_of(name, target=target), name, source, metric, True, validated)
    if isinstance(goal, Goal):
        assert found == goal
    else:
        assert found.value == goal[0] and found.source.startswith(goal[1])
    trained = {"shakespeare_lstm": "metric", "weather_gru": "validation_loss"}  # published of training data; a loss
    assert found.value is None or found.quantity == trained.get(name, found.quantity)
    assert found.higher_is_better == (metric is not None)


def test_a_variant_takes_the_recipe_of_its_file_and_a_lost_file_has_none() -> None:
    study = study_of("small", module="mnist_cnn")
    assert recipe_target(study, "small") == recipe_target(study_of("mnist_cnn"), "mnist_cnn")
    goal = goal_of(study_of("mnist_cnn"), "gone", "files", None, True, True)
    assert goal.source == "no target: set workloads.gone.target"


COLD = Cold(start=4.0, initialise=0.5, load=0.25, build=0.25, first_step=5.0)


def study_of_time_to_target(**keys: object) -> Study:
    return synthetic.small_study(
        devices={"cpu": Device(kind="cpu", usd_per_hour=3600.0)},  # a dollar a second
        workloads={"mnist_cnn": Workload(**{"batch_size": [256], "target": 0.9, **keys})},
        measure=Measure(repeats=3),
        train=Train(epochs=4, repeats=3),
    )


def row_of(
    study: Study, curves: list[list[float]], change: Callable[[Record], Record] = lambda record: record
) -> pd.Series:
    """The only row, where each repeat's epochs of 10 s and 1 s of validation had these validation accuracies."""
    runs, epochs = [], []
    for run, curve in zip(configured_runs(study), curves, strict=True):
        record = synthetic.record_of(study, run)
        record.asked.seed, record.cold = run.repeat, COLD
        record.epochs = [
            Epoch(epoch=number, seconds=10.0, validation_seconds=1.0, loss=1.0, metric=quality - 0.1,
                  validation_loss=1.0 - quality, validation_metric=quality)
            for number, quality in enumerate(curve, 1)
        ]  # fmt: skip
        record = change(metered(record, watts=50.0))
        runs.append(synthetic.runs_row(record))
        epochs += epoch_rows(record)
    found = time_to_target_table(table(runs, TABLES["runs"]), table(epochs, TABLES["epochs"]), study, hardware_rows())
    assert len(found) == 1
    return found.iloc[0]


def test_a_run_that_never_gets_there_takes_the_mean_away_and_counts_as_infinite_in_the_median() -> None:
    row = row_of(study_of_time_to_target(), [[0.9, 1, 1, 1], [0.5, 0.5, 0.9, 1], [0.5, 0.5, 0.5, 0.5]])
    assert (row["n_reached"], row["n"]) == (2, 3)
    for name in ("epochs", "seconds", "seconds_from_start", "joules", "usd"):
        assert pd.isna(row[name]) and pd.isna(row[f"{name}_low"])
        assert np.isfinite(row[f"{name}_median"])
    assert row["epochs_median"] == 3


def test_without_a_target_the_row_says_why_and_holds_no_times() -> None:
    study = study_of_time_to_target(target=None)
    study.workloads = {"shakespeare_lstm": Workload(batch_size=[256])}
    row = row_of(study, [[0.5, 0.9, 0.95, 1]] * 3)
    assert row["target_source"] == "no target on stand-in data: set workloads.shakespeare_lstm.target"
    assert pd.isna(row["n_reached"]) and pd.isna(row["epochs_median"])
    assert row["best"] == pytest.approx(0.9)  # of training, which is what was published


def test_a_loss_has_to_fall() -> None:
    def without_metric(record: Record) -> Record:
        assert record.workload is not None
        record.workload.metric = None
        return record

    row = row_of(study_of_time_to_target(target=0.2), [[0.5, 0.7, 0.8, 0.9]] * 3, without_metric)
    assert (row["quantity"], row["better"], row["epochs"]) == ("validation_loss", "lower", pytest.approx(3))
    assert row["best"] == pytest.approx(0.1)


def test_a_run_that_never_got_there_is_never_though_its_start_was_not_timed() -> None:
    def untimed(record: Record) -> Record:
        record.cold = record.cold.model_copy(update={"load": None})
        return record

    row = row_of(study_of_time_to_target(), [[0.5] * 4] * 3, untimed)
    assert np.isinf(row["seconds_from_start_median"]) and np.isinf(row["usd_median"])

"""Which quality has to be reached, and who says so."""

import pytest
import synthetic

from whichdevice.config.model import Study, Workload
from whichdevice.tables.time_to_target import Goal, goal_of, recipe_target
from whichdevice.workloads import workload_names


def study_of(name: str, **keys: object) -> Study:
    return synthetic.small_study(workloads={name: Workload(**keys)})


def test_the_config_wins_on_any_data() -> None:
    study = study_of("mnist_cnn", target=0.5)
    place = "config: workloads.mnist_cnn.target"
    for source in ("files", "standin"):
        assert goal_of(study, "mnist_cnn", source, "accuracy", True, True) == Goal(
            0.5, "validation_metric", True, place
        )
    assert goal_of(study, "mnist_cnn", "files", "accuracy", True, False).quantity == "metric"


def test_a_recipe_counts_on_real_data_with_its_source() -> None:
    goal = goal_of(study_of("mnist_cnn"), "mnist_cnn", "files", "accuracy", True, True)
    assert (goal.value, goal.quantity, goal.higher_is_better) == (0.98, "validation_metric", True)
    assert goal.source == "published: Kizrak, 2019: 168 of 10,000 wrong after 10 epochs, .9832"


def test_standins_have_a_target_of_their_own_or_none() -> None:
    goal = goal_of(study_of("mnist_cnn"), "mnist_cnn", "standin", "accuracy", True, True)
    assert (goal.value, goal.source) == (0.95, "chosen for stand-in data; nobody published it")
    goal = goal_of(study_of("shakespeare_lstm"), "shakespeare_lstm", "standin", "accuracy", True, False)
    assert (goal.value, goal.source) == (None, "no target on stand-in data: set workloads.shakespeare_lstm.target")


def test_a_published_validation_quality_is_not_asked_of_training_data() -> None:
    goal = goal_of(study_of("weather_gru"), "weather_gru", "files", None, False, False)
    assert goal.value is None and "validation data" in goal.source


def test_a_published_training_quality_is_asked_of_training_data_alone() -> None:
    goal = goal_of(study_of("shakespeare_lstm"), "shakespeare_lstm", "files", "accuracy", True, True)
    assert (goal.value, goal.quantity) == (0.64, "metric")


def test_a_loss_is_better_lower() -> None:
    goal = goal_of(study_of("weather_gru"), "weather_gru", "files", None, True, True)
    assert (goal.quantity, goal.higher_is_better) == ("validation_loss", False)


def test_a_variant_takes_the_recipe_of_its_file_and_a_lost_file_has_none() -> None:
    study = study_of("small", module="mnist_cnn")
    assert recipe_target(study, "small") == recipe_target(study_of("mnist_cnn"), "mnist_cnn")
    goal = goal_of(study_of("mnist_cnn"), "gone", "files", None, True, True)
    assert goal.source == "no target: set workloads.gone.target"


@pytest.mark.parametrize("name", workload_names())
def test_every_target_says_who_reached_it(name: str) -> None:
    target = recipe_target(study_of(name), name)
    assert target is None or (target.value > 0 and target.source)

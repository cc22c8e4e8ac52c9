"""What trained models show for themselves: written text, a weather forecast, every test image judged."""

import numpy as np
import pytest

from whichdevice.models.loading import workload_class
from whichdevice.workloads.base import Options, Split
from whichdevice.workloads.shakespeare_lstm import SAMPLE_PROMPT

pytestmark = pytest.mark.slow

AHEAD = 24  # hours


@pytest.fixture(scope="module")
def author():
    """A text model with sharp opinions, the copies that it writes with, and what it wrote."""
    import keras

    keras.utils.set_random_seed(3)
    workload = workload_class("shakespeare_lstm")(Options(4, sequence_length=20))
    model = workload.model()
    model.set_weights([weights * 3 for weights in model.get_weights()])
    writer = workload.writer()
    predict, workload.answers = writer.predict_on_batch, []

    def spied(inputs):
        workload.answers.append((np.array(inputs[0]), [np.asarray(part) for part in predict(inputs)]))
        return workload.answers[-1][1]

    writer.predict_on_batch = spied
    workload.writer = lambda: writer
    workload.texts = workload.sample(model)
    return workload, model


def test_five_texts_of_250_characters_are_written(author):
    workload, _ = author
    assert [len(text) for text in workload.texts] == [250] * 5
    assert len(set(workload.texts)) == 5


def test_they_are_written_with_the_same_weights(author):
    workload, model = author
    writer = workload.writer()
    assert writer.count_params() == 4_460_800
    for ours, theirs in zip(writer.get_weights(), model.get_weights(), strict=True):
        np.testing.assert_array_equal(ours, theirs)


def test_the_copy_goes_on_from_the_prompt_as_the_trained_model_would(author):
    """Character by character with the states handed on gives what the whole prompt and text at once give.

    With Keras on JAX, as tests have it, stateful layers of Keras 3.15 forget their states between two calls of
    `predict_on_batch`.
    """
    workload, model = author
    prompt = [ord(character) for character in SAMPLE_PROMPT]
    first = workload.answers[len(prompt) - 1][1][0][:, -1]
    read = np.array([prompt + [ord(character) for character in text[:10]] for text in workload.texts], np.int32)
    at_once = model.predict_on_batch(read)
    np.testing.assert_allclose(first, at_once[:, len(prompt) - 1], atol=1e-5)
    tenth = workload.answers[len(prompt) + 9][1][0][:, -1]
    np.testing.assert_allclose(tenth, at_once[:, -1], atol=1e-5)
    assert first.max() > 2 / 256  # or the models would agree on knowing nothing


def test_each_character_is_fed_back(author):
    workload, _ = author
    fed = np.concatenate([inputs for inputs, _ in workload.answers], axis=1)
    for row, text in zip(fed, workload.texts, strict=True):
        assert "".join(map(chr, row)).startswith(SAMPLE_PROMPT + text[:-1])


def test_samples_are_kept_for_each_epoch(author, monkeypatch):
    workload, model = author
    monkeypatch.setattr(workload, "sample", lambda model: ["to be"])
    workload.after_epoch(1, model)
    workload.after_epoch(2, model)
    samples = workload.outcome(lambda index: None, None).documents["samples"]
    assert samples == [{"epoch": 1, "texts": ["to be"]}, {"epoch": 2, "texts": ["to be"]}]


@pytest.fixture
def weather():
    """20,000 hours of signals of physical size, and the workload that has split them."""
    random = np.random.default_rng(0)
    hours = 20_000
    signals = random.normal(10, 8, (hours, 20)).astype(np.float32)
    signals[:, 13] += 1000  # Odense's pressure
    times = 1_000_000_800 // 3600 * 3600 + 3600 * np.arange(hours)
    workload = workload_class("weather_gru")(Options(4, sequence_length=60))
    _, validation = workload.splits({"signals": signals, "times": times})
    return workload, validation, signals, times


def test_a_right_forecast_is_the_weather_itself_in_its_own_units(weather):
    workload, validation, signals, times = weather
    forecast = workload.outcome(lambda index: validation.arrays["targets"], validation).arrays["forecast"]
    np.testing.assert_array_equal(forecast["predicted"], forecast["truth"])
    rows = np.searchsorted(times, forecast["times"])  # each time is the hour that is foretold
    np.testing.assert_array_equal(times[rows], forecast["times"])
    np.testing.assert_allclose(forecast["truth"], signals[rows][:, [12, 14, 13]], rtol=1e-5, atol=1e-3)


def test_a_forecast_is_of_hours_that_no_training_saw(weather):
    workload, validation, _, times = weather
    forecast = workload.outcome(lambda index: validation.arrays["targets"], validation).arrays["forecast"]
    boundary = int(0.9 * (len(times) - AHEAD))
    assert forecast["times"][0] == times[boundary + AHEAD]
    assert (np.diff(forecast["times"]) == 3600).all()


def test_a_wrong_forecast_is_wrong_by_as_much_as_the_scale_says(weather):
    workload, validation, signals, _ = weather
    wrong = validation.arrays["targets"] + 0.1
    forecast = workload.outcome(lambda index: wrong, validation).arrays["forecast"]
    seen = signals[AHEAD : AHEAD + int(0.9 * (len(signals) - AHEAD)), [12, 14, 13]]
    span = seen.max(axis=0) - seen.min(axis=0)
    np.testing.assert_allclose((forecast["predicted"] - forecast["truth"]).mean(axis=0), 0.1 * span, rtol=1e-3)


def test_a_forecast_says_what_it_holds(weather):
    workload, validation, *_ = weather
    forecast = workload.outcome(lambda index: validation.arrays["targets"], validation).arrays["forecast"]
    assert {len(forecast[name]) for name in ("times", "truth", "predicted")} == {1000}
    assert forecast["names"].tolist() == ["odense_temperature", "odense_wind_speed", "odense_pressure"]
    assert forecast["units"].tolist() == ["°C", "m/s", "hPa"]
    assert forecast["warm_up"] == 50
    assert forecast["split"] == "test"


def test_a_short_test_part_is_shown_whole():
    workload = workload_class("weather_gru")(Options(4, sequence_length=60))
    signals = np.random.default_rng(0).normal(size=(1500, 20)).astype(np.float32)
    _, validation = workload.splits({"signals": signals, "times": 3600 * np.arange(1500)})
    forecast = workload.outcome(lambda index: validation.arrays["targets"], validation).arrays["forecast"]
    held_out = 1500 - AHEAD - int(0.9 * (1500 - AHEAD))
    assert {len(forecast[name]) for name in ("times", "truth", "predicted")} == {held_out}


@pytest.mark.parametrize("name", ["mnist_official", "mnist_cnn", "fashion_cnn"])
def test_the_mistakes_that_are_kept_are_those_that_were_counted(name):
    """Near ties, which rounding to half precision would turn: the class kept is the one that was judged."""
    random = np.random.default_rng(0)
    images = 2345  # not a whole number of evaluation batches
    labels = random.integers(0, 10, images).astype(np.uint8)
    probabilities = np.full((images, 10), 0.1, np.float32) + random.normal(0, 1e-6, (images, 10)).astype(np.float32)
    validation = Split({"images": np.zeros((images, 28, 28), np.uint8), "labels": labels}, images)
    outcome = workload_class(name)(Options(16)).outcome(lambda index: probabilities[index], validation)
    kept = outcome.arrays["predictions"]
    wrong = kept["predicted"] != kept["labels"]
    assert outcome.results == {"misclassified": int(wrong.sum()), "test_images": images}
    np.testing.assert_array_equal(kept["predicted"], probabilities.argmax(axis=1))
    np.testing.assert_array_equal(kept["labels"], labels)
    assert (kept["probabilities"].argmax(axis=1) != kept["predicted"]).any()  # the case that this test is about
    assert wrong[kept["gallery_index"]].all()

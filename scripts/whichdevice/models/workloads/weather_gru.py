"""The weather GRU of Hvass-Labs TensorFlow tutorial 23, also run by neomatrix369 on a Cloud TPU."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.base.errors import StudyError
from whichdevice.models.batch_order import BatchOrder, RandomDraws
from whichdevice.models.workloads.base import Arrays, Options, Recipe, Split, TrainingWorkload

GRU_UNITS = 512
WARM_UP = 50  # steps whose error the loss ignores
AHEAD = 24  # hours
TRAINING_SHARE = 0.9
TARGETS = ["odense_temperature", "odense_wind_speed", "odense_pressure"]
DROPPED = ["esbjerg_pressure", "roskilde_pressure"]
SIGNAL_COLUMNS = [
    f"{city}_{signal}"
    for city in ("aalborg", "aarhus", "esbjerg", "odense", "roskilde")
    for signal in ("temperature", "pressure", "wind_speed", "wind_direction")
]


class WeatherGru(TrainingWorkload):
    """Foretell Odense's temperature, wind speed and pressure a day ahead from five cities."""

    recipe = Recipe(
        source="Hvass-Labs TensorFlow-Tutorials #23, 2018–2020; neomatrix369, 2018",
        batch_size=256,
        epochs=20,
        steps_per_epoch=100,
        sequence_length=1344,
    )
    dataset = "weather_denmark"
    unit = "sequence"
    metric = None
    higher_is_better = False

    def __init__(self, options: Options) -> None:
        super().__init__(options)
        if self.sequence_length <= WARM_UP:
            raise StudyError(f"sequence_length {self.sequence_length}: the loss ignores {WARM_UP} steps; take more")
        self._best: Path | None = None

    def model(self) -> Any:
        """821,763 parameters."""
        import keras
        from keras import layers

        return keras.Sequential(
            [
                keras.Input((None, len(SIGNAL_COLUMNS))),
                layers.GRU(GRU_UNITS, return_sequences=True),
                layers.Dense(len(TARGETS), activation="sigmoid", dtype="float32"),
            ],
            name="weather_gru",
        )

    def optimizer(self) -> Any:
        """RMSprop with rate 1e-3."""
        import keras

        return keras.optimizers.RMSprop(1e-3)

    def splits(self, arrays: Mapping[str, np.ndarray]) -> tuple[Split, Split]:
        """The first 90 % trains; scaling is read off the training part alone, as is `fraction`."""
        times = np.asarray(arrays["times"])
        signals = np.asarray(arrays["signals"], dtype=np.float32)
        inputs = _inputs(signals, times)[:-AHEAD]
        targets = signals[AHEAD:, [SIGNAL_COLUMNS.index(name) for name in TARGETS]]
        boundary = int(TRAINING_SHARE * len(inputs))
        inputs = _scaled(inputs, inputs[:boundary])
        scaled = _scaled(targets, targets[:boundary])
        count = max(round(boundary * self.options.fraction), self.sequence_length + 1)
        train = Split({"inputs": inputs[:count], "targets": scaled[:count]}, count - self.sequence_length)
        test = Split({"inputs": inputs[None, boundary:], "targets": scaled[None, boundary:]}, 1, 1)
        return train, test

    def part(self, held_out: Split) -> Split:
        """Return the first hours, of four sequences."""
        first = {name: array[:, : 4 * self.sequence_length] for name, array in held_out.arrays.items()}
        return replace(held_out, arrays=first)

    def order(self, examples: int, seed: int) -> BatchOrder:
        """Windows that start anywhere."""
        return RandomDraws(examples, self.options.batch_size, seed)

    def batch(self, arrays: Arrays, index: Any) -> tuple[Any, Any]:
        """Signals [batch, hours, 20] and targets [batch, hours, 3]; validation is one sequence of all test hours."""
        from keras import ops

        if len(arrays["inputs"].shape) == 3:
            return ops.take(arrays["inputs"], index, axis=0), ops.take(arrays["targets"], index, axis=0)
        window = index[:, None] + ops.arange(self.sequence_length, dtype="int32")[None, :]
        return ops.take(arrays["inputs"], window, axis=0), ops.take(arrays["targets"], window, axis=0)

    def loss(self, target: Any, prediction: Any) -> Any:
        """Mean squared error without the first 50 steps."""
        from keras import ops

        return ops.mean(ops.square(target[:, WARM_UP:] - prediction[:, WARM_UP:]))

    def callbacks(self, folder: Path) -> list[Any]:
        """Stop early, keep the best weights, lower the rate; all three watch the validation loss."""
        from keras import callbacks

        self._best = folder / "best.weights.h5"
        return [
            callbacks.EarlyStopping(monitor="val_loss", patience=5),
            callbacks.ModelCheckpoint(str(self._best), monitor="val_loss", save_weights_only=True, save_best_only=True),
            callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.1, min_lr=1e-4, patience=0),
        ]

    def best_weights(self) -> Path | None:
        """The checkpoint with the lowest validation loss, if any epoch was validated."""
        return self._best if self._best is not None and self._best.exists() else None


def _inputs(signals: np.ndarray, times: np.ndarray) -> np.ndarray:
    """18 signals, day of the year and hour of the day: [hours, 20]."""
    stamps = times.astype("datetime64[s]")
    day = (stamps.astype("datetime64[D]") - stamps.astype("datetime64[Y]")).astype(np.int64) + 1
    hour = (stamps - stamps.astype("datetime64[D]")).astype(np.int64) // 3600
    kept = [place for place, name in enumerate(SIGNAL_COLUMNS) if name not in DROPPED]
    return np.column_stack([signals[:, kept], day, hour]).astype(np.float32)


def _scaled(values: np.ndarray, reference: np.ndarray) -> np.ndarray:
    """Each signal from 0 to 1 over the reference's range; a constant one keeps its unit and becomes 0."""
    low, high = reference.min(axis=0), reference.max(axis=0)
    return ((values - low) / np.where(high > low, high - low, 1).astype(low.dtype)).astype(np.float32)

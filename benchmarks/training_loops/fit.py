"""Keras' own `fit`: as most people write it, and as an expert does."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np


def images(batch: int, steps: int) -> dict[str, np.ndarray]:
    """Random digits: speed does not depend on them."""
    random, count = np.random.default_rng(0), batch * steps
    pixels, labels = random.integers(0, 256, (count, 28, 28), np.uint8), random.integers(0, 10, count, np.uint8)
    return {
        "train_images": pixels,
        "train_labels": labels,
        "test_images": pixels[:10],
        "test_labels": labels[:10],
    }


def epoch_seconds(fit: Callable[..., Any], *arguments: Any, **named: Any) -> float:
    """Seconds of the one epoch that a call of `fit` runs, its losses read.

    The call as a whole may take seconds more: TensorFlow's input pipeline waits for its autotuner when it closes.
    """
    import keras

    clock: list[float] = []
    watch = keras.callbacks.LambdaCallback(
        on_epoch_begin=lambda *_: clock.append(time.perf_counter()),
        on_epoch_end=lambda *_: clock.append(time.perf_counter()),
    )
    fit(*arguments, **named, verbose=0, callbacks=[watch])
    return clock[1] - clock[0]


def fit_on_arrays(workload: Any, batch: int, steps: int) -> Callable[[int], float]:
    """What most people write: `compile`, then `fit` on float32 arrays. Trains so many steps; returns their seconds."""
    import keras

    data = images(batch, steps)
    inputs = data["train_images"][..., None].astype("float32") / 255
    targets = keras.utils.to_categorical(data["train_labels"], 10)
    model = workload.model()
    model.compile(optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"])

    def train(count: int) -> float:
        return epoch_seconds(model.fit, inputs[: count * batch], targets[: count * batch], batch_size=batch)

    return train


def tuned_fit(workload: Any, batch: int, steps: int) -> Callable[[int], float]:
    """`fit` as an expert has it: tf.data from memory with prefetch, bytes to the step, an epoch in one execution."""
    import tensorflow as tf

    data = images(batch, steps)
    with tf.device("CPU"):
        pixels, labels = tf.constant(data["train_images"]), tf.constant(data["train_labels"])
    model = workload.model()
    model.compile(
        optimizer="adam", loss="categorical_crossentropy", metrics=["accuracy"], steps_per_execution=steps,
        jit_compile=False,
    )  # fmt: skip

    def prepared(picture: Any, label: Any) -> tuple[Any, Any]:
        return tf.cast(picture, tf.float32)[..., None] / 255, tf.one_hot(label, 10)

    def train(count: int) -> float:
        source = tf.data.Dataset.from_tensor_slices((pixels[: count * batch], labels[: count * batch]))
        return epoch_seconds(model.fit, source.batch(batch).map(prepared).prefetch(tf.data.AUTOTUNE))

    return train

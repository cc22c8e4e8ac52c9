"""Made-up files that learning runs leave beside their records."""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np

from whichdevice.records.schema import Artefact, Record

CLASSES = {
    "mnist": list("0123456789"),
    "fashion_mnist": [
        "T-shirt", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot",
    ],
}  # fmt: skip


def add_artefacts(record: Record, folder: Path) -> None:
    """Write what a learning run leaves beside its record, and declare it."""
    folder.mkdir(parents=True, exist_ok=True)
    module, dataset = record.asked.module, record.asked.dataset
    random = np.random.default_rng(3)
    if module == "shakespeare_lstm":
        line = "KING RICHARD II:\nWhat say'st thou of $5 & <no>? The winter of our discont\x02ent\nMade glorious.\n"
        samples = [{"epoch": epoch.epoch, "texts": [line * 3] * 2} for epoch in record.epochs]
        (folder / "samples.json").write_text(json.dumps(samples), encoding="utf-8")
        _declare(record, folder, "samples", "samples.json")
    elif module == "weather_gru":
        np.savez_compressed(folder / "forecast.npz", **forecast(random))
        _declare(record, folder, "forecast", "forecast.npz")
    elif dataset in CLASSES:
        made = predictions(dataset, random)
        record.results["misclassified"] = int((made["predicted"] != made["labels"]).sum())
        np.savez_compressed(folder / "predictions.npz", **made)
        _declare(record, folder, "predictions", "predictions.npz")


def predictions(dataset: str, random: np.random.Generator, images: int = 10_000, wrong: float = 0.02) -> dict[str, Any]:
    """An image classifier's predictions, a share of them wrong, with a gallery of bar-like pictures."""
    labels = random.integers(0, 10, images).astype(np.uint8)
    predicted = np.where(random.random(images) < wrong, (labels + random.integers(1, 10, images)) % 10, labels)
    probabilities = random.random((images, 10)) * 0.05
    probabilities[np.arange(images), predicted] += random.uniform(0.5, 3, images)
    probabilities /= probabilities.sum(axis=1, keepdims=True)
    labels[0] = predicted[0] = 9
    probabilities[0] = 0.1  # a near tie that rounding to float16 hid
    order = np.lexsort((-probabilities.max(axis=1), predicted == labels))
    order = np.concatenate([order[:80], order[-20:]])
    pictures = np.zeros((len(order), 28, 28), np.uint8)
    for picture, index in zip(pictures, order, strict=True):
        picture[4:24, 4 + 2 * labels[index] : 7 + 2 * labels[index]] = 230
        picture[12:15, 6:22] = 180
    return {
        "labels": labels,
        "predicted": predicted.astype(np.uint8),
        "probabilities": probabilities.astype(np.float16),
        "class_names": np.array(CLASSES[dataset]),
        "gallery_index": order,
        "gallery_images": pictures,
    }


def forecast(random: np.random.Generator, steps: int = 900) -> dict[str, Any]:
    """A weather forecast that follows the truth once it is warm."""
    hours = np.arange(steps)
    truth = np.stack(
        [
            8 + 6 * np.sin(hours / 600) + 4 * np.sin(hours * 2 * np.pi / 24) + random.normal(0, 0.7, steps),
            np.abs(6 + np.cumsum(random.normal(0, 0.4, steps)) * 0.3),
            1010 + np.cumsum(random.normal(0, 0.6, steps)),
        ],
        axis=1,
    )
    warm = np.clip(hours / 50, 0, 1)[:, None]
    predicted = truth.mean(axis=0) * (1 - warm) + warm * (truth * 0.85 + truth.mean(axis=0) * 0.15)
    return {
        "times": 1_514_764_800 + 3600 * hours.astype(np.int64),
        "truth": truth.astype(np.float32),
        "predicted": (predicted + random.normal(0, 0.4, truth.shape)).astype(np.float32),
        "names": np.array(["temperature", "wind speed", "pressure"]),
        "units": np.array(["°C", "m/s", "hPa"]),
        "warm_up": 50,
        "split": np.array("validation"),
    }


def _declare(record: Record, folder: Path, name: str, file: str) -> None:
    digest = hashlib.sha256((folder / file).read_bytes()).hexdigest()
    record.artefacts[name] = Artefact(file=file, sha256=digest)

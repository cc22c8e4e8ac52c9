"""Evaluations besides the steps of a training, as `fit` and trainers of libraries state them."""

from types import SimpleNamespace
from typing import Any

import pytest

from whichdevice.models.script.evaluation import of_trainer
from whichdevice.models.script.found import Evaluation


class Loader:
    """A loader with a batch size."""

    batch_size = 128

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches


def transformers(strategy: str, data: Any = range(2000), **settings: Any) -> SimpleNamespace:
    """Hugging Face's trainer with 2,000 examples to evaluate."""
    known = {"per_device_eval_batch_size": 8, "eval_steps": None, "logging_steps": 500, "max_steps": -1}
    args = SimpleNamespace(eval_strategy=strategy, gradient_accumulation_steps=4, **known | settings)
    return SimpleNamespace(args=args, eval_dataset=data, state=SimpleNamespace(max_steps=3000))


def lightning(interval: float, epochs: int | None, most: float = 1.0, **given: Any) -> SimpleNamespace:
    """Lightning's trainer with a loader of 79 batches, and of 1,000 to train."""
    loaders = given.get("loaders", Loader(79))
    return SimpleNamespace(
        check_val_every_n_epoch=epochs, val_check_interval=interval, limit_val_batches=most,
        val_dataloaders=loaders, num_training_batches=given.get("training", 1000),
    )  # fmt: skip


TRAINERS = {
    "none": (transformers("no"), []),
    "each epoch": (transformers("epoch"), [Evaluation(None, 250, 8, 1, split=True)]),
    "each 200 steps": (
        transformers("steps", eval_steps=200), [Evaluation(None, 250, 8, 200, "step", split=True, passes=4)]
    ),
    "a tenth of all steps": (
        transformers("steps", eval_steps=0.1), [Evaluation(None, 250, 8, 300, "step", split=True, passes=4)]
    ),
    "as often as it logs": (
        transformers("steps"), [Evaluation(None, 250, 8, 500, "step", split=True, passes=4)]
    ),
    "each 5 epochs": (lightning(1.0, 5), [Evaluation(None, 79, 128, 5, split=True)]),
    "twice an epoch": (lightning(0.5, 1), [Evaluation(None, 79, 128, 0.5, split=True)]),
    "each 100 batches": (lightning(100, None), [Evaluation(None, 79, 128, 100, "step", split=True)]),
    "each 300 batches of an epoch": (lightning(300, 1), [Evaluation(None, 79, 128, 1 / 3, split=True)]),
    "twice in each other epoch": (lightning(500, 2), [Evaluation(None, 79, 128, 1, split=True)]),
    "each 500 batches of a stream": (
        lightning(500, 1, training=float("inf")), [Evaluation(None, 79, 128, 500, "step", split=True)]
    ),
    "each other epoch of a stream": (
        lightning(500, 2, training=float("inf")), [Evaluation(None, 79, 128, None, split=True)]
    ),
    "loaders with names": (
        lightning(1.0, 1, loaders={"a": Loader(79), "b": Loader(8)}),
        [Evaluation(None, 79, 128, 1, split=True), Evaluation(None, 8, 128, 1, split=True)],
    ),
    "data sets with names": (
        transformers("epoch", {"a": range(2000), "b": range(9)}), [Evaluation(None, 252, 8, 1, split=True)]
    ),
    "a stream with a name": (
        transformers("epoch", {"a": range(2000), "b": iter([])}), [Evaluation(None, None, 8, 1, split=True)]
    ),
    "a few batches": (lightning(1.0, 1, 20), [Evaluation(None, 20, 128, 1, split=True)]),
    "no batches": (lightning(1.0, 1, 0), []),
}  # fmt: skip


@pytest.mark.parametrize("case", TRAINERS)
def test_a_trainer_says_how_often_it_evaluates(case: str) -> None:
    trainer, expected = TRAINERS[case]
    assert of_trainer(trainer) == expected


class Hostile:
    """An object of the script's own that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_what_is_no_trainer_or_hides_what_it_has_states_nothing() -> None:
    assert of_trainer(SimpleNamespace(epochs=3)) is None and of_trainer(Hostile()) is None
    hidden = SimpleNamespace(args=SimpleNamespace(eval_strategy="epoch"), eval_dataset=[1])
    assert of_trainer(hidden) == [Evaluation(None, None, 1, None)]

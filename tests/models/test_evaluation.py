"""Evaluations besides the steps of a training, as `fit` and trainers of libraries state them."""

from types import SimpleNamespace
from typing import Any

import pytest
from beside import beside

from whichdevice.models.script.evaluation import of_trainer
from whichdevice.models.script.found import Evaluation


class Loader:
    """A loader with a batch size."""

    batch_size = 128

    def __init__(self, batches: int) -> None:
        self.batches = batches

    def __len__(self) -> int:
        return self.batches


def transformers(strategy: str, data: str = "", **settings: Any) -> SimpleNamespace:
    """Hugging Face's trainer with 2,000 examples to evaluate, or data sets with names."""
    known = {"per_device_eval_batch_size": 8, "eval_steps": None, "logging_steps": 500, "max_steps": -1}
    args = SimpleNamespace(eval_strategy=strategy, gradient_accumulation_steps=4, **known | settings)
    return SimpleNamespace(args=args, eval_dataset=DATA.get(data, range(2000)), state=SimpleNamespace(max_steps=3000))


def lightning(interval: float, epochs: int | None, most: float = 1.0, **given: Any) -> SimpleNamespace:
    """Lightning's trainer with a loader of 79 batches, and of 1,000 to train."""
    named = {name: Loader(batches) for name, batches in given.get("loaders", {}).items()}
    return SimpleNamespace(
        check_val_every_n_epoch=epochs, val_check_interval=interval, limit_val_batches=most,
        val_dataloaders=named or Loader(79), num_training_batches=given.get("training", 1000),
    )  # fmt: skip


TRAINERS = beside(__file__)
DATA = {"two": {"a": range(2000), "b": range(9)}, "a stream": {"a": range(2000), "b": iter([])}}


@pytest.mark.parametrize("case", TRAINERS)
def test_a_trainer_says_how_often_it_evaluates(case: str) -> None:
    settings, expected = TRAINERS[case]
    trainer = transformers(**settings) if "strategy" in settings else lightning(**settings)
    assert of_trainer(trainer) == [Evaluation(split=True, **each) for each in expected]


class Hostile:
    """An object of the script's own that raises whatever is asked of it."""

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError(name)


def test_what_is_no_trainer_or_hides_what_it_has_states_nothing() -> None:
    assert of_trainer(SimpleNamespace(epochs=3)) is None and of_trainer(Hostile()) is None
    hidden = SimpleNamespace(args=SimpleNamespace(eval_strategy="epoch"), eval_dataset=[1])
    assert of_trainer(hidden) == [Evaluation(None, 1, None)]

"""Evaluations besides the steps of a training, as far as a trainer of PyTorch states them.

    of_trainer(trainer)    # of Hugging Face or Lightning

What a loop of the script's own evaluates is part of what scripts take beyond their steps (`base/habits.py`).
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from whichdevice.models.script.amounts import attribute
from whichdevice.models.script.found import Evaluation, Per


def batch_size_of(loader: Any) -> int | None:
    """Examples of each batch of a loader; None where it states no number."""
    for held in (loader, attribute(loader, "batch_sampler")):
        size = attribute(held, "batch_size")
        if type(size) is int and size > 0:
            return size
    return None


def of_trainer(trainer: Any) -> list[Evaluation] | None:
    """Return the evaluation of a trainer of Hugging Face or Lightning; None: it is none."""
    try:
        if attribute(attribute(trainer, "args"), "eval_strategy") is not None:
            return _of_transformers(trainer)
        if attribute(trainer, "limit_val_batches") is not None:
            return _of_lightning(trainer)
    except Exception:  # of the script's own data or settings
        return [Evaluation(None, 1, None)]
    return None


def _of_transformers(trainer: Any) -> list[Evaluation]:
    """The evaluation of Hugging Face's `Trainer`: its processes share the examples."""
    settings, data = trainer.args, getattr(trainer, "eval_dataset", None)
    strategy = str(getattr(settings.eval_strategy, "value", settings.eval_strategy))
    if strategy == "no" or data is None:
        return []
    size = int(settings.per_device_eval_batch_size)
    batches: int | None = None
    if not attribute(settings, "predict_with_generate"):  # else its tokens come one by one
        with suppress(TypeError):  # of a stream
            batches = sum(-(-len(part) // size) for part in (_in_tree(data) if isinstance(data, Mapping) else [data]))
    if strategy == "epoch":
        return [Evaluation(batches, size, 1, "epoch", split=True)]
    every = settings.eval_steps or settings.logging_steps
    steps = settings.max_steps if settings.max_steps > 0 else trainer.state.max_steps
    every = every * steps if every < 1 and steps > 0 else every  # a share of all
    passes = int(settings.gradient_accumulation_steps)
    return [Evaluation(batches, size, float(every), "step", split=True, passes=passes)]


def _of_lightning(trainer: Any) -> list[Evaluation]:
    """The validation of Lightning's `Trainer`: it gives each process its own part of the batches."""
    loaders = list(_in_tree(getattr(trainer, "val_dataloaders", None)))
    if not loaders or not trainer.limit_val_batches:
        return []
    most, interval = trainer.limit_val_batches, trainer.val_check_interval
    evaluations = []
    for loader in loaders:
        try:
            batches: float | None = len(loader)
        except TypeError:
            batches = None if isinstance(most, float) else most
        if batches is not None:
            batches = int(batches * most) if isinstance(most, float) else min(batches, most)
        size = batch_size_of(loader) or 1
        per, every = _each(interval, trainer.check_val_every_n_epoch, getattr(trainer, "num_training_batches", None))
        evaluations.append(Evaluation(batches, size, every, per, split=True))
    return evaluations


def _each(interval: float, epochs: int | None, batches: float | None) -> tuple[Per, float | None]:
    """How often Lightning validates: each so many batches, in each so many epochs, or a part of an epoch's."""
    if not isinstance(interval, int):
        return "epoch", (epochs or 1) * interval
    known = batches if batches is not None and math.isfinite(batches) else None
    if epochs is None or (epochs == 1 and known is None):
        return "step", interval
    times = int(known or 0) // interval
    return "epoch", epochs / times if times else None


def _in_tree(data: Any) -> Iterator[Any]:
    """The data sets or loaders in dictionaries and lists."""
    if isinstance(data, Mapping | list | tuple):
        for part in data.values() if isinstance(data, Mapping) else data:
            yield from _in_tree(part)
    elif data is not None:
        yield data
